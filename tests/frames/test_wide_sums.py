"""Many sums of a release: as bytes, added up by workers, the same as Spark's own."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from dp_spark.frames.collect import collect_totals
from dp_spark.frames.layout import EXCESS, PLACE, Layout
from dp_spark.frames.needed import layout_of
from dp_spark.frames.wide import added_sums, is_wide, packed_sums, unpacked_sums
from dp_spark.queries import ClampedColumn, Measure, MeasureKind
from dp_spark.release.period import period_window
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

MOST = 2**60
COLUMN = ClampedColumn("x", Fraction(0), Fraction(9), Fraction(1))
LAYOUT = Layout(
    groups=1000,
    sums=tuple(Measure(MeasureKind.VALUE, COLUMN, merged=i) for i in range(40)),
    unit_sums=(),
    coarser=(),
    binned=(),
    coded=(COLUMN,),
    of_rows=False,
)


def batch(places: list[int], sums: np.ndarray, excess: int = 0) -> pa.RecordBatch:
    over = np.zeros(len(places), dtype=np.int64)
    over[:1] = excess
    columns = [np.array(places), over, *sums.T]
    names = [PLACE, EXCESS, *LAYOUT.names]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)


def through(batches: list[pa.RecordBatch]) -> tuple[dict[int, list[int]], int]:
    """What the driver gets of the partitions' batches, and the excess."""
    packed = [each for one in batches for each in packed_sums(iter([one]), layout=LAYOUT)]

    def of_bucket(bucket: int) -> Iterator[pa.RecordBatch]:
        for each in packed:
            yield each.filter(pa.array(each["bucket"].to_numpy() == bucket))

    buckets = {number for each in packed for number in each["bucket"].to_pylist()}
    found = [each for one in sorted(buckets) for each in added_sums(of_bucket(one), layout=LAYOUT, most=MOST)]
    table = pa.Table.from_batches(found)
    places, columns = unpacked_sums(table, LAYOUT)
    assert len(set(places.tolist())) == len(places)
    values = np.stack(columns, axis=1).tolist()
    return dict(zip(places.tolist(), values, strict=True)), sum(table[EXCESS].to_pylist())


def test_sums_are_those_of_python_and_saturate_where_64_bits_would_end() -> None:
    rng = np.random.default_rng(1)
    batches, expected = [], {}
    for _ in range(7):
        places = rng.choice(1000, 200, replace=False).tolist()
        sums = rng.integers(-(2**62), 2**62, (200, 40)) >> rng.integers(0, 62, (200, 40))
        batches.append(batch(places, sums))
        for place, row in zip(places, sums.tolist(), strict=True):
            expected[place] = [a + b for a, b in zip(expected.get(place, [0] * 40), row, strict=True)]
    clipped = {place: [max(-MOST, min(MOST, each)) for each in row] for place, row in expected.items()}
    assert any(abs(each) > MOST for row in expected.values() for each in row)
    assert through(batches)[0] == clipped


def test_an_excess_is_carried_and_nothing_is_nothing() -> None:
    some = np.ones((2, 40), dtype=np.int64)
    assert through([batch([3, 40], some, excess=2), batch([3], some[:1], excess=5)])[1] == 7
    places, columns = unpacked_sums(
        pa.table({"bucket": pa.array([], pa.int32()), "places": pa.array([], pa.binary())}), LAYOUT
    )
    assert (len(places), len(columns)) == (0, 40)


def test_many_queries_have_the_totals_that_few_have(spark: SparkSession) -> None:
    """Many sums with bins and coarser groups, against some of them in a narrow release."""
    sums = [
        {"name": f"s{i}", "kind": "sum", "column": "x", "lower": -i, "upper": 20 + i, "step": 1}
        for i in range(31)
    ]
    others: list[dict[str, Any]] = [
        {"name": "n", "kind": "count"},
        {"name": "people", "kind": "ids"},
        {"name": "unit", "kind": "sum", "column": "x", "lower": 0, "upper": 9, "clamp": "unit"},
        {"name": "bins", "kind": "histogram", "column": "x", "edges": {"start": -50, "stop": 50, "step": 5}},
    ]
    rng = np.random.default_rng(2)
    rows = [
        (f"p{i % 70}", "abcd"[i % 4], "uv"[i % 2], float(x)) for i, x in enumerate(rng.normal(5, 30, 300))
    ]
    frame = spark.createDataFrame(rows, "p string, g string, h string, x double").repartition(3)

    def totals(queries: list[dict[str, Any]], wide: bool) -> dict[tuple[str, int], list[Any]]:
        spec = ReleaseSpec(
            release="r",
            unit={"column": "p", "on_null": "drop"},
            bounds={"max_groups": 10, "max_rows_per_group": 10},
            group_by=["g", "h"],
            rollup=[["g"]],
            groups={"public": {"g": ["a", "b", "c", "none"], "h": ["u", "v"]}},
            guarantee={"epsilon": 1, "delta": "1e-6"},
            queries=queries,
            budget={"population": "people"},
            publish=[{"sink": "parquet", "path": "out"}],
        )
        plan = plan_release(spec)
        assert is_wide(layout_of(plan)) is wide
        found = collect_totals(
            frame, plan=plan, window=period_window(None, "2024-03-01"), release_key=bytes(32)
        )
        return {
            (drawn.query, drawn.level): each.tolist() for drawn, each in zip(plan.drawn, found, strict=True)
        }

    together = totals([*sums, *others], wide=True)
    some = totals([*sums[::15], *others], wide=False)
    assert {place: together[place] for place in some} == some
    assert len(together) > len(some)
