"""Exact totals of every group: rows to integers, one shuffle by unit, bounded and summed in Arrow batches."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.expressions import with_derived
from dp_spark.frames.groups import key_columns, number_groups
from dp_spark.frames.partition import (
    GROUP,
    ROWS,
    UNIT,
    UNIT_HASH,
    UNITS,
    partial_names,
    partial_schema,
    partition_totals,
)
from dp_spark.frames.sources import in_period, quoted
from dp_spark.queries import Bounds, ClampedColumn, MeasureKind, Total
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL


def exact_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, bounding_key: bytes
) -> DataFrame:
    """A row for each group that has rows: GROUP and a 64-bit integer total_0, total_1, ... of each total.

    Totals are exact whatever the order, partitions or size of the input, and stand in the order of
    `plan.queries`. The key travels inside the function that Python workers run, never in an expression.
    """
    columns = clamped_columns(plan)
    bounds = Bounds(plan.spec.bounds.max_groups, plan.spec.bounds.max_rows_per_group)
    total_rows = partial(partition_totals, key=bounding_key, bounds=bounds, columns=len(columns))
    partials = (
        _countable_rows(frame, plan, window, columns)
        .repartition(UNIT)
        .mapInArrow(total_rows, partial_schema(len(columns)))
    )
    sums = [F.sum(F.col(name).cast("decimal(20,0)")).alias(name) for name in partial_names(len(columns))]
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
    spec, frame = plan.spec, with_derived(frame, plan.spec)
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
    steps = F.floor(clamped * float(of.step.denominator) / float(of.step.numerator) + 0.5)
    within = F.greatest(F.least(steps, F.lit(of.upper_steps)), F.lit(of.lower_steps))
    return F.when(number.isNotNull() & ~F.isnan(number), within.cast("long"))


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
