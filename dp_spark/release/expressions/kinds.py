"""The six kinds of value in an expression, and the SQL that moves a value between them without failing.

Every column is brought to one of them where it is read, so that no operator meets a value that it could fail
on: whole numbers have 64 bits, all other numbers are doubles, days and times lie in the years 1 to 9999, and
a text is valid Unicode of at most MAX_TEXT characters. Spark converts nothing on its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from dp_spark.release.expressions.tree import Constant
from dp_spark.release.problems import Problem, Wrong, shown, wrong

MAX_TEXT = 10_000


class Kind(StrEnum):
    """What a value in an expression is."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


SQL_TYPE = {
    Kind.TEXT: "STRING",
    Kind.WHOLE: "BIGINT",
    Kind.NUMBER: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Typed:
    """A part of an expression as SQL that cannot fail.

    Attributes:
        kind: what it is; None where it is NULL, or a column of which nothing is known yet.
        sql: the SQL.
        constant: the constant that it is, if it is one.
    """

    kind: Kind | None
    sql: str
    constant: Constant | None = None


NOTHING = Typed(None, "NULL")


def literal(constant: Constant) -> Typed:
    """A constant as SQL without quotes and escapes, which settings of a session could read differently."""
    match constant.value:
        case None:
            return Typed(None, "NULL", constant)
        case bool(value):
            return Typed(Kind.BOOLEAN, str(value).upper(), constant)
        case int(value):
            return Typed(Kind.WHOLE, f"({value}L)", constant)
        case float(value):
            return Typed(Kind.NUMBER, f"({value!r}D)", constant)
        case str(value):
            return Typed(Kind.TEXT, text_sql(value), constant)


def text_sql(text: str) -> str:
    """A text as SQL: its UTF-8 bytes in hexadecimal."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def date_sql(day: date) -> str:
    """A day as SQL."""
    return f"date_from_unix_date({(day - date(1970, 1, 1)).days})"


def timestamp_sql(time: datetime) -> str:
    """A moment as SQL; without a zone it is of UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    micros = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return f"timestamp_micros({micros}L)"


_RANGES: Mapping[Kind, tuple[str, str]] = {
    Kind.DATE: (date_sql(date.min), date_sql(date.max)),
    Kind.TIMESTAMP: (timestamp_sql(datetime.min), timestamp_sql(datetime.max)),
}


def within_years(kind: Kind, sql: str) -> str:
    """The day or time, or NULL where its year is not one of 1 to 9999: beyond, conversions overflow."""
    first, last = _RANGES[kind]
    return f"CASE WHEN {sql} BETWEEN {first} AND {last} THEN {sql} END"


def cut(sql: str) -> str:
    """The first MAX_TEXT characters of a text."""
    return f"substring({sql}, 1, {MAX_TEXT})"


def moved(value: Typed, kind: Kind) -> str | None:
    """The value as a kind that holds all of its values; None where only a cast can do that."""
    match value.kind, kind:
        case None, _:
            return f"CAST(NULL AS {SQL_TYPE[kind]})"
        case same, _ if same is kind:
            return value.sql
        case Kind.WHOLE, Kind.NUMBER:
            return f"CAST({value.sql} AS DOUBLE)"
        case Kind.DATE, Kind.TIMESTAMP:
            return f"CAST({value.sql} AS TIMESTAMP)"
        case Kind.TEXT, Kind.DATE | Kind.TIMESTAMP if value.constant is not None:
            return moment_sql(str(value.constant.value), kind)
    return None


def common_kind(values: list[Typed]) -> Kind | None:
    """The kind that all of these can be moved to; None where none is known.

    Raises:
        Wrong: there is none.
    """
    kinds = list(dict.fromkeys(value.kind for value in values if value.kind is not None))
    for kind in (*kinds, Kind.NUMBER, Kind.TIMESTAMP):
        if all(moved(value, kind) is not None for value in values):
            return kind if kinds else None
    raise mixed(values)


def mixed(values: list[Typed]) -> Wrong:
    """The problem of values of kinds that do not go together."""
    kinds = list(dict.fromkeys(value.kind for value in values if value.kind is not None))
    other = next((kind for kind in kinds if kind is not Kind.TEXT), Kind.WHOLE)
    way_out = (
        f"write try_cast(COLUMN AS {SQL_TYPE[other]}) for the text, or take the quotes off a constant"
        if Kind.TEXT in kinds
        else "cast one of them"
    )
    return Wrong(Problem(f"mixes {' and '.join(kinds)}", way_out, "values of one kind"))


def moment_sql(text: str, kind: Kind) -> str:
    """A constant day or time as SQL.

    Raises:
        Wrong: it is none.
    """
    try:
        if kind is Kind.DATE:
            return date_sql(date.fromisoformat(text))
        return timestamp_sql(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        allowed = "YYYY-MM-DD" if kind is Kind.DATE else "YYYY-MM-DD or YYYY-MM-DD HH:MM:SS, UTC"
        raise wrong(text, f"is no {kind}", allowed=allowed, way_out="write it so") from None


# A time of day without a day would be read as one of today.
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
_ISO_TIME = rf"\A{_DAY}([ T]{_CLOCK})?\z"
_ISO_DATE = rf"\A{_DAY}([ T].*)?\z"
_DECIMAL = r"\A[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?\z"
_WHOLE = r"\A[+-]?[0-9]{1,19}\z"


def _if_like(pattern: str, sql_type: str, text: str = "{0}") -> str:
    """The cast of a text that has this form; what else Spark reads differs by its version, or by the day."""
    return f"CASE WHEN {text} RLIKE {text_sql(pattern)} THEN try_cast({{0}} AS {sql_type}) END"


CASTS: Mapping[tuple[Kind, Kind], str] = {
    (Kind.TEXT, Kind.WHOLE): _if_like(_WHOLE, "BIGINT", "trim({0})"),
    (Kind.TEXT, Kind.NUMBER): _if_like(_DECIMAL, "DOUBLE", "trim({0})"),
    (Kind.TEXT, Kind.BOOLEAN): "try_cast({0} AS BOOLEAN)",
    (Kind.TEXT, Kind.DATE): _if_like(_ISO_DATE, "DATE"),
    (Kind.TEXT, Kind.TIMESTAMP): _if_like(_ISO_TIME, "TIMESTAMP"),
    (Kind.WHOLE, Kind.TEXT): "CAST({0} AS STRING)",
    (Kind.WHOLE, Kind.NUMBER): "CAST({0} AS DOUBLE)",
    (Kind.NUMBER, Kind.WHOLE): "try_cast({0} AS BIGINT)",
    (Kind.BOOLEAN, Kind.WHOLE): "CAST({0} AS BIGINT)",
    (Kind.BOOLEAN, Kind.NUMBER): "CAST({0} AS DOUBLE)",
    (Kind.BOOLEAN, Kind.TEXT): "CAST({0} AS STRING)",
    (Kind.DATE, Kind.TEXT): "CAST({0} AS STRING)",
    (Kind.DATE, Kind.TIMESTAMP): "CAST({0} AS TIMESTAMP)",
    (Kind.TIMESTAMP, Kind.TEXT): "CAST({0} AS STRING)",
    (Kind.TIMESTAMP, Kind.DATE): "CAST({0} AS DATE)",
}  # fmt: skip
CAST_TYPES: Mapping[str, Kind] = {
    "tinyint": Kind.WHOLE, "smallint": Kind.WHOLE, "int": Kind.WHOLE, "bigint": Kind.WHOLE,
    "double": Kind.NUMBER, "string": Kind.TEXT, "boolean": Kind.BOOLEAN, "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
}  # fmt: skip
_BITS = {"tinyint": 8, "smallint": 16, "int": 32}


def cast(value: Typed, to: str) -> Typed:
    """The value as another type, NULL where it has none.

    Raises:
        Wrong: no value of its kind has one.
    """
    kind = CAST_TYPES[to]
    sql = value.sql
    if value.kind is None:
        sql = f"CAST(NULL AS {SQL_TYPE[kind]})"
    elif value.kind is Kind.TEXT and value.constant and kind in (Kind.DATE, Kind.TIMESTAMP):
        sql = moment_sql(str(value.constant.value), kind)
    elif value.kind is not kind:
        if (value.kind, kind) not in CASTS:
            why = f"casts a {value.kind} to {to}"
            way_out = (
                "write string(bigint(round(x))): how a double is written differs between versions of Java"
                if value.kind is Kind.NUMBER and kind is Kind.TEXT
                else "compare it with a constant instead, or cast over text"
            )
            raise Wrong(Problem(why, way_out, "a cast that keeps the meaning"))
        sql = CASTS[value.kind, kind].format(value.sql)
        sql = within_years(kind, sql) if value.kind is Kind.TEXT and kind in _RANGES else sql
    if to in _BITS:
        sql = f"CAST(try_cast({sql} AS {to.upper()}) AS BIGINT)"
    return Typed(kind, sql)


def default_sql(written: str, kind: Kind) -> str:
    """A declared default as SQL of its kind.

    Raises:
        Wrong: it is no value of that kind.
    """
    match kind:
        case Kind.TEXT:
            return text_sql(written)
        case Kind.DATE | Kind.TIMESTAMP:
            return moment_sql(written, kind)
        case Kind.BOOLEAN if written.lower() in ("true", "false"):
            return written.upper()
    try:
        if kind is Kind.WHOLE and written.isascii() and -(2**63) <= int(written) < 2**63:
            return literal(Constant(int(written))).sql
        if kind is Kind.NUMBER and abs(float(written)) <= 1e15:
            return literal(Constant(float(written))).sql
    except ValueError:
        pass
    way_out = f"write a default that is a {kind}, or make the expression another kind"
    if kind in (Kind.WHOLE, Kind.BOOLEAN, Kind.DATE):
        way_out += ": string(...) for a text"
    raise Wrong(Problem(f"is no {kind}, which the expression gives", way_out, f"a {kind}", shown(written)))
