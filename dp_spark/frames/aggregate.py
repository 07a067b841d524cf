"""Exact totals of every group: rows to integers, one shuffle by unit, bounded and summed in Arrow batches."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.numbering import GroupNumbers
from dp_spark.frames.packing import BUCKET, BUCKETS_AT_MOST, GROUP, Coding, Packing, packed
from dp_spark.frames.partition import EXCESS, ROWS, UNITS, partial_names, partial_schema, partition_totals
from dp_spark.frames.sources import in_period, quoted
from dp_spark.queries import Bounds, ClampedColumn, MeasureKind, Total
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL

# A longer text travels as its digest, so that no batch of rows outgrows what Arrow can hold.
LONGEST_TEXT = 1024


def exact_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, bounding_key: bytes
) -> DataFrame:
    """A row for each group that has rows: GROUP, EXCESS and a 64-bit integer total_0, total_1, ... .

    Totals are exact whatever the order, partitions or size of the input, and stand in the order of
    `plan.queries`. EXCESS counts contributions beyond the bounds, found by a second look at what was kept:
    0, unless the code is wrong. The key travels inside the functions that Python workers run, never in an
    expression.
    """
    columns = clamped_columns(plan)
    partials = _bounded(frame, plan, window, columns, bounding_key)
    sums = [F.sum(F.col(name).cast("decimal(20,0)")).alias(name) for name in partial_names(len(columns))]
    totals = [planned.total for query in plan.queries for planned in query.totals]
    return (
        partials.groupBy(GROUP)
        .agg(*sums)
        .select(
            GROUP,
            F.col(EXCESS).cast("long").alias(EXCESS),
            *(_saturated(_total(total, columns)).alias(f"total_{i}") for i, total in enumerate(totals)),
        )
    )


def clamped_columns(plan: ReleasePlan) -> list[ClampedColumn]:
    """The distinct clamped columns that the plan's totals read, in the order of first use."""
    used = (planned.total.measure.of for query in plan.queries for planned in query.totals)
    return list(dict.fromkeys(column for column in used if column is not None))


def _bounded(
    frame: DataFrame,
    plan: ReleasePlan,
    window: PeriodWindow,
    columns: Sequence[ClampedColumn],
    key: bytes,
) -> DataFrame:
    """Sums of each partition and group over the rows that count: one shuffle, of packed rows by unit."""
    spec = plan.spec
    packing = Packing(
        units=1,
        numbers=GroupNumbers(spec.group_keys()),
        values=[Coding(column) for column in columns],
        buckets=_buckets(frame.sparkSession),
    )
    bounds = Bounds(spec.bounds.max_groups, spec.bounds.max_rows_per_group)
    pack = partial(packed, packing=packing, key=key)
    total = partial(partition_totals, packing=packing, key=key, bounds=bounds)
    return (
        _countable_rows(frame, plan, window, columns)
        .mapInArrow(pack, packing.schema)
        .repartition(BUCKET)
        .mapInArrow(total, partial_schema(len(columns)))
    )


def _buckets(spark: SparkSession) -> int:
    """A power of two, several times the partitions of a shuffle, so that these get about equal shares."""
    wanted = 8 * int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    return min(max(1 << (wanted - 1).bit_length(), 256), BUCKETS_AT_MOST)


def _countable_rows(
    frame: DataFrame, plan: ReleasePlan, window: PeriodWindow, columns: Sequence[ClampedColumn]
) -> DataFrame:
    """Rows of the period with a unit: what makes the unit, the group and the values, in columns of these."""
    spec = plan.spec
    rows = frame if spec.period is None else frame.where(in_period(frame, spec.period.column, window))
    unit = _text(spec.unit.column)
    return rows.where(unit.isNotNull()).select(
        _short(unit).alias("unit_0"),
        *(
            _short(F.col(quoted(name)).cast("string")).alias(f"key_{i}")
            for i, name in enumerate(spec.group_by)
        ),
        *(_number(column).alias(f"value_{i}") for i, column in enumerate(columns)),
    )


def _text(column: str) -> Column:
    return F.col(quoted(column)).cast("string")


def _number(of: ClampedColumn) -> Column:
    """The value as a double; NULL where it is no number."""
    return F.expr(f"try_cast({quoted(of.column)} AS DOUBLE)")


def _short(text: Column) -> Column:
    """A text of LONGEST_TEXT bytes or less as it is; of a longer one a digest that equals no shorter text."""
    digest = F.rpad(F.sha2(text.cast("binary"), 256), LONGEST_TEXT + 1, " ")
    return F.when(F.octet_length(text) <= LONGEST_TEXT, text).otherwise(digest)


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
        case MeasureKind.UNIT_VALUE:
            return value
        case MeasureKind.CENTRED:
            return 2 * value - F.lit(of.lower_steps + of.upper_steps) * count


def _saturated(total: Column) -> Column:
    """The total within plus and minus LARGEST_TOTAL, in 64 bits: nothing can overflow after this."""
    return F.greatest(F.least(total, F.lit(LARGEST_TOTAL)), F.lit(-LARGEST_TOTAL)).cast("long")
