"""Public groups from a table of the Spark catalog."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.errors import InputRefused
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.column_checks import check_table_columns
from dp_spark.frames.names import quoted
from dp_spark.frames.period import day_of
from dp_spark.release.group_keys import Keys
from dp_spark.release.listing import checked_keys
from dp_spark.release.period import PeriodWindow
from dp_spark.release.public_lists import require_public_table
from dp_spark.release.spec import MAX_GROUP_KEYS, PublicTable, ReleaseSpec


def table_keys(spark: SparkSession, spec: ReleaseSpec, window: PeriodWindow, private: Iterable[str]) -> Keys:
    """The groups that the spec's `public_table` has, in code point order; its one Spark action.

    To be called within `session.pinned`. `private` are the sources that no list may be read from, by their
    names in the ledger.

    Raises:
        InputRefused: the table is private or cannot be read, or as `checked_keys`.
    """
    table = spec.groups.public_table
    assert table is not None  # whoever asks has looked
    told = f"public_table {table.table!r}"
    try:
        frame = spark.table(table.table)
        require_public_table(table.table, frame.inputFiles(), private)
        check_table_columns(frame, spec)
        rows = to_arrow(valid_keys(frame, spec, table, window).limit(MAX_GROUP_KEYS + 1))
    except InputRefused:
        raise
    except Exception as failure:  # noqa: BLE001  # a view may read private rows, which Spark's text may quote
        condition = getattr(failure, "getCondition", lambda: None)()
        raise InputRefused(
            "groups_not_readable",
            f"{told} cannot be read ({condition or type(failure).__name__})",
            way_out="check groups.public_table: a table or view that the session's catalog has; nothing was "
            "charged",
        ) from None
    return checked_keys(rows.to_batches(), spec.groups, rolled=spec.rollup is not None, told=told)


def valid_keys(frame: DataFrame, spec: ReleaseSpec, table: PublicTable, window: PeriodWindow) -> DataFrame:
    """The distinct keys as texts, of the rows that are valid at the last moment of the window."""
    rows = frame if table.as_of is None else frame.where(_valid(frame, table, window))
    texts = (F.col(quoted(name)).cast("string").alias(name) for name in spec.group_by)
    return rows.select(*texts).distinct()


def _valid(frame: DataFrame, table: PublicTable, window: PeriodWindow) -> Column:
    """Begun on the last day or before, and not ended on it or before; a NULL end is none."""
    assert table.valid_from is not None  # the spec has it where it has as_of
    after = F.lit(window.end)
    begun = day_of(frame, table.valid_from, window.timezone) < after
    if table.valid_to is None:
        return begun
    end = day_of(frame, table.valid_to, window.timezone)
    return begun & (F.col(quoted(table.valid_to)).isNull() | (end >= after))
