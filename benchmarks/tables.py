"""The generated tables, the plain query of them, and the private release that is measured beside it."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.collect import collect_totals
from dp_spark.frames.privatize import estimates, noisy_totals
from dp_spark.frames.selection import select_groups
from dp_spark.frames.session import start_session
from dp_spark.publish import artefact_digest, released_table, write_artefact
from dp_spark.release.period import period_window
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

MAX_ROWS_PER_GROUP = 3
BUSY_ROWS = 100_000


class Shape(StrEnum):
    """How rows are spread over people and groups."""

    VISITS = "visits"  # 10 rows a person; 89 % of rows are the first of their person and group
    REPEATS = "repeats"  # 100 rows a person, all in 4 groups


GROUPS = {Shape.VISITS: 1_000, Shape.REPEATS: 20_000}
ROWS_OF_A_PERSON = {Shape.VISITS: 10, Shape.REPEATS: 100}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of visits of people to places.

    Attributes:
        rows: how many.
        shape: how they are spread.
        groups: number of places.
        skew: whether one person has a tenth of all rows, and another 100,000 or a tenth.
    """

    rows: int
    shape: Shape
    groups: int
    skew: bool = False

    @property
    def people(self) -> int:
        """How many people there are at most."""
        return max(1, self.rows // ROWS_OF_A_PERSON[self.shape])

    @property
    def places(self) -> list[str]:
        """All groups, as the release lists them."""
        return [f"place-{i:03d}" for i in range(self.groups)]

    @property
    def path(self) -> Path:
        """Where it is kept between runs."""
        skew = "_skew" if self.skew else ""
        return Path(tempfile.gettempdir()) / f"dp_spark_{self.shape}_{self.rows}_{self.groups}{skew}"

    def __str__(self) -> str:
        skew = ", two of them with very many rows" if self.skew else ""
        return f"{self.shape}: {self.rows:,} rows, {self.people:,} people{skew}, {self.groups:,} groups"


def session(memory: str = "4g") -> SparkSession:
    """A session as dp_spark starts it, with so much memory for the JVM."""
    return start_session({"spark.driver.memory": memory})


def stored(spark: SparkSession, table: Table) -> DataFrame:
    """The table, made as Parquet where it is not kept yet."""
    if not (table.path / "_SUCCESS").exists():
        person = F.pmod(F.xxhash64("id"), F.lit(table.people))
        name = F.format_string("person-%07d", person)
        if table.skew:
            busy = (F.col("id") % 10 == 1) & (F.col("id") < 10 * BUSY_ROWS)
            name = F.when(F.col("id") % 10 == 0, "person-most").when(busy, "person-busy").otherwise(name)
        spark.range(table.rows).select(
            name.alias("person"),
            F.format_string("place-%03d", _place(table, person)).alias("place"),
            (F.pmod(F.xxhash64("id", F.lit("euros")), F.lit(10_000)) / 100).alias("euros"),
        ).write.mode("overwrite").parquet(str(table.path))
    return spark.read.parquet(str(table.path))


def _place(table: Table, person: Column) -> Column:
    if table.shape is Shape.REPEATS:
        slot = F.pmod(F.xxhash64("id", F.lit("slot")), F.lit(4))
        return F.pmod(F.xxhash64(person, slot), F.lit(table.groups))
    uniform = F.pmod(F.xxhash64("id", F.lit("place")), F.lit(10**6)) / 10**6
    return F.floor(table.groups * F.pow(uniform, 4))


def plan(table: Table, *, max_groups: int | None) -> ReleasePlan:
    """A plan of count and sum, and of distinct people; of a mean instead where each row is a unit.

    `max_groups` None says that each row is a unit, so that nothing is bounded.
    """
    euros = {"column": "euros", "lower": 0, "upper": 100, "step": "0.01"}
    if max_groups is None:
        unit = {"unit": {"row": True}}
        last = {"name": "mean", "kind": "mean", **euros}
    else:
        bounds = {"max_groups": max_groups, "max_rows_per_group": MAX_ROWS_PER_GROUP}
        unit = {"unit": {"column": "person", "on_null": "drop"}, "bounds": bounds}
        last = {"name": "people", "kind": "ids"}
    spec = ReleaseSpec(
        release="visits",
        input={"format": "parquet", "path": "in"},
        **unit,
        group_by=["place"],
        groups={"public": table.places},
        guarantee={"epsilon": 1, "delta": "1e-6"},
        queries=[{"name": "visits", "kind": "count"}, {"name": "spent", "kind": "sum", **euros}, last],
        budget={"population": "people"},
        publish=[{"sink": "parquet", "path": "out"}],
    )
    return plan_release(spec)


def plain_query(frame: DataFrame) -> Callable[[], object]:
    """The query without privacy: count, sum and mean of each place, collected."""

    def plain() -> None:  # a frame that is collected again would use what its first shuffle has left
        frame.groupBy("place").agg(F.count("*"), F.sum("euros"), F.avg("euros")).collect()

    return plain


def complete_release(frame: DataFrame, plan: ReleasePlan) -> Callable[[], pa.Table]:
    """A release from reading to the staged artefact, which it returns; each time with a new key."""
    window, scratch = period_window(None, "2024-01-01"), Path(tempfile.mkdtemp())

    def release() -> pa.Table:
        key, of_run = os.urandom(32), plan
        if plan.selection is not None:
            selected = select_groups(frame, plan=plan, window=window, release_key=key)
            of_run = plan.with_selected(selected.keys)
        totals = collect_totals(frame, plan=of_run, window=window, release_key=key)
        answers = estimates(noisy_totals(totals, plan=of_run, window=window, release_key=key), of_run)
        table = released_table(of_run, answers, period_start=date(2024, 1, 1), release_id="r", revision=0)
        artefact_digest(table)
        write_artefact(table, scratch / "staged.parquet")
        return table

    return release
