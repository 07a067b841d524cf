"""What queries of every kind, many of them, and private groups cost beside one query, as a Markdown table.

    python benchmarks/query_kinds.py [--rows 10000000] [--only "ten queries"] [--runs 5]

Everything runs in one Spark session. "One query" is a release of a count; each line is measured in turn with
it and with the plain query (`plain_vs_release.py`). Plan seconds are of `plan_release` alone; the gate, which
takes seconds whatever the rows, is not in a release here. Seconds are medians, ratios medians and ranges.
"""

import statistics
import time
from typing import Any

from measuring import in_turn, ratios
from printing import arguments, head, line, median_and_range
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from tables import GROUPS, MAX_ROWS_PER_GROUP, Shape, Table, complete_release, plain_query, session, stored

from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

Queries = list[dict[str, Any]]
MAX_GROUPS = 5
COLUMNS = 100  # of the line with a thousand queries
EDGES = {"start": 0, "stop": 100, "step": 1}
HEAD = ("release", "queries", "totals", "plan, s", "wall, s", "of one query", "of plain", "CPU of one query")
ONE: Queries = [{"name": "visits", "kind": "count"}]


def of_column(name: str) -> Queries:
    """Nine queries about one column."""
    euros = {"column": name, "lower": 0, "upper": 100}
    edges = {"column": name, "edges": {"start": 0, "stop": 100, "step": 10}}
    kinds: Queries = [
        {"name": "n", "kind": "count", "column": name},
        {"name": "sum", "kind": "sum", **euros},
        {"name": "mean", "kind": "mean", **euros},
        {"name": "var", "kind": "variance", **euros},
        {"name": "std", "kind": "std", **euros},
        {"name": "shape", "kind": "histogram", **edges},
        {"name": "at", "kind": "quantiles", **edges, "at": [0.25, 0.5, 0.75]},
        {"name": "low", "kind": "min", **edges},
        {"name": "high", "kind": "max", **edges},
    ]
    return [{**each, "name": f"{name}_{each['name']}"} for each in kinds]


def asked() -> dict[str, tuple[Queries, dict[str, Any]]]:
    """Each line's queries, and what else its spec has, by name."""
    euros = {"column": "euros", "lower": 0, "upper": 100}
    three = [*ONE, {"name": "spent", "kind": "sum", **euros}, {"name": "people", "kind": "ids"}]
    ranks = [round(i / 51, 6) for i in range(1, 51)]
    many = [
        query for i in range(COLUMNS) for query in [*of_column(f"v{i}"), {"name": f"c{i}", "kind": "count"}]
    ]
    return {
        "count, sum, ids": (three, {}),
        "ten queries": ([*ONE, *of_column("euros")], {}),
        "50 quantiles": (
            [{"name": "euros", "kind": "quantiles", "column": "euros", "edges": EDGES, "at": ranks}],
            {},
        ),
        "rollup to the total": (three, {"rollup": [[]]}),
        "private groups": (three, {"groups": {"private": {}}}),
        "private groups and others": (three, {"groups": {"private": {"other": True}}}),
        "a thousand queries": (many, {}),
    }


def planned(
    table: Table, queries: list[dict[str, Any]], changes: dict[str, Any]
) -> tuple[ReleasePlan, float]:
    """The plan of these queries over the table, and the seconds it took."""
    given: dict[str, Any] = {
        "release": "visits",
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": MAX_GROUPS, "max_rows_per_group": MAX_ROWS_PER_GROUP},
        "group_by": ["place"],
        "groups": {"public": table.places},
        "guarantee": {"epsilon": 1, "delta": "1e-6"},
        "queries": queries,
        "budget": {"population": "people"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }
    start = time.perf_counter()
    plan = plan_release(ReleaseSpec(**{**given, **changes}))
    return plan, time.perf_counter() - start


def with_columns(frame: DataFrame) -> DataFrame:
    """The frame with as many columns of values as the thousand queries are about."""
    values = (F.pmod(F.col("euros") * (i + 1), F.lit(100.0)).alias(f"v{i}") for i in range(COLUMNS))
    return frame.select("*", *values)


def main() -> None:
    """Measure and print, a line at a time."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", choices=list(asked()), nargs="+", default=list(asked()))
    given = parser.parse_args()

    spark = session(given.memory)
    table = Table(given.rows, Shape.VISITS, GROUPS[Shape.VISITS])
    frame = stored(spark, table)
    one, _ = planned(table, ONE, {})
    planned(table, ONE, {"noise": "laplace"})  # whatever is imported by planning
    print(f"{table}; max_groups {MAX_GROUPS}\n\n{head(*HEAD)}")
    for name in given.only:
        queries, changes = asked()[name]
        rows = with_columns(frame) if name == "a thousand queries" else frame
        plan, seconds = planned(table, queries, changes)
        actions = [plain_query(frame), complete_release(frame, one), complete_release(rows, plan)]
        plains, ones, releases = in_turn(actions, given.runs)
        print(
            line(
                name,
                len(queries),
                len(plan.draws),
                f"{seconds:.2f}",
                f"{statistics.median(cost.wall for cost in releases):.2f}",
                median_and_range(ratios(releases, ones, "wall")),
                median_and_range(ratios(releases, plains, "wall")),
                median_and_range(ratios(releases, ones, "cpu")),
            ),
            flush=True,
        )
    spark.stop()


if __name__ == "__main__":
    main()
