"""How a release's cost beside the plain query grows with rows, bounds and shape, as a Markdown table.

    python benchmarks/engine_growth.py [--rows 1000000 10000000 30000000] [--max-groups 1 5 50]

Everything runs in one Spark session; plain query and release as in plain_vs_release.py, for each line in
turn. Seconds are medians, ratios medians and ranges.
"""

import statistics

from measuring import Cost, in_turn, ratios
from printing import arguments, head, line, median_and_range, megabytes
from tables import GROUPS, Shape, Table, complete_release, plain_query, plan, session, stored

HEAD = (
    "shape",
    "rows",
    "max_groups",
    "plain, wall s",
    "release, wall s",
    "wall ratio",
    "plain, CPU s",
    "release, CPU s",
    "CPU ratio",
    "worker",
    "all processes",
)


def result(plains: list[Cost], releases: list[Cost]) -> list[str]:
    """The measured cells of a line: seconds, ratios, peak memory of the release."""
    cells = []
    for what in ("wall", "cpu"):
        for costs in (plains, releases):
            cells.append(f"{statistics.median(getattr(cost, what) for cost in costs):.2f}")
        cells.append(median_and_range(ratios(releases, plains, what)))
    cells.append(megabytes(max(cost.worker_bytes for cost in releases)))
    cells.append(megabytes(max(cost.tree_bytes for cost in releases)))
    return cells


def main() -> None:
    """Measure and print, a line at a time."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 30_000_000])
    parser.add_argument("--max-groups", type=int, nargs="+", default=[1, 5, 50])
    parser.add_argument("--shapes", type=Shape, choices=list(Shape), nargs="+", default=list(Shape))
    given = parser.parse_args()

    spark = session(given.memory)
    print(head(*HEAD))
    for shape in given.shapes:
        for rows in given.rows:
            table = Table(rows, shape, GROUPS[shape])
            frame = stored(spark, table)
            for max_groups in given.max_groups:
                release = complete_release(frame, plan(table, max_groups=max_groups))
                costs = in_turn([plain_query(frame), release], given.runs)
                print(line(shape, f"{rows:,}", max_groups, *result(*costs)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
