"""What every engine's script does: run the release twice and the plain query twice, and print what they cost.

Runs in the engine's own environment, so it needs nothing but Python and `measuring`.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from measuring import measured, tree_cpu_seconds

PLACES = [f"place-{i:03d}" for i in range(1000)]
MAX_GROUPS, MAX_ROWS_PER_GROUP = 5, 3
LOWER, UPPER = 0.0, 100.0
EPSILON, DELTA = 1.0, 1e-6
QUERIES = 3
# The first characters of the line that tells what was measured; engines print much else.
MARK = "measured: "


@dataclass(frozen=True, slots=True)
class Answers:
    """Sums of the noisy answers over all groups, to see that all engines did the same work."""

    groups: int
    visits: float
    spent: float
    people: float


def table_path() -> str:
    """The Parquet table that the command line names."""
    return sys.argv[1]


def report(
    release: Callable[[], Answers], plain: Callable[[], object] | None, *, version: str, engine: str
) -> None:
    """Measure and print; call it when everything is imported and the session has started.

    `plain` is the query without privacy in the same engine, None where the engine has none.
    """
    release()
    first_cpu = tree_cpu_seconds()  # of the process's whole life: imports, session, first release
    found: list[Answers] = []
    second = measured(lambda: found.append(release()))
    of_plain = None
    if plain is not None:
        plain()
        of_plain = asdict(measured(plain))
    facts = {
        "version": version,
        "engine": engine,
        "whole_cpu": first_cpu,
        "release": asdict(second),
        "plain": of_plain,
        "answers": asdict(found[0]),
    }
    print(f"\n{MARK}{json.dumps(facts)}", flush=True)


def spark_session() -> Any:
    """A session with the settings of ours, for engines that bring a pyspark of their own."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not every engine has Spark

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.master": "local[*]",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def plain_on_spark(frame: Any) -> Callable[[], object]:
    """Count, sum and mean of each place, collected."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return lambda: frame.groupBy("place").agg(F.count("*"), F.sum("euros"), F.avg("euros")).collect()
