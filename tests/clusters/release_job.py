"""One release on any Spark: prints, as a line of JSON, its digest under each way of running it.

The key is fixed and comes from a file, so that one answer can be asked for everywhere. The input is the
directory `in` where it runs. `--life` goes through the whole life of the release, with the ledger that is
there, and not only through its numbers.

`--meddle` interferes with the release's Arrow stages, through pyspark's public method and not through
dp_spark: workers behind a shuffle wait until the test has done its worst, or die.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark
from pyspark.sql import SparkSession

from dp_spark.cli.guard import guarded
from dp_spark.cli.running import run_command
from dp_spark.frames.collect import collect_totals
from dp_spark.frames.privatize import estimates, noisy_totals
from dp_spark.frames.session import pinned, start_session
from dp_spark.frames.sources import open_source
from dp_spark.publish import artefact_digest, released_table
from dp_spark.release.ledger import Ledger
from dp_spark.release.period import period_window
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec

KEY_OF_PERIOD = "2024-03-04"
RELEASE_ID = f"town_people/trial/{KEY_OF_PERIOD}/0"
PATIENCE = 90.0  # seconds that a held worker waits for the test before it goes on alone


# Queries of many kinds of two crossed columns and of one alone, with bounds that bind.
SPEC = """
release: trial
input: {format: parquet, path: in}
period: {column: at, every: week, timezone: Europe/Berlin}
unit: {column: person, on_null: drop}
bounds: {max_groups: 2, max_rows_per_group: 3}
group_by: [town, kind]
rollup: [[town]]
groups: {public: {town: [a, b, c], kind: [x, y, z]}}
guarantee: {epsilon: 1, delta: 1e-6}
queries:
  - {name: n, kind: count}
  - {name: total, kind: sum, column: v, lower: -10, upper: 20}
  - {name: middle, kind: mean, column: v, lower: -10, upper: 20}
  - {name: people, kind: ids}
  - {name: spread, kind: std, column: v, lower: -10, upper: 20, weight: {column: v, upper: 5}}
  - {name: kinds, kind: distinct, column: kind, values: [x, y]}
  - {name: half, kind: quantiles, column: v, edges: {start: -10, stop: 20, step: 2}, at: [0.5]}
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--settings", type=json.loads, default={}, help="of the Spark session, as JSON")
    parser.add_argument("--ways", type=json.loads, default=[{}], help='[{"partitions": n, "conf": {...}}]')
    parser.add_argument("--life", action="store_true", help="from plan to seal, with a ledger")
    parser.add_argument("--meddle", choices=list(MEDDLERS), help="what befalls the Arrow stages")
    parser.add_argument("--marks", type=Path, help="where meddled workers leave their marks")
    parser.add_argument("--unkeyed", action="store_true", help="rows drop out by numpy's generator")
    parser.add_argument("--tell", type=Path, help="where to write what Spark tells of the query")
    given = parser.parse_args()
    key = given.key_file.read_bytes()
    if given.meddle:
        meddle(MEDDLERS[given.meddle], given.marks)
    if given.tell:
        tell_plans(given.tell)
    if given.life:
        return live(key)
    session = start_session(given.settings)
    for way in given.ways:
        print(json.dumps(answer(session, way, given, key)), flush=True)
    return 0


def answer(session: SparkSession, way: dict[str, Any], given: argparse.Namespace, key: bytes) -> Any:
    """The digest of the release under one way of running it."""
    spec = parse_spec(SPEC)
    plan, window = plan_release(spec), period_window(spec.period, KEY_OF_PERIOD)
    for name, value in way.get("conf", {}).items():
        session.conf.set(name, value)
    with pinned(session):
        frame = open_source(session, spec.input)
        if "partitions" in way:
            frame = frame.repartition(way["partitions"])
        if given.unkeyed:
            frame = frame.mapInArrow(without_some_rows(given.marks), frame.schema)
        exact = collect_totals(frame, plan=plan, window=window, release_key=key)
    noisy = noisy_totals(exact, plan=plan, window=window, release_key=key)
    table = released_table(
        plan, estimates(noisy, plan), period_start=window.start, release_id=RELEASE_ID, revision=0
    )
    return {"digest": artefact_digest(table), "spark": pyspark.__version__, "way": way}


def live(key: bytes) -> int:
    """The release from plan to seal, under the fixed key."""
    Ledger.release_key = lambda ledger, claim: key  # type: ignore[method-assign]
    Path("release.yaml").write_text(SPEC)
    return guarded(
        lambda: run_command(Path("release.yaml"), KEY_OF_PERIOD, profile=None, as_json=True), as_json=True
    )


