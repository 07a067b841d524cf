"""The real `survey randomize` in a process of its own, killed with SIGKILL as it writes and as it commits."""

import copy
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from survey_world import SPEC, WAVE, World, answers, in_a_group

from dp_spark.release.profile import embedded_profile

PEOPLE = 10_000
DEADLINE = 120  # seconds
DP_SPARK = Path(sys.executable).with_name("dp-spark")
COMMAND = [str(DP_SPARK), "survey", "randomize", "survey.yaml", "--wave", WAVE]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> World:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    made = World(home, spark)
    (home / "survey.yaml").write_text(SPEC)
    made.write(answers(range(PEOPLE)))
    made.open()
    return made


def until(seen: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    """Wait until it is so; the process must not end before."""
    end = time.monotonic() + DEADLINE
    while not seen():
        assert process.poll() is None, "it came to its end"
        assert time.monotonic() < end
        time.sleep(0.002)


@contextmanager
def no_commit(world: World) -> Iterator[None]:
    """Whoever writes to the ledger meanwhile waits: a run that is about to commit gets no further."""
    ledger = sqlite3.connect(world.profile.ledger_url.removeprefix("sqlite:///"), isolation_level=None)
    ledger.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        ledger.execute("ROLLBACK")
        ledger.close()


def killed_run(world: World, seen: Callable[[Path], bool]) -> None:
    """Run the command until `seen` is true of the directory that it writes, then kill it and its JVM."""
    before = set(world.files("batch-*"))
    mine: list[Path] = []

    def begun() -> bool:
        mine[:] = [world.zone / name for name in world.files("batch-*") if name not in before]
        return bool(mine)

    with subprocess.Popen(
        COMMAND, cwd=world.home, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(begun, process)
            with no_commit(world):
                until(lambda: seen(mine[0]), process)
                os.killpg(process.pid, signal.SIGKILL)
                assert process.wait(DEADLINE) == -signal.SIGKILL
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def is_writing(batch: Path) -> bool:
    """Whether a task has begun a file that is no part of the batch yet."""
    return any((batch / "_temporary").rglob("*.parquet"))


def is_committing(batch: Path) -> bool:
    """Whether Spark was done with the batch half a second ago: it is sealed, and waits for the ledger."""
    whole = batch / "_SUCCESS"
    return whole.exists() and time.time() - whole.stat().st_mtime > 0.5


def test_killed_as_it_writes_and_as_it_commits_it_asks_nobody_twice(world: World) -> None:
    calm = copy.copy(world)
    calm.home = Path(shutil.copytree(world.home, world.home.with_name("calm")))
    calm.profile = embedded_profile(calm.home)  # the same ledger and keys, where nobody is killed
    calm.randomize()
    for seen in (is_writing, is_committing):
        killed_run(world, seen)
        assert world.record().batches == ()
    assert len(world.files("batch-*")) == 2
    assert world.randomize().new == in_a_group(range(PEOPLE))
    assert world.reports() == calm.reports()
    assert world.files("batch-*") == [Path(batch.path).name for batch in world.record().batches]
    world.close()
    assert world.files("batch-*") == []
    assert world.record().reports == in_a_group(range(PEOPLE))
