"""Derived columns and the row filter, as native expressions that give the same on every Spark line.

Spark gets SQL that `release.expressions` makes from a checked tree and the kinds of the columns, so that no
conversion is left to Spark and no row can make it fail, whatever the ANSI mode.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.release.expressions import (
    Kind,
    Typed,
    columns_of,
    compiled,
    condition_sql,
    default_sql,
    parse_expression,
)
from dp_spark.release.expressions.kinds import cut, within_years
from dp_spark.release.problems import Problem, Wrong, nearest, shown
from dp_spark.release.spec import InputFormat, ReleaseSpec

TYPES: Mapping[Kind, T.DataType] = {
    Kind.TEXT: T.StringType(),
    Kind.WHOLE: T.LongType(),
    Kind.NUMBER: T.DoubleType(),
    Kind.BOOLEAN: T.BooleanType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampType(),
}
_NEVER_NAN = "nanvl({0}, CAST(NULL AS DOUBLE))"


def with_derived(frame: DataFrame, spec: ReleaseSpec) -> DataFrame:
    """The frame with the spec's derived columns, and without the rows for which `where` is not true.

    To be called within `session.pinned`, which holds the time zone, on a frame that `derived_types` admits.

    Raises:
        Wrong: an expression does not fit the columns.
    """
    made = _made(frame.schema, spec)
    if made.problems:
        raise Wrong(*made.problems)
    for name, sql in made.derived.items():
        frame = frame.withColumn(name, F.expr(sql))
    return frame if made.where is None else frame.where(F.expr(made.where))


def derived_types(schema: T.StructType, spec: ReleaseSpec) -> tuple[dict[str, T.DataType], list[Problem]]:
    """The types of the derived columns over an input of this schema, and what is wrong with them."""
    made = _made(schema, spec)
    return {name: TYPES[kind] for name, kind in made.kinds.items()}, made.problems


def reads_moments(schema: T.StructType, spec: ReleaseSpec) -> bool:
    """Whether an expression of the spec, or its unit's period, may depend on the session's time zone."""
    texts = [each.sql for each in spec.derive or ()] + ([spec.where] if spec.where else [])
    named = {column for text in texts for column in columns_of(parse_expression(text))}
    if spec.unit.per is not None and spec.period is not None:
        named.add(spec.period.column)
    kinds = {field.name: field.dataType for field in schema.fields}
    moments = (T.TimestampType, T.StructType)  # what a struct holds is not looked at
    return any(isinstance(kinds.get(name), moments) for name in named) or any(
        "timestamp" in text.casefold() for text in texts
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """What a spec's expressions are over one schema: SQL and kinds by name, and what is wrong."""

    derived: dict[str, str]
    kinds: dict[str, Kind]
    where: str | None
    problems: list[Problem]


def _made(schema: T.StructType, spec: ReleaseSpec) -> _Made:
    inputs = {field.name: field.dataType for field in schema.fields}
    named = spec.input.format is not InputFormat.CSV
    made: dict[str, Kind] = {}
    failed: set[str] = set()

    def column(path: tuple[str, ...]) -> Typed:
        if path[0] in made and len(path) == 1:
            return Typed(made[path[0]], quoted_path(path))
        if path[0] in failed:
            return Typed(None, "NULL")
        return _read(path, inputs, list(made), named=named)

    derived: dict[str, str] = {}
    problems = list(_shadowing(spec, inputs))
    for each in spec.derive or ():
        place = ("derive", each.name)
        try:
            value = compiled(parse_expression(each.sql), column)
            if value.kind is None:
                raise Wrong(Problem("is always NULL", "write the value", at=("sql",)))
            sql = _NEVER_NAN.format(value.sql) if value.kind is Kind.NUMBER else value.sql
            derived[each.name] = f"coalesce({sql}, {_default(each.default, value.kind)})"
            made[each.name] = value.kind
        except Wrong as failure:
            failed.add(each.name)
            problems += [problem.under(*place) for problem in failure.problems]
    where = None
    if spec.where is not None:
        try:
            where = condition_sql(parse_expression(spec.where), column)
        except Wrong as failure:
            problems += [problem.under("where") for problem in failure.problems]
    return _Made(derived, made, where, problems)


def _default(written: str, kind: Kind) -> str:
    try:
        return default_sql(written, kind)
    except Wrong as failure:
        raise Wrong(*(problem.under("default") for problem in failure.problems)) from None


def _shadowing(spec: ReleaseSpec, inputs: Mapping[str, T.DataType]) -> Iterator[Problem]:
    folded = {name.casefold() for name in inputs}
    for each in spec.derive or ():
        if each.name.casefold() in folded:
            why = "is also a column of the input, so that its name would mean two things"
            yield Problem(why, f"name it {each.name}_derived", at=("derive", each.name))


def _read(path: tuple[str, ...], inputs: Mapping[str, T.DataType], made: list[str], *, named: bool) -> Typed:
    """A column of the input, or a field within one, brought to its kind."""
    kind: T.DataType = T.StructType([T.StructField(name, each) for name, each in inputs.items()])
    for step in path:
        fields = (
            {field.name: field.dataType for field in kind.fields} if isinstance(kind, T.StructType) else {}
        )
        if step not in fields:
            # Names are not listed: the first line of a CSV file without a header is a row.
            guess = nearest(step, [*fields, *made]) if named else nearest(step, made)
            way_out = (
                f"did you mean {guess!r}?" if guess else "name a column of the input, or one derived before"
            )
            raise Wrong(Problem(f"reads {shown('.'.join(path))}: no such column", way_out))
        kind = fields[step]
    return _as_kind(quoted_path(path), kind, path)


def _as_kind(sql: str, kind: T.DataType, path: tuple[str, ...]) -> Typed:  # noqa: PLR0911
    match kind:
        case T.StringType() if getattr(kind, "collation", "UTF8_BINARY") in (None, "UTF8_BINARY"):
            # Translating nothing turns bytes that are no UTF-8 into the replacement character.
            return Typed(Kind.TEXT, cut(f"translate({sql}, '', '')"))
        case T.IntegralType():
            return Typed(Kind.WHOLE, f"CAST({sql} AS BIGINT)")
        case T.NumericType():
            return Typed(Kind.NUMBER, f"CAST({sql} AS DOUBLE)")
        case T.BooleanType():
            return Typed(Kind.BOOLEAN, sql)
        case T.DateType():
            return Typed(Kind.DATE, within_years(Kind.DATE, sql))
        case T.TimestampType():
            return Typed(Kind.TIMESTAMP, within_years(Kind.TIMESTAMP, sql))
        case T.TimestampNTZType():
            return Typed(Kind.TIMESTAMP, within_years(Kind.TIMESTAMP, f"CAST({sql} AS TIMESTAMP)"))
    raise Wrong(
        Problem(
            f"reads {shown('.'.join(path))}, a {kind.simpleString()}",
            "take a simple value out of it in the view that is released from",
            "text, numbers, booleans, dates, timestamps, and fields of structs",
        )
    )


def quoted_path(path: tuple[str, ...]) -> str:
    """A column, or a field within one, as Spark SQL reads it."""
    return ".".join("`" + step.replace("`", "``") + "`" for step in path)
