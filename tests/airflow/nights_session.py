"""The nights of the scheduler's test: what is run, killed, cleared and doubled in one session of Airflow."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_grid import take_grid
from airflow_server import Airflow, running_airflow, until
from nights_world import DAG_IDS, WAVE, lay

from dp_spark.release.ledger import Ledger, ReleaseId, ReleaseRecord, ReleaseState

LONGEST = 540  # seconds, of a wait; all of them together take four minutes on a machine that is not busy
RANDOMIZE, ESTIMATE = f"work_{WAVE}_randomize", f"work_{WAVE}_estimate"


@dataclass(frozen=True, slots=True)
class Nights:
    """What is left when everything has ended.

    Attributes:
        keys: of the night that was filled in later, and of the two that the scheduler ran.
        doubled: the run by hand of the first.
        dear: the run that no budget admits.
        before_clearing: what the ledger knew of the second before its task was cleared.
    """

    home: Path
    keys: tuple[str, str, str]
    airflow: Airflow
    ledger: Ledger
    doubled: str
    dear: str
    before_clearing: ReleaseRecord

    def run_of(self, key: str) -> str:
        return run_of(self.airflow, key)

    def events(self) -> list[dict[str, Any]]:
        return list(self.airflow.ask("assets/events")["asset_events"])


@contextmanager
def nights_of(home: Path) -> Iterator[Nights]:
    """Run everything in a home, and leave Airflow running for questions."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    ledger = lay(home, today)
    filled, cleared, killed = ((today - timedelta(days)).date().isoformat() for days in (3, 2, 1))
    with running_airflow(home, home / "dags", seconds=LONGEST) as airflow, ThreadPoolExecutor() as aside:
        until(lambda: airflow.ask("dags")["total_entries"] == len(DAG_IDS), seconds=LONGEST)
        for dag in set(DAG_IDS) - {ESTIMATE}:
            airflow.unpause(dag)
        kill = aside.submit(killed_while_reading, ledger, home / "flights.yaml", killed)
        until(lambda: airflow.states(RANDOMIZE) == ["success"], seconds=LONGEST)
        airflow.unpause(ESTIMATE)
        dear = airflow.trigger("dear", key=killed)
        kill.result()
        until(lambda: ended(airflow, "flights", 2) and ended(airflow, ESTIMATE, 1), seconds=LONGEST)
        until(lambda: airflow.states("dear") == ["failed"], seconds=LONGEST)
        before = record(ledger, cleared)
        doubled = doubled_by_backfill(airflow, filled)
        clear(airflow, run_of(airflow, cleared))
        until(lambda: ended(airflow, "flights", 3) and ended(airflow, "by_hand", 1), seconds=LONGEST)
        yield Nights(home, (filled, cleared, killed), airflow, ledger, doubled, dear, before)
        take_grid(airflow, "flights", run_of(airflow, killed))


def record(ledger: Ledger, key: str) -> ReleaseRecord:
    found = ledger.find(ReleaseId("planes", "flights", key))
    assert found is not None
    return found


def run_of(airflow: Airflow, key: str) -> str:
    runs = airflow.runs("flights").values()
    return next(str(run["dag_run_id"]) for run in runs if run["partition_key"] == key)


def killed_while_reading(ledger: Ledger, spec: Path, key: str) -> None:
    """Kill -9 the driver of a privatize task, charged for and not yet staged."""
    release = ReleaseId("planes", "flights", key)
    until(
        lambda: (known := ledger.find(release)) is not None and known.state is ReleaseState.READING,
        seconds=LONGEST,
        every=0.05,
    )
    words = {str(spec).encode(), key.encode(), b"privatize"}
    drivers = [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and words <= set(_words(process))
    ]
    assert drivers
    for driver in drivers:
        os.kill(driver, signal.SIGKILL)
    assert record(ledger, key).state is ReleaseState.READING


def _words(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def ended(airflow: Airflow, dag: str, count: int) -> bool:
    states = airflow.states(dag)
    assert "failed" not in states
    return states == ["success"] * count


def doubled_by_backfill(airflow: Airflow, key: str) -> str:
    """A run by hand and a backfill of one key, both of which have begun; the run by hand."""
    by_hand = airflow.trigger("by_hand", key=key)
    airflow.backfill("flights", key, key)
    until(lambda: _begun(airflow, "by_hand", by_hand, "flights.privatize"), seconds=LONGEST)
    until(lambda: _begun(airflow, "flights", run_of(airflow, key), "privatize"), seconds=LONGEST)
    return by_hand


def _begun(airflow: Airflow, dag: str, run: str, task: str) -> bool:
    found = airflow.tasks(dag, run).get(task)
    return found is not None and found["start_date"] is not None


def clear(airflow: Airflow, run: str) -> None:
    """What an operator does who wants a night again."""
    asked = {"dag_run_id": run, "task_ids": ["privatize"], "only_failed": False}
    airflow.ask("dags/flights/clearTaskInstances", {**asked, "dry_run": False})
    until(lambda: airflow.runs("flights")[run]["state"] != "success", seconds=LONGEST, every=0.1)
