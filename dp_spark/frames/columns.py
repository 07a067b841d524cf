"""The columns of a spec as Spark expressions that no row can make fail."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.frames.sources import day_of, quoted
from dp_spark.queries import ClampedColumn
from dp_spark.release.spec import ReleaseSpec

# A longer text travels as its digest, so that no batch of rows outgrows what Arrow can hold. Public groups
# have at most 1000 characters of at most 4 bytes.
LONGEST_TEXT = 4096


def unit_columns(frame: DataFrame, spec: ReleaseSpec) -> list[Column]:
    """What makes the unit, each a text or a 64-bit integer; NULL in one is no unit.

    A unit of a shorter period than the release's has that period as its last column.
    """
    columns = [_identifying(frame, name) for name in spec.unit.columns]
    period = spec.period
    if spec.unit.per is not None and period is not None and spec.unit.per is not period.every:
        day = day_of(frame, period.column, period.timezone)  # days alone lie in longer periods
        columns.append(F.unix_date(day).cast("long"))
    return columns


def key_columns(spec: ReleaseSpec) -> list[Column]:
    """The texts that make the group, as key_0, key_1, ..."""
    return [
        short(F.col(quoted(name)).cast("string")).alias(f"key_{i}") for i, name in enumerate(spec.group_by)
    ]


def number(of: ClampedColumn) -> Column:
    """The value as a double; NULL where it is no number."""
    return F.expr(f"try_cast({quoted(of.column)} AS DOUBLE)")


def steps_above_lower(of: ClampedColumn) -> Column:
    """floor(clamped value / step + 1/2) less the lower bound, from 0 up; NULL where it does not count."""
    value = number(of)
    clamped = F.greatest(F.least(value, F.lit(float(of.upper))), F.lit(float(of.lower)))
    steps = F.floor(clamped * float(of.step.denominator) / float(of.step.numerator) + 0.5)
    within = F.greatest(F.least(steps, F.lit(of.upper_steps)), F.lit(of.lower_steps))
    return F.when(value.isNotNull() & ~F.isnan(value), within - F.lit(of.lower_steps))


def short(text: Column) -> Column:
    """A text of LONGEST_TEXT bytes or less as it is; of a longer one a digest that equals no shorter text."""
    digest = F.rpad(F.sha2(text.cast("binary"), 256), LONGEST_TEXT + 1, " ")
    return F.when(F.octet_length(text) <= LONGEST_TEXT, text).otherwise(digest)


def _identifying(frame: DataFrame, name: str) -> Column:
    column = F.col(quoted(name))
    match frame.schema[name].dataType:
        case T.DateType():
            return F.unix_date(column).cast("long")
        case T.IntegralType():
            return column.cast("long")
        case _:
            return short(column.cast("string"))
