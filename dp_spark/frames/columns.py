"""The columns of a spec as Spark expressions that no row can make fail."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.frames.coding import Form, Source
from dp_spark.frames.names import quoted
from dp_spark.frames.period import day_of
from dp_spark.queries import ClampedColumn, Edges
from dp_spark.release.spec import ReleaseSpec

# A longer text travels as its digest, so that no batch of rows outgrows what Arrow can hold. Public groups
# have at most 1000 characters of at most 4 bytes.
LONGEST_TEXT = 4096


def unit_columns(frame: DataFrame, spec: ReleaseSpec) -> list[Column]:
    """What makes the unit, each a text or a 64-bit integer; NULL in one is no unit.

    A unit of a shorter period than the release's has that period as its last column.
    """
    columns = [identifying(frame, name) for name in spec.unit.columns]
    period = spec.period
    if spec.unit.per is not None and period is not None and spec.unit.per is not period.every:
        day = day_of(frame, period.column, period.timezone)  # days alone lie in longer periods
        columns.append(F.unix_date(day).cast("long"))
    return columns


def key_texts(group_by: Sequence[str], null_label: str | None) -> list[Column]:
    """The texts that make the group; a NULL counts as `null_label`, if that is a text."""
    texts = [F.col(quoted(name)).cast("string") for name in group_by]
    return texts if null_label is None else [F.coalesce(text, F.lit(null_label)) for text in texts]


def read_column(frame: DataFrame, source: Source) -> Column:
    """A column in the form that workers read; NULL where there is no number, or no text of one."""
    match source.form:
        case Form.NUMBER:
            return number(source.column)
        case Form.TEXT:
            return short(_text(frame, source.column))
        case Form.PRESENCE:
            return is_present(frame, source.column)
        case Form.ORDER:
            return F.coalesce(order(frame, source.column), F.lit(2**63 - 1))


def number(column: str) -> Column:
    """The value as a double; NULL where it is no number."""
    return F.expr(f"try_cast({quoted(column)} AS DOUBLE)")


def order(frame: DataFrame, column: str) -> Column:
    """An integer that orders values: of a date its day, of a time its microsecond, which a text may say."""
    value = F.col(quoted(column))
    match frame.schema[column].dataType:
        case T.IntegralType():
            return value.cast("long")
        case T.DateType():
            return F.unix_date(value).cast("long")
        case T.TimestampType():
            return F.unix_micros(value)
        case T.TimestampNTZType():
            return F.unix_micros(value.cast("timestamp"))
        case _:
            return F.unix_micros(F.expr(f"try_cast({quoted(column)} AS TIMESTAMP)"))


def is_present(frame: DataFrame, column: str) -> Column:
    """Whether the value, of whatever type, is neither NULL nor the NaN of a floating-point number."""
    value = F.col(quoted(column))
    if isinstance(frame.schema[column].dataType, (T.FloatType, T.DoubleType)):
        return value.isNotNull() & ~F.isnan(value)
    return value.isNotNull()


def steps_above_lower(frame: DataFrame, of: ClampedColumn) -> Column:
    """floor(clamped value / step + 1/2) less the lower bound, from 0 up; NULL where it does not count."""
    if of.presence:
        return F.when(is_present(frame, of.column), F.lit(1 - of.lower_steps).cast("long"))
    value = number(of.column)
    clamped = F.greatest(F.least(value, F.lit(float(of.upper))), F.lit(float(of.lower)))
    steps = F.floor(clamped * float(of.step.denominator) / float(of.step.numerator) + 0.5)
    within = F.greatest(F.least(steps, F.lit(of.upper_steps)), F.lit(of.lower_steps))
    return F.when(value.isNotNull() & ~F.isnan(value), within - F.lit(of.lower_steps))


def bin_index(of: Edges) -> Column:
    """Which bin the value lies in, from 0; NULL where in none: a binary search of the inner edges.

    They stand in one array, and each step of the search skips a power of two of them if the last is reached.
    """
    inner = [float(edge) for edge in of.edges[1:-1]]
    value = number(of.column)
    if not inner:
        return F.when(value.isNotNull() & ~F.isnan(value), F.lit(0))
    edges = F.array(*map(F.lit, inner))
    skips = F.array(*(F.lit(1 << bit) for bit in reversed(range(len(inner).bit_length()))))

    def skip(passed: Column, by: Column) -> Column:
        reached = (passed + by <= len(inner)) & (F.get(edges, passed + by - 1) <= value)
        return F.when(reached, passed + by).otherwise(passed)

    return F.when(value.isNotNull() & ~F.isnan(value), F.aggregate(skips, F.lit(0), skip))


def short(text: Column) -> Column:
    """A text of LONGEST_TEXT bytes or less as it is; of a longer one a digest that equals no shorter text."""
    digest = F.rpad(F.sha2(text.cast("binary"), 256), LONGEST_TEXT + 1, " ")
    return F.when(F.octet_length(text) <= LONGEST_TEXT, text).otherwise(digest)


def _text(frame: DataFrame, name: str) -> Column:
    """The column as a text; NULL for the NaN of a floating-point number."""
    text = F.col(quoted(name)).cast("string")
    if isinstance(frame.schema[name].dataType, (T.FloatType, T.DoubleType)):
        return F.when(is_present(frame, name), text)
    return text


def identifying(frame: DataFrame, name: str) -> Column:
    """The column as a text or a 64-bit integer."""
    column = F.col(quoted(name))
    match frame.schema[name].dataType:
        case T.DateType():
            return F.unix_date(column).cast("long")
        case T.IntegralType():
            return column.cast("long")
        case _:
            return short(column.cast("string"))
