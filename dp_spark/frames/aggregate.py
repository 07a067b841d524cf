"""Exact sums of every group, over the rows that count."""

from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.coding import coding_of
from dp_spark.frames.columns import key_texts, read_column, short, unit_columns
from dp_spark.frames.expressions import with_derived
from dp_spark.frames.layout import EXCESS, PLACE, Layout
from dp_spark.frames.names import quoted
from dp_spark.frames.needed import layout_of
from dp_spark.frames.numbering import GroupNumbers
from dp_spark.frames.packing import BUCKET, BUCKETS_AT_MOST, Packing, packed
from dp_spark.frames.partition import partition_totals
from dp_spark.frames.period import in_period
from dp_spark.frames.row_units import row_unit_sums
from dp_spark.frames.wide import BUCKET_OF_PLACES, PACKED_SCHEMA, added_sums, is_wide
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL


def exact_totals(
    frame: DataFrame,
    *,
    plan: ReleasePlan,
    window: PeriodWindow,
    bounding_key: bytes,
    layout: Layout | None = None,
) -> DataFrame:
    """Rows with PLACE, EXCESS and 64-bit integers: the sums of `layout`, where there are any.

    Many of them stand as bytes side by side: rows of PACKED_SCHEMA (`unpacked_sums`).
    A place has one row, or, where a row is a unit, one for each text that NFC makes its key. Sums are exact
    whatever the order, partitions or size of the input; of `layout`, which is the plan's. EXCESS counts
    contributions beyond the bounds, found by a second look at what was kept: 0, unless the code is wrong. The
    key travels inside the functions that Python workers run, never in an expression.
    """
    layout = layout or layout_of(plan)
    wide = is_wide(layout) and not plan.spec.unit.is_row
    rows = asked_rows(frame, plan, window)
    if plan.spec.unit.is_row:
        sums = row_unit_sums(rows, plan, layout)
    else:
        sums = _bounded_sums(rows, plan, layout, bounding_key)
    if wide:
        return sums
    return sums.select(
        PLACE,
        F.col(EXCESS).cast("long").alias(EXCESS),
        *(_saturated(F.col(name)).alias(name) for name in layout.names),
    )


def asked_rows(frame: DataFrame, plan: ReleasePlan, window: PeriodWindow) -> DataFrame:
    """Rows of the period for which `where` holds, with derived columns."""
    period, rows = plan.spec.period, with_derived(frame, plan.spec)
    return rows if period is None else rows.where(in_period(rows, period.column, window))


def _bounded_sums(rows: DataFrame, plan: ReleasePlan, layout: Layout, key: bytes) -> DataFrame:
    """Sums of each place: one shuffle, of packed rows by unit, then bounding in workers."""
    units = unit_columns(rows, plan.spec)
    packing = Packing(
        units=len(units),
        numbers=GroupNumbers(plan.keys, other=plan.has_other),
        values=[coding_of(each) for each in layout.coded],
        buckets=shuffle_buckets(rows.sparkSession),
    )
    pack = partial(packed, packing=packing, key=key)
    total = partial(partition_totals, packing=packing, layout=layout, key=key, bounds=plan.bounds)
    read = {
        "unit": units,
        "key": [short(text) for text in key_texts(plan.spec.group_by, plan.null_label)],
        "source": [read_column(rows, source) for source in packing.sources],
    }
    named = (each.alias(f"{of}_{i}") for of, columns in read.items() for i, each in enumerate(columns))
    for name in plan.spec.unit.columns:
        rows = rows.where(F.col(quoted(name)).isNotNull())
    sums = (
        rows.select(*named)
        .mapInArrow(pack, packing.schema)
        .repartition(BUCKET)
        .mapInArrow(total, PACKED_SCHEMA if is_wide(layout) else layout.schema)
    )
    if is_wide(layout):
        add = partial(added_sums, layout=layout, most=LARGEST_TOTAL)
        return sums.repartition(BUCKET_OF_PLACES).mapInArrow(add, PACKED_SCHEMA)
    names = (EXCESS, *layout.names)
    return sums.groupBy(PLACE).agg(*(F.sum(F.col(name).cast("decimal(28,0)")).alias(name) for name in names))


def shuffle_buckets(spark: SparkSession) -> int:
    """A power of two, several times the partitions of a shuffle, so that these get about equal shares."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    wanted = 8 * int(partitions if partitions.isdecimal() else "200")  # some platforms write `auto`
    return min(max(1 << (wanted - 1).bit_length(), 256), BUCKETS_AT_MOST)


def _saturated(total: Column) -> Column:
    """The total within plus and minus LARGEST_TOTAL, in 64 bits: nothing can overflow after this."""
    return F.greatest(F.least(total, F.lit(LARGEST_TOTAL)), F.lit(-LARGEST_TOTAL)).cast("long")
