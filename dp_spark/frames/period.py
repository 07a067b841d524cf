"""Rows by their date: which lie in a period, whatever type the column has."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.frames.names import quoted
from dp_spark.release.period import PeriodWindow


def in_period(frame: DataFrame, column: str, window: PeriodWindow) -> Column:
    """Whether a row lies in the window; a text that is no date, and NULL, do not."""
    field = quoted(column)
    kind = frame.schema[column].dataType
    if isinstance(kind, T.TimestampType):
        first, after = map(F.timestamp_micros, map(F.lit, window.utc_micros))
        return (F.col(field) >= first) & (F.col(field) < after)
    day = day_of(frame, column, "UTC")
    return (day >= F.lit(window.start)) & (day < F.lit(window.end))


def day_of(frame: DataFrame, column: str, timezone: str) -> Column:
    """The date in a column, of a timestamp as `timezone` has it; NULL where there is none."""
    field = F.col(quoted(column))
    match frame.schema[column].dataType:
        case T.TimestampType():
            return F.to_date(F.from_utc_timestamp(field, timezone))
        case T.StringType():
            return F.expr(f"try_cast({quoted(column)} AS DATE)")
        case _:
            return field.cast("date")
