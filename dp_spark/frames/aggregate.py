"""Exact totals of every group, over the rows that count."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.columns import key_columns, number, unit_columns
from dp_spark.frames.expressions import with_derived
from dp_spark.frames.numbering import GROUP, GroupNumbers
from dp_spark.frames.packing import BUCKET, BUCKETS_AT_MOST, Coding, Packing, packed
from dp_spark.frames.partition import EXCESS, ROWS, UNITS, partial_names, partial_schema, partition_totals
from dp_spark.frames.row_units import row_unit_sums
from dp_spark.frames.sources import in_period, quoted
from dp_spark.queries import ClampedColumn, MeasureKind, Total
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL


def exact_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, bounding_key: bytes
) -> DataFrame:
    """Rows with GROUP, EXCESS and a 64-bit integer total_0, total_1, ... of groups that have rows.

    A group has one, or, where a row is a unit, one for each text that NFC makes its key. Totals are exact
    whatever the order, partitions or size of the input, and stand in the order of `plan.queries`. EXCESS
    counts contributions beyond the bounds, found by a second look at what was kept: 0, unless the code is
    wrong. The key travels inside the functions that Python workers run, never in an expression.
    """
    columns = clamped_columns(plan)
    rows = _asked_rows(frame, plan, window)
    if plan.spec.unit.is_row:
        sums = row_unit_sums(rows, plan, columns)
    else:
        sums = _bounded_sums(rows, plan, columns, bounding_key)
    totals = [drawn.planned.total for drawn in plan.drawn]
    return sums.select(
        GROUP,
        F.col(EXCESS).cast("long").alias(EXCESS),
        *(_saturated(_total(total, columns)).alias(f"total_{i}") for i, total in enumerate(totals)),
    )


def clamped_columns(plan: ReleasePlan) -> list[ClampedColumn]:
    """The distinct clamped columns that the plan's totals read, in the order of first use."""
    used = (drawn.planned.total.measure.of for drawn in plan.drawn)
    return list(dict.fromkeys(column for column in used if column is not None))


def _asked_rows(frame: DataFrame, plan: ReleasePlan, window: PeriodWindow) -> DataFrame:
    """Rows of the period for which `where` holds, with derived columns."""
    period, rows = plan.spec.period, with_derived(frame, plan.spec)
    return rows if period is None else rows.where(in_period(rows, period.column, window))


def _bounded_sums(
    rows: DataFrame, plan: ReleasePlan, columns: Sequence[ClampedColumn], key: bytes
) -> DataFrame:
    """Sums of each group: one shuffle, of packed rows by unit, then bounding in workers."""
    unit = {f"unit_{i}": column for i, column in enumerate(unit_columns(rows, plan.spec))}
    packing = Packing(
        units=len(unit),
        numbers=GroupNumbers(plan.keys),
        values=[Coding(column) for column in columns],
        buckets=_buckets(rows.sparkSession),
    )
    pack = partial(packed, packing=packing, key=key)
    total = partial(partition_totals, packing=packing, key=key, bounds=plan.bounds)
    for name in plan.spec.unit.columns:
        rows = rows.where(F.col(quoted(name)).isNotNull())
    names = partial_names(len(columns))
    return (
        rows.select(
            *(column.alias(name) for name, column in unit.items()),
            *key_columns(plan.spec),
            *(number(column).alias(f"value_{i}") for i, column in enumerate(columns)),
        )
        .mapInArrow(pack, packing.schema)
        .repartition(BUCKET)
        .mapInArrow(total, partial_schema(len(columns)))
        .groupBy(GROUP)
        .agg(*(F.sum(F.col(name).cast("decimal(28,0)")).alias(name) for name in names))
    )


def _buckets(spark: SparkSession) -> int:
    """A power of two, several times the partitions of a shuffle, so that these get about equal shares."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    wanted = 8 * int(partitions if partitions.isdecimal() else "200")  # some platforms write `auto`
    return min(max(1 << (wanted - 1).bit_length(), 256), BUCKETS_AT_MOST)


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
        case MeasureKind.VALUE | MeasureKind.UNIT_VALUE:
            return value
        case MeasureKind.CENTRED:
            return 2 * value - F.lit(of.lower_steps + of.upper_steps) * count
        case kind:
            raise NotImplementedError(kind)


def _saturated(total: Column) -> Column:
    """The total within plus and minus LARGEST_TOTAL, in 64 bits: nothing can overflow after this."""
    return F.greatest(F.least(total, F.lit(LARGEST_TOTAL)), F.lit(-LARGEST_TOTAL)).cast("long")
