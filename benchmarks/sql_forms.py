"""The same bounding in Spark SQL alone beside a complete release, in one session.

    python benchmarks/sql_forms.py [--rows 10000000] [--shape visits]

Every form keeps, of each person, at most 5 groups and 3 rows in each, chosen by hash, and adds up count, sum
and distinct people of each group. They need no privacy: xxhash64 orders rows, sums are of floats, and there
is no noise, no second look at the bounds, no staged artefact. How many people remain over all groups does not
depend on the choice, and must be the same for all; rows may differ by 1 %.
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial

from measuring import in_turn, ratios
from printing import arguments, head, line, median_and_range, megabytes
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812
from tables import (
    GROUPS,
    MAX_ROWS_PER_GROUP,
    Shape,
    Table,
    complete_release,
    plain_query,
    plan,
    session,
    stored,
)

from dp_spark.frames.collect import collect_totals
from dp_spark.release.period import period_window


def _keyed(frame: DataFrame) -> DataFrame:
    """Clamped rows with the hashes that order pairs of a person and rows of a pair."""
    return frame.select(
        "person",
        "place",
        F.xxhash64("person", "place").alias("pair_hash"),
        F.xxhash64("person", "place", "euros").alias("row_hash"),
        F.greatest(F.lit(0.0), F.least(F.lit(100.0), F.col("euros"))).alias("euros"),
    )


def two_windows(frame: DataFrame, max_groups: int) -> DataFrame:
    """Number rows in each pair, then pairs of each person: two shuffles unless by person first."""
    in_pair = Window.partitionBy("person", "place").orderBy("row_hash", "euros")
    of_person = Window.partitionBy("person").orderBy("pair_hash", "place")
    return _added_up(
        _keyed(frame)
        .withColumn("row", F.row_number().over(in_pair))
        .where(F.col("row") <= MAX_ROWS_PER_GROUP)
        .withColumn("group", F.dense_rank().over(of_person))
        .where(F.col("group") <= max_groups)
    )


def one_sort(frame: DataFrame, max_groups: int) -> DataFrame:
    """One shuffle by person and one sort, whose prefixes order both numberings."""
    person = Window.partitionBy("person")
    by_pair = person.orderBy("pair_hash", "place")
    by_row = person.orderBy("pair_hash", "place", "row_hash", "euros")
    return _added_up(
        _keyed(frame)
        .withColumn("place_of_row", F.row_number().over(by_row))
        .withColumns(
            {
                "group": F.dense_rank().over(by_pair),
                "row": F.col("place_of_row") - F.rank().over(by_pair) + 1,
            }
        )
        .where((F.col("group") <= max_groups) & (F.col("row") <= MAX_ROWS_PER_GROUP))
    )


def aggregate_then_number(frame: DataFrame, max_groups: int) -> DataFrame:
    """Aggregate each pair to its least rows, then number the pairs of each person."""
    of_person = Window.partitionBy("person").orderBy("pair_hash", "place")
    return _pairs_added_up(
        _pairs(frame).withColumn("group", F.row_number().over(of_person)).where(F.col("group") <= max_groups)
    )


def collect_and_sort(frame: DataFrame, max_groups: int) -> DataFrame:
    """Aggregate each pair to its least rows, then each person to their least pairs."""
    pair = F.struct("pair_hash", "place", "rows", "spent")
    people = _pairs(frame).groupBy("person").agg(F.sort_array(F.collect_list(pair)).alias("pairs"))
    return _pairs_added_up(people.select(F.inline(F.slice("pairs", 1, max_groups))))


FORMS = {
    "two windows": two_windows,
    "two windows, one shuffle": lambda frame, n: two_windows(frame.repartition("person"), n),
    "one shuffle, one sort": one_sort,
    "aggregate, then row_number": aggregate_then_number,
    "aggregate, one shuffle": lambda frame, n: aggregate_then_number(frame.repartition("person"), n),
    "collect and sort": collect_and_sort,
    "collect and sort, one shuffle": lambda frame, n: collect_and_sort(frame.repartition("person"), n),
}


def _added_up(rows: DataFrame) -> DataFrame:
    people = F.sum((F.col("row") == 1).cast("long"))
    return rows.groupBy("place").agg(
        F.count("*").alias("visits"), F.sum("euros").alias("spent"), people.alias("people")
    )


def _pairs(frame: DataFrame) -> DataFrame:
    """Each person and place with the number and sum of the rows that count."""
    rows = F.sort_array(F.collect_list(F.struct("row_hash", "euros")))
    least = F.slice(rows, 1, MAX_ROWS_PER_GROUP)
    return (
        _keyed(frame)
        .groupBy("person", "place", "pair_hash")
        .agg(least.alias("least"))
        .select(
            "person",
            "place",
            "pair_hash",
            F.size("least").alias("rows"),
            F.aggregate("least", F.lit(0.0), lambda total, row: total + row["euros"]).alias("spent"),
        )
    )


def _pairs_added_up(pairs: DataFrame) -> DataFrame:
    return pairs.groupBy("place").agg(
        F.sum("rows").alias("visits"), F.sum("spent").alias("spent"), F.count("*").alias("people")
    )


def kept_over_groups(answers: Sequence[Row]) -> dict[str, int]:
    """How many rows and people count, over all groups."""
    return {what: sum(answer[what] for answer in answers) for what in ("visits", "people")}


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shape", type=Shape, choices=list(Shape), default=Shape.VISITS)
    parser.add_argument("--max-groups", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    """Measure, compare and print."""
    given = parsed()
    table = Table(given.rows, given.shape, GROUPS[given.shape])
    spark = session(given.memory)
    frame, ours = stored(spark, table), plan(table, max_groups=given.max_groups)
    found: dict[str, dict[str, int]] = {}

    def collect(name: str) -> None:
        found[name] = kept_over_groups(FORMS[name](frame, given.max_groups).collect())

    actions = [plain_query(frame), complete_release(frame, ours), *(partial(collect, name) for name in FORMS)]
    plains, *others = in_turn(actions, given.runs)
    window = period_window(None, "2024-01-01")
    totals = collect_totals(frame, plan=ours, window=window, release_key=os.urandom(32))
    spark.stop()

    visits, people = int(totals[0].sum()), int(totals[-1].sum())
    print(f"{table}; max_groups {given.max_groups}; {visits:,} rows and {people:,} people remain over groups")
    print(head("form", "wall, plain = 1", "CPU, plain = 1", "CPU, ours = 1", "all processes"))
    for name, costs in zip(("complete release (ours)", *FORMS), others, strict=True):
        cells = [ratios(costs, plains, "wall"), ratios(costs, plains, "cpu"), ratios(costs, others[0], "cpu")]
        memory = megabytes(max(cost.tree_bytes for cost in costs))
        print(line(name, *map(median_and_range, cells), memory))
    for name, kept in found.items():
        same = kept["people"] == people and abs(kept["visits"] - visits) <= visits / 100
        assert same, f"{name} has bounded otherwise: {kept}"


if __name__ == "__main__":
    main()
