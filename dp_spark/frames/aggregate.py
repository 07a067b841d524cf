"""Exact totals of every group: rows to integers, one shuffle by unit, bounded and summed in Arrow batches."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.bound import Integers, kept_rows
from dp_spark.frames.groups import GROUP, key_columns, number_groups
from dp_spark.frames.sources import in_period, quoted
from dp_spark.queries import Bounds, ClampedColumn, MeasureKind, Total
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL

UNIT, UNIT_HASH, ROWS, UNITS = "unit", "unit_hash", "rows", "units"
_NOTHING = np.iinfo(np.int64).min  # stands for "this row's value does not count"; no step is that small


def exact_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, bounding_key: bytes
) -> DataFrame:
    """A row for each group that has rows: GROUP and a 64-bit integer total_0, total_1, ... of each total.

    Totals are exact whatever the order, partitions or size of the input, and stand in the order of
    `plan.queries`. The key travels inside the function that Python workers run, never in an expression.
    """
    columns = clamped_columns(plan)
    bounds = Bounds(plan.spec.bounds.max_groups, plan.spec.bounds.max_rows_per_group)
    total_rows = partial(_partition_totals, key=bounding_key, bounds=bounds, columns=len(columns))
    partials = (
        _countable_rows(frame, plan, window, columns)
        .repartition(UNIT)
        .mapInArrow(total_rows, _partial_schema(len(columns)))
    )
    sums = [F.sum(F.col(name).cast("decimal(20,0)")).alias(name) for name in _partial_names(len(columns))]
    totals = [planned.total for query in plan.queries for planned in query.totals]
    return (
        partials.groupBy(GROUP)
        .agg(*sums)
        .select(
            GROUP, *(_saturated(_total(total, columns)).alias(f"total_{i}") for i, total in enumerate(totals))
        )
    )


def clamped_columns(plan: ReleasePlan) -> list[ClampedColumn]:
    """The distinct clamped columns that the plan's totals read, in the order of first use."""
    used = (planned.total.measure.of for query in plan.queries for planned in query.totals)
    return list(dict.fromkeys(column for column in used if column is not None))


def _countable_rows(
    frame: DataFrame, plan: ReleasePlan, window: PeriodWindow, columns: Sequence[ClampedColumn]
) -> DataFrame:
    """Rows of the period with a unit and a public group: unit, its hash, integer values, group number."""
    spec = plan.spec
    rows = frame if spec.period is None else frame.where(in_period(frame, spec.period.column, window))
    unit = F.col(quoted(spec.unit.column)).cast("string")
    values = [_in_steps(column).alias(f"value_{i}") for i, column in enumerate(columns)]
    return (
        rows.where(unit.isNotNull())
        .select(unit.alias(UNIT), F.xxhash64(unit).alias(UNIT_HASH), *values, *key_columns(spec.group_by))
        .transform(number_groups, spec.group_keys())
    )


def _in_steps(of: ClampedColumn) -> Column:
    """floor(clamped value / step + 1/2) as a 64-bit integer; NULL where the value does not count."""
    number = F.expr(f"try_cast({quoted(of.column)} AS DOUBLE)")
    clamped = F.greatest(F.least(number, F.lit(float(of.upper))), F.lit(float(of.lower)))
    steps = F.floor(clamped * of.step.denominator / of.step.numerator + 0.5)
    within = F.greatest(F.least(steps, F.lit(of.upper_steps)), F.lit(of.lower_steps))
    return F.when(number.isNotNull() & ~F.isnan(number), within.cast("long"))


def _partial_names(columns: int) -> list[str]:
    return [ROWS, UNITS, *(f"{part}_{i}" for i in range(columns) for part in ("count", "sum"))]


def _partial_schema(columns: int) -> str:
    return f"{GROUP} int, " + ", ".join(f"{name} long" for name in _partial_names(columns))


def _partition_totals(
    batches: Iterator[pa.RecordBatch], *, key: bytes, bounds: Bounds, columns: int
) -> Iterator[pa.RecordBatch]:
    """Bounded totals of one partition, which holds all rows of its units: a row for each group."""
    arrived = list(batches)
    if not arrived:
        return
    table = pa.Table.from_batches(arrived)
    group = table[GROUP].to_numpy().astype(np.int64)
    values = [_integers(table[f"value_{i}"]) for i in range(columns)]
    kept, first = kept_rows(
        unit=_numbered(table[UNIT]),
        unit_hash=table[UNIT_HASH].to_numpy(),
        group=group,
        values=values,
        key=key,
        bounds=bounds,
    )
    yield _summed(group[kept], first, [value[kept] for value in values])


def _numbered(texts: "pa.ChunkedArray[pa.StringScalar]") -> Integers:
    """A number for each distinct text, shape (rows,)."""
    encoded: Any = pc.dictionary_encode(texts).combine_chunks()
    return np.asarray(encoded.indices, dtype=np.int64)


def _integers(column: "pa.ChunkedArray[pa.Int64Scalar]") -> Integers:
    """The column, with _NOTHING for NULL, shape (rows,)."""
    return np.asarray(pc.fill_null(column, pa.scalar(_NOTHING)), dtype=np.int64)


def _summed(group: Integers, first_of_pair: NDArray[np.bool_], values: Sequence[Integers]) -> pa.RecordBatch:
    """Rows, units, and the count and sum of each value, by group; in 64 bits, as the planner proved."""
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    parts = [np.ones(len(group), dtype=np.int64), first_of_pair.astype(np.int64)]
    for value in values:
        counts = value != _NOTHING
        parts += [counts.astype(np.int64), np.where(counts, value, 0)]
    sums = [np.add.reduceat(part[order], starts) for part in parts]
    return pa.RecordBatch.from_arrays(
        [pa.array(groups, pa.int32()), *map(pa.array, sums)], names=[GROUP, *_partial_names(len(values))]
    )


def _total(total: Total, columns: Sequence[ClampedColumn]) -> Column:
    """The exact total of a group as a decimal, from the summed partials."""
    match total.measure.kind:
        case MeasureKind.ROWS:
            return F.col(ROWS)
        case MeasureKind.UNITS:
            return F.col(UNITS)
    of = total.measure.of
    assert of is not None  # every other measure is of a column
    count, value = (F.col(f"{part}_{columns.index(of)}") for part in ("count", "sum"))
    match total.measure.kind:
        case MeasureKind.NON_NULL:
            return count
        case MeasureKind.VALUE:
            return value
        case MeasureKind.CENTRED:
            return 2 * value - F.lit(of.lower_steps + of.upper_steps) * count


def _saturated(total: Column) -> Column:
    """The total within plus and minus LARGEST_TOTAL, in 64 bits: nothing can overflow after this."""
    return F.greatest(F.least(total, F.lit(LARGEST_TOTAL)), F.lit(-LARGEST_TOTAL)).cast("long")
