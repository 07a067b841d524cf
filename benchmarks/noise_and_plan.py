"""Seconds, after imports, to plan a release of five queries and to draw noise for a million cells.

python benchmarks/noise_and_plan.py
"""

import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dp_spark.noise import cell_ids, encode_label, least_variance_noise, words
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

RUNS, CELLS = 5, 1_000_000
VALUE = {"column": "x", "lower": -30, "upper": 180, "step": 1}
SPEC = {
    "release": "five",
    "input": {"format": "parquet", "path": "in"},
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 3, "max_rows_per_group": 10},
    "group_by": ["town"],
    "groups": {"public": ["a", "b"]},
    "guarantee": {"epsilon": 1, "delta": "1e-6"},
    "queries": [
        {"name": "n", "kind": "count"},
        {"name": "total", "kind": "sum", **VALUE},
        {"name": "middle", "kind": "mean", **VALUE},
        {"name": "other", "kind": "mean", **VALUE, "upper": 60},
        {"name": "people", "kind": "ids"},
    ],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}


def seconds(action: Callable[[], object]) -> float:
    """Median wall seconds of RUNS calls."""
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    """Measure and print."""
    key, spec = bytes(32), ReleaseSpec(**SPEC)
    table = least_variance_noise(Fraction(1, 5), Fraction(2, 10**7), 256, 2)
    labels = [encode_label(str(cell)) for cell in range(CELLS)]
    ids = cell_ids(key, labels)
    drawn = words(key, b"one total", ids)
    print(f"plan of five queries: {seconds(lambda: plan_release(spec)):.2f} s")
    print(f"ids of {CELLS:,} cells, once a release: {seconds(lambda: cell_ids(key, labels)):.2f} s")
    print(f"words of {CELLS:,} cells: {seconds(lambda: words(key, b'one total', ids)):.2f} s")
    print(f"{CELLS:,} draws from {table.entries:,} entries: {seconds(lambda: table.draw(drawn)):.2f} s")
    assert np.abs(table.draw(drawn)).max() <= table.support


if __name__ == "__main__":
    main()