# What may befall the workers of a stage behind a shuffle.


def mark(marks: Path, name: str) -> bool:
    """Leave a mark with the executor's process; False if it was there."""
    try:
        with (marks / name).open("x") as file:
            file.write(str(_executor()))
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """The JVM above this Python worker: its daemon's parent, or its own."""
    process = os.getppid()
    while "java" not in os.readlink(f"/proc/{process}/exe"):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def _await(happened: Callable[[], bool]) -> None:
    patient = time.monotonic() + PATIENCE
    while not happened() and time.monotonic() < patient:
        time.sleep(0.05)


def _attempt(marks: Path, partition: int) -> int:
    return next(n for n in range(1000) if mark(marks, f"reduce-{partition}-{n}"))


def hold(marks: Path, partition: int) -> None:
    """Wait for the file `go`."""
    _attempt(marks, partition)
    _await((marks / "go").exists)


def lag(marks: Path, partition: int) -> None:
    """The first attempt at partition 0 waits for a second one to begin, and a while longer."""
    if _attempt(marks, partition) == 0 and partition == 0:
        _await((marks / "reduce-0-1").exists)
        time.sleep(1)


def die(marks: Path, partition: int) -> None:
    """The Python worker is killed, whenever it is tried."""
    _attempt(marks, partition)
    os.kill(os.getpid(), signal.SIGKILL)


def blab(marks: Path, partition: int) -> None:
    """The worker fails as a careless library would: see `befallen`."""
    _attempt(marks, partition)


MEDDLERS: dict[str, Callable[[Path, int], None]] = {"hold": hold, "lag": lag, "die": die, "blab": blab}


def meddle(befall: Callable[[Path, int], None], marks: Path) -> None:
    """Wrap the functions that the release gives to pyspark for what happens behind a shuffle."""
    frame_class = classic_frame()
    genuine = frame_class.mapInArrow

    def arrow_stage(frame: Any, function: Any, *rest: Any, **named: Any) -> Any:
        plan = frame._jdf.queryExecution().analyzed().toString()
        # The look at a worker's Python, at a range of one number, is left in peace.
        behind_a_shuffle = "Repartition" in plan and "Range" not in plan
        return genuine(
            frame, befallen(function, befall, marks) if behind_a_shuffle else function, *rest, **named
        )

    frame_class.mapInArrow = arrow_stage


def befallen(function: Any, befall: Callable[[Path, int], None], marks: Path) -> Any:
    """The function, after what befalls its worker."""

    def stage(batches: Iterator[Any]) -> Iterator[Any]:
        befall(marks, partition_of_task())
        if befall.__name__ == "blab":
            raise ValueError(f"cannot read {next(batches).to_pylist()}")
        yield from function(batches)

    return stage


def without_some_rows(marks: Path) -> Any:
    """A stage in which half of the rows drop out, by a generator that starts anew in each attempt.

    Undisturbed runs agree with each other, so that a disturbed one can be told from them.
    """

    def stage(batches: Iterator[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        partition = partition_of_task()
        attempt = next(n for n in range(1000) if mark(marks, f"map-{partition}-{n}"))
        generator = np.random.default_rng([partition, attempt])
        for batch in batches:
            yield batch.filter(pa.array(generator.random(batch.num_rows) < 0.5))

    return stage


def partition_of_task() -> int:
    """Where the running task is."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def classic_frame() -> Any:
    """The class of frames without Connect."""
    try:
        from pyspark.sql.classic.dataframe import DataFrame
    except ImportError:  # pyspark 3.5
        from pyspark.sql import DataFrame
    return DataFrame


def tell_plans(place: Path) -> None:
    """Before a frame is fetched, write down what Spark tells of it: plans, settings, pages of the UI."""
    frame_class = classic_frame()
    genuine = frame_class.toArrow

    def fetched(frame: Any) -> Any:
        with (place / "explain.txt").open("w") as file, redirect_stdout(file):
            frame.explain(True)
            frame.explain("formatted")
            frame.explain("codegen")
        table = genuine(frame)
        context = frame.sparkSession.sparkContext
        (place / "settings.txt").write_text("\n".join(map(repr, context.getConf().getAll())))
        pages = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
        for page in ("environment", "sql?details=true&planDescription=true", "jobs", "stages?details=true"):
            with urlopen(f"{pages}/{page}") as told:
                (place / f"{page.partition('?')[0]}.json").write_bytes(told.read())
        return table

    frame_class.toArrow = fetched


if __name__ == "__main__":
    sys.exit(main())
