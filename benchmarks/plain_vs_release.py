"""How much a complete release costs beside the plain, non-private query, in one Spark session.

    python benchmarks/plain_vs_release.py [--rows 10000000] [--shape visits] [--unit person] ...

Plain: count, sum and mean of each place, collected. Release: count, sum and distinct people under
max_groups 5 and max_rows_per_group 3, from reading to the staged artefact; with `--unit row` count, sum and
mean, where nothing is bounded. The two run in turn; medians and ranges are of the runs after one warm-up, CPU
seconds and memory are of this process and all below it (Spark's JVM, Python workers). Tables are made once,
as Parquet, and kept in the temporary directory.
"""

import argparse

from measuring import Cost, in_turn, ratios
from printing import arguments, median_and_range, megabytes
from tables import GROUPS, Shape, Table, complete_release, plain_query, plan, session, stored


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shape", type=Shape, choices=list(Shape), default=Shape.VISITS)
    parser.add_argument("--groups", type=int, help="default: 1,000 for visits, 20,000 for repeats")
    parser.add_argument("--skew", action="store_true", help="one person has a tenth of all rows")
    parser.add_argument("--unit", choices=["person", "row"], default="person")
    parser.add_argument("--max-groups", type=int, default=5, help="of a person")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    given = parsed()
    table = Table(given.rows, given.shape, given.groups or GROUPS[given.shape], given.skew)
    max_groups = given.max_groups if given.unit == "person" else None
    spark = session(given.memory)
    frame = stored(spark, table)
    release = complete_release(frame, plan(table, max_groups=max_groups))
    plains, releases = in_turn([plain_query(frame), release], given.runs)
    spark.stop()

    bound = "each row a unit" if max_groups is None else f"max_groups {max_groups}"
    print(f"{table}; {bound}")
    for what in ("wall", "cpu"):
        print(
            f"{what} seconds: plain {_seconds(plains, what)}, release {_seconds(releases, what)}, "
            f"ratio {median_and_range(ratios(releases, plains, what))}"
        )
    for name, costs in (("plain", plains), ("release", releases)):
        worker, tree = (max(getattr(cost, f"{of}_bytes") for cost in costs) for of in ("worker", "tree"))
        print(f"peak memory, {name}: a Python worker {megabytes(worker)}, all processes {megabytes(tree)}")


def _seconds(costs: list[Cost], what: str) -> str:
    return median_and_range([getattr(cost, what) for cost in costs], 2)


if __name__ == "__main__":
    main()
