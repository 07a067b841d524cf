"""A real Airflow on loopback for a test: scheduler, processor of DAGs and API, started and stopped whole."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_environment import AIRFLOW, environment


@dataclass(frozen=True, slots=True)
class Airflow:
    """Its API, as an administrator sees it."""

    url: str
    token: str

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method or ("GET" if body is None else "POST"),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def unpause(self, dag: str) -> None:
        self.ask(f"dags/{dag}", {"is_paused": False}, "PATCH")

    def trigger(self, dag: str, **conf: str) -> str:
        run = self.ask(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def backfill(self, dag: str, first: str, last: str) -> None:
        """Have the partitions of some days run."""
        self.ask("backfills", _days(dag, first, last))

    def backfill_would_run(self, dag: str, first: str, last: str) -> list[str]:
        """The partitions that such a backfill would run."""
        return [
            run["partition_key"]
            for run in self.ask("backfills/dry_run", _days(dag, first, last))["backfills"]
        ]

    def runs(self, dag: str) -> dict[str, dict[str, Any]]:
        return {run["dag_run_id"]: run for run in self.ask(f"dags/{dag}/dagRuns")["dag_runs"]}

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        path = f"dags/{dag}/dagRuns/{urllib.request.quote(run)}/taskInstances"
        return {task["task_id"]: task for task in self.ask(path)["task_instances"]}

    def states(self, dag: str) -> list[str]:
        return [run["state"] for run in self.runs(dag).values()]


def _days(dag: str, first: str, last: str) -> dict[str, str]:
    return {"dag_id": dag, "from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z"}


def until(what: Callable[[], Any], *, seconds: float, every: float = 0.5) -> Any:
    """What it answers, as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(every)
    return answer


@contextmanager
def running_airflow(home: Path, dags: Path, seconds: float) -> Iterator[Airflow]:
    """Airflow of a home; its output is there, in `standalone.log`."""
    port, worker, trigger = _free_ports(3)
    settings = {
        **environment(home, dags, port),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    }
    with (home / "standalone.log").open("wb") as log:
        server = subprocess.Popen(
            [AIRFLOW / "airflow", "standalone"],
            env=settings,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,  # with all that it starts, so that nothing of it stays
        )
    try:
        url = f"http://127.0.0.1:{port}"
        token = until(lambda: server.poll() is not None or _token(url), seconds=seconds)
        assert isinstance(token, str), (home / "standalone.log").read_text()[-3000:]
        yield Airflow(url, token)
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # a home that is thrown away needs no farewell
        server.wait()


def _token(url: str) -> str | None:
    try:
        with urllib.request.urlopen(f"{url}/auth/token", timeout=10) as answer:
            return str(json.loads(answer.read())["access_token"])
    except (OSError, urllib.error.URLError):
        return None


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
