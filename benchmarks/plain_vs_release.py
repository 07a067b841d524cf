"""How much a complete release costs beside the plain, non-private query, in one Spark session.

    python benchmarks/plain_vs_release.py [--rows 10000000] [--runs 3]

Rows: as many visits of a tenth as many people to 1,000 places, as Parquet (made once, kept in the
temporary directory). Plain: count, sum and mean of each place, collected. Release: count, sum and
distinct people under max_groups 5 and max_rows_per_group 3, from reading to the staged artefact. The two
run in turn; wall seconds are medians of the runs after one warm-up, CPU seconds are of this process and all
below it (Spark's JVM, Python workers).
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.privatize import collect_totals, estimates, noisy_totals
from dp_spark.frames.session import start_session
from dp_spark.publish import artefact_digest, released_table, write_artefact
from dp_spark.release.period import period_window
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

PLACES = 1000


def visits(spark: SparkSession, rows: int) -> DataFrame:
    """The generated table; of 10 M rows, 89 % are the first of their person and place."""
    path = Path(tempfile.gettempdir()) / f"dp_spark_visits_{rows}"
    if not (path / "_SUCCESS").exists():
        people = max(1, rows // 10)
        uniform = F.pmod(F.xxhash64("id", F.lit("place")), F.lit(10**6)) / 10**6
        spark.range(rows).select(
            F.format_string("person-%07d", F.pmod(F.xxhash64("id"), F.lit(people))).alias("person"),
            F.format_string("place-%03d", F.floor(PLACES * F.pow(uniform, 4))).alias("place"),
            (F.pmod(F.xxhash64("id", F.lit("euros")), F.lit(10_000)) / 100).alias("euros"),
        ).write.mode("overwrite").parquet(str(path))
    return spark.read.parquet(str(path))


def spec() -> ReleaseSpec:
    """The release that is measured; its input is passed as a frame."""
    return ReleaseSpec(
        release="visits",
        input={"format": "parquet", "path": "in"},
        unit={"column": "person", "on_null": "drop"},
        bounds={"max_groups": 5, "max_rows_per_group": 3},
        group_by=["place"],
        groups={"public": [f"place-{i:03d}" for i in range(PLACES)]},
        guarantee={"epsilon": 1, "delta": "1e-6"},
        queries=[
            {"name": "visits", "kind": "count"},
            {"name": "spent", "kind": "sum", "column": "euros", "lower": 0, "upper": 100, "step": "0.01"},
            {"name": "people", "kind": "ids"},
        ],
        budget={"population": "people"},
        publish=[{"sink": "parquet", "path": "out"}],
    )


def tree_cpu_seconds() -> float:
    """User and system seconds of this process and of all that descend from it."""
    ticks, children = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))  # with children that have ended
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


def measured(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one call."""
    cpu, wall = tree_cpu_seconds(), time.perf_counter()
    action()
    return time.perf_counter() - wall, tree_cpu_seconds() - cpu


def main() -> None:
    """Measure and print."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()

    spark = start_session({"spark.driver.memory": "4g"})
    frame = visits(spark, given.rows)
    plan, window = plan_release(spec()), period_window(None, "2024-01-01")
    scratch = Path(tempfile.mkdtemp())

    def plain() -> None:
        frame.groupBy("place").agg(F.count("*"), F.sum("euros"), F.avg("euros")).collect()

    def release() -> None:
        key = os.urandom(32)
        totals = collect_totals(frame, plan=plan, window=window, release_key=key)
        answers = estimates(noisy_totals(totals, plan=plan, window=window, release_key=key), plan)
        table = released_table(plan, answers, period_start=date(2024, 1, 1), release_id="r", revision=0)
        artefact_digest(table)
        write_artefact(table, scratch / "staged.parquet")

    runs = [(measured(plain), measured(release)) for _ in range(given.runs + 1)][1:]
    for what, index in (("wall seconds", 0), ("CPU seconds", 1)):
        plains, releases = ([run[side][index] for run in runs] for side in (0, 1))
        ratios = [private / public for public, private in zip(plains, releases, strict=True)]
        print(
            f"{given.rows:,} rows, {what}: plain {statistics.median(plains):.2f}, "
            f"release {statistics.median(releases):.2f}, ratio {statistics.median(ratios):.1f} "
            f"({min(ratios):.1f} to {max(ratios):.1f})"
        )
    spark.stop()


if __name__ == "__main__":
    main()
