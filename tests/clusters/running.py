"""Starts release_job.py and Spark clusters in processes of their own, and leaves nothing of them behind."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, load_profile, render_profile

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("release_job.py")
KEY = hashlib.sha256(b"the key of the tests").digest()
CANARY = "canary-4711"
START = date(2024, 3, 4)
LONGEST = 400  # seconds a job may take on a busy machine
DRIVER_OPTIONS = "SPARK_SUBMIT_OPTS"  # tests set it; executors are started with the same
# Both executors take part, and no partition is merged with another.
APART = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": "20000",
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ.get(DRIVER_OPTIONS, ""),
}


@dataclass(frozen=True)
class Place:
    """A directory with input, key, workers' marks, and a Spark home whose traces go with it."""

    path: Path
    python: str = sys.executable

    @property
    def marks(self) -> Path:
        return self.path / "marks"

    @property
    def spark_home(self) -> Path:
        return self.path / "spark"

    def arguments(self) -> list[str]:
        return ["--key-file", str(self.path / "key"), "--marks", str(self.marks)]


def make_place(path: Path, rows: pa.Table | None = None, *, python: str = sys.executable) -> Place:
    """A place with six files of rows, where workers leave no marks yet, for the Spark of this Python."""
    place = Place(path, python)
    (path / "in").mkdir(parents=True)
    place.marks.mkdir()
    (path / "key").write_bytes(KEY)
    rows = some_rows() if rows is None else rows
    for i in range(6):
        pq.write_table(rows.slice(i * len(rows) // 6, len(rows) // 6), path / "in" / f"part-{i}.parquet")
    # Links into the package: a local cluster writes its work directory beside them.
    place.spark_home.mkdir()
    for part in package_of(python).iterdir():
        (place.spark_home / part.name).symlink_to(part)
    return place


def package_of(python: str) -> Path:
    """Where a Python has pyspark."""
    if python == sys.executable:
        return Path(pyspark.__file__).parent
    told = subprocess.run([python, "-c", "import pyspark; print(pyspark.__file__)"], stdout=-1, check=True)
    return Path(told.stdout.decode().strip()).parent


def some_rows() -> pa.Table:
    """Six thousand rows of two hundred people, over the bounds, with duplicates, NULL, NaN, days outside."""
    rng = np.random.default_rng(5)
    number = 5400
    people = [f"{CANARY}-{rng.integers(200)}" if i % 50 else None for i in range(number)]
    values = [
        None if i % 31 == 0 else float("nan") if i % 37 == 0 else round(float(rng.normal(5, 9)), 1)
        for i in range(number)
    ]
    rows = pa.table(
        {
            "person": people,
            "town": ["abcd"[i] for i in rng.integers(4, size=number)],
            "kind": ["xyz"[i] for i in rng.integers(3, size=number)],
            "v": values,
            "at": [START + timedelta(days=int(i)) for i in rng.integers(-1, 8, size=number)],
        }
    )
    return pa.concat_tables([rows, rows.slice(0, 600)]).combine_chunks()


def make_life(place: Place, settings: Mapping[str, str], ledger_url: str | None = None) -> None:
    """A profile, a ledger and a budget of one release in the place; Spark as `settings` say.

    Without a URL the ledger is a file, which serves Spark on this machine only.
    """
    named = {} if ledger_url is None else {"ledger_url": ledger_url}
    (place.path / "dp_spark.toml").write_text(render_profile(spark=settings, **named))
    profile = profile_of(place)
    make_places(profile)
    open_ledger(profile).set_budget(
        "town_people",
        PrivacyGuarantee(Fraction(1), Fraction(1, 10**6)),
        unit=PrivacyUnit(("person",)),
        neighbours=Neighbours.ADD_REMOVE,
        reason="a test",
    )


def profile_of(place: Place) -> Profile:
    """The profile of a place that has a life."""
    return load_profile(str(place.path / "dp_spark.toml"), env={})


def spent(place: Place) -> Fraction:
    """The epsilon that the ledger has charged."""
    return open_ledger(profile_of(place)).budget("town_people").spent.epsilon


def environment(place: Place, **more: str) -> dict[str, str]:
    """The environment of a process: ours, with the Spark of the place instead of any other."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {
        **own,
        DRIVER_OPTIONS: os.environ.get(DRIVER_OPTIONS, ""),
        "SPARK_HOME": str(place.spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(place.path / "local"),
        "PYSPARK_PYTHON": place.python,
        "PYSPARK_DRIVER_PYTHON": place.python,
        **more,
    }


@dataclass(frozen=True)
class Outcome:
    """How a process ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    @property
    def digests(self) -> set[str]:
        """The digests that the job printed; the run must have gone well."""
        assert self.code == 0, self.err[-4000:]
        return {line["digest"] for line in self.lines}


class Running:
    """A process in a session of its own, by which all its descendants are found."""

    def __init__(self, command: Sequence[str], place: Place, name: str, **more: str) -> None:
        self.out, self.err = (place.path / f"{name}.{kind}" for kind in ("out", "err"))
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                list(command),
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                cwd=place.path,
                env=environment(place, **more),
                start_new_session=True,
            )

    def wait(self) -> Outcome:
        code = self.process.wait(timeout=LONGEST)
        return Outcome(code, self.out.read_text(errors="replace"), self.err.read_text(errors="replace"))

    def members(self) -> list[int]:
        """The processes of the session: descendants stay in it, also when their parents have gone."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:  # it has ended
                    continue
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        for _ in range(50):
            members = self.members()
            if not members:
                break
            for member in members:
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
        self.process.wait(timeout=10)


@contextmanager
def running(command: Sequence[str], place: Place, name: str = "job", **more: str) -> Iterator[Running]:
    """The command in a process of its own; on the way out, it and its descendants are ended."""
    process = Running(command, place, name, **more)
    try:
        yield process
    finally:
        process.end()


def job_command(place: Place, settings: Mapping[str, str], *arguments: str) -> list[str]:
    """release_job.py over the input of the place, in a session with these settings."""
    given = [*place.arguments(), "--settings", json.dumps({"spark.sql.shuffle.partitions": "4", **settings})]
    return [place.python, str(JOB), *given, *arguments]


def run_job(place: Place, settings: Mapping[str, str], *arguments: str, **more: str) -> Outcome:
    """How release_job.py ends and what it says."""
    with running(job_command(place, settings, *arguments), place, **more) as job:
        return job.wait()


def wait_until(happened: Callable[[], bool], what: str, job: Running | None = None) -> None:
    """Wait for something that must come; a job that ends before is told with what it said."""
    patient = time.monotonic() + LONGEST
    while not happened():
        if job is not None and job.process.poll() is not None:
            raise AssertionError(f"{what} did not come before the job ended:\n{job.err.read_text()[-4000:]}")
        assert time.monotonic() < patient, f"{what} did not come"
        time.sleep(0.05)


@contextmanager
def standalone_cluster(place: Place) -> Iterator[str]:
    """A master and two workers from the installed package, on two addresses of this machine; its URL."""
    port, pages, *others = free_ports(4)
    node = [str(place.spark_home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    master = f"spark://127.0.0.1:{port}"

    def command(role: str, *rest: str) -> list[str]:
        return [node[0], f"{node[1]}.{role}", *rest]

    start = command("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(pages))
    with running(start, place, "master"):
        workers = []
        try:
            for i, page in enumerate(others):
                host = f"127.0.0.{i + 1}"  # copies of a slow task go to another host only
                rest = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", str(page)]
                work = ["--work-dir", str(place.path / f"work-{i}")]
                workers.append(
                    Running(
                        command("worker.Worker", master, *rest, *work),
                        place,
                        f"worker-{i}",
                        SPARK_LOCAL_IP=host,
                        SPARK_WORKER_OPTS="-Dspark.worker.cleanup.enabled=false",
                    )
                )
            wait_until(lambda: alive_workers(pages) == 2, "two workers")
            yield master
        finally:
            for worker in workers:
                worker.end()


def alive_workers(pages: int) -> int:
    """How many workers a master knows."""
    try:
        with urlopen(f"http://127.0.0.1:{pages}/json/", timeout=5) as page:
            return int(json.load(page)["aliveworkers"])
    except (OSError, ValueError):  # it has begun to serve, but not yet this page
        return 0


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
