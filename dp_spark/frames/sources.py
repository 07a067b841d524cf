"""Inputs as DataFrames: opened lazily, their columns checked against the spec before anything is charged."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.errors import InputRefused
from dp_spark.frames.expressions import derived_types
from dp_spark.queries import Binning, ClampedColumn, Listed
from dp_spark.release.asking import query_of
from dp_spark.release.period import PeriodWindow
from dp_spark.release.problems import nearest
from dp_spark.release.spec import InputFormat, InputSpec, QuerySpec, ReleaseSpec, contribution_bounds

_OPTIONS: Mapping[InputFormat, Mapping[str, str]] = {
    InputFormat.PARQUET: {"mergeSchema": "true"},
    # RFC 4180: a line end within quotes is part of a value, not the start of another person.
    InputFormat.CSV: {
        "header": "true",
        "multiLine": "true",
        "quote": '"',
        "escape": '"',
        "maxColumns": "1000000",
    },
}
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")  # a path from the root, or one with a scheme
Kinds: TypeAlias = tuple[type[T.DataType], ...]
KEY_TYPES: Kinds = (T.StringType, T.IntegralType, T.DateType, T.BooleanType)
VALUE_TYPES: Kinds = (T.NumericType, T.StringType)
PERIOD_TYPES: Kinds = (T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType)


def open_source(spark: SparkSession, source: InputSpec) -> DataFrame:
    """The input as a lazy frame; only file names, footers and header lines are read.

    To be called, like every action on the frame, within `session.pinned`.

    Raises:
        InputRefused: the path does not exist or is not of the format, or its files do not agree on columns.
    """
    path = _located(source)

    def reader() -> DataFrameReader:
        return spark.read.format(source.format.value).options(**_OPTIONS[source.format])

    try:
        files = reader().option("recursiveFileLookup", "true").load(path)
        names = files.inputFiles()
        above = len(_partition_columns(path + "/"))
        folders = {_partition_columns(name)[above:] for name in names}
        if len(folders) > 1 or set(next(iter(folders), ())) & set(files.columns):
            raise _mixed(source, "files in directories COLUMN=VALUE beside others, or over such a column")
        if (
            source.format is InputFormat.CSV
            and len({tuple(reader().load(name).columns) for name in names}) > 1
        ):
            raise _mixed(source, "files with different header lines")
        return reader().load(path) if any(folders) else files
    except InputRefused:
        raise
    except Exception as failure:  # noqa: BLE001  # Spark's text may quote a header or a footer
        raise _not_readable(source, _condition(failure) or type(failure).__name__) from None


def _partition_columns(file: str) -> tuple[str, ...]:
    """The columns that the file's directories name, `.../town=01/...`, from the outermost in."""
    folders = unquote(file).split("/")[:-1]
    return tuple(folder.split("=")[0] for folder in folders if "=" in folder)


def _mixed(source: InputSpec, what: str) -> InputRefused:
    return InputRefused(
        "input_mixed",
        f"input.path = {source.path!r} holds {what}: which columns a row has would depend on its file",
        way_out="write all files alike, or name the directory of those that are",
    )


def _not_readable(source: InputSpec, condition: str) -> InputRefused:
    way_out = "check input.path and input.format"
    if condition == "PARQUET_TYPE_ILLEGAL":
        way_out = (
            "a column has a type that Spark does not read, most often timestamps in nanoseconds: write them "
            "with to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)"
        )
    return InputRefused(
        "input_not_readable",
        f"input.path = {source.path!r}, that is {_located(source)}, cannot be opened as {source.format} "
        f"({condition})",
        way_out=way_out,
    )


def _located(source: InputSpec) -> str:
    """The input's path as Spark finds it: a relative one is a file of this machine, seen from where we run.

    Spark's own process may have been started elsewhere.
    """
    path = source.path
    assert path is not None  # the formats of files have one
    return path if _ABSOLUTE.match(path) else f"file:{Path.cwd() / path}"


def check_columns(frame: DataFrame, spec: ReleaseSpec) -> None:
    """Refuse a frame that lacks a column of the spec, or has it in a type that cannot serve.

    Derived columns count as columns; their expressions are checked against the frame's.

    Raises:
        InputRefused: names every such column, with its type and the types allowed.
    """
    derived, wrong = derived_types(frame.schema, spec)
    types = {**{field.name: field.dataType for field in frame.schema.fields}, **derived}
    named = spec.input.format is not InputFormat.CSV
    failed = {each.name for each in spec.derive or ()} - set(derived)
    problems = [
        problem
        for place, column, allowed in _needed(spec)
        if column not in failed
        and (problem := column_problem(place, column, allowed, types, named=named)) is not None
    ]
    problems += [f"{problem.told()}; {problem.way_out}" for problem in wrong]
    if problems:
        raise InputRefused(
            "input_columns",
            "the input does not have what the spec names:\n  " + "\n  ".join(problems),
            way_out="name the columns as the input has them, or cast them in the view that writes it; "
            "nothing was charged",
        )


def check_table_columns(frame: DataFrame, spec: ReleaseSpec) -> None:
    """Refuse a public table that lacks a column of a key, or of its validity, or has it in another type.

    Raises:
        InputRefused: names every such column, with its type and the types allowed.
    """
    table = spec.groups.public_table
    assert table is not None  # the frame is of it
    types = {field.name: field.dataType for field in frame.schema.fields}
    needed = [(f"group_by[{i}]", column, KEY_TYPES) for i, column in enumerate(spec.group_by)]
    needed += [
        (f"groups.public_table.{key}", column, PERIOD_TYPES)
        for key, column in (("valid_from", table.valid_from), ("valid_to", table.valid_to))
        if column is not None
    ]
    found = (column_problem(place, column, allowed, types, named=True) for place, column, allowed in needed)
    if problems := list(filter(None, found)):
        raise InputRefused(
            "groups_columns",
            f"public_table {table.table!r} does not have what the spec names:\n  " + "\n  ".join(problems),
            way_out="name a view that has these columns; nothing was charged",
        )


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


def quoted(column: str) -> str:
    """The column's name as Spark SQL reads it, whatever characters it holds."""
    return "`" + column.replace("`", "``") + "`"


def _needed(spec: ReleaseSpec) -> list[tuple[str, str, Kinds]]:
    needed = [("unit.column", column, KEY_TYPES) for column in spec.unit.columns]
    needed += [(f"group_by[{i}]", column, KEY_TYPES) for i, column in enumerate(spec.group_by)]
    if spec.period is not None:
        needed.append(("period.column", spec.period.column, PERIOD_TYPES))
    for i, query in enumerate(spec.queries):
        needed += [(f"queries[{i}].{word}", *each) for word, each in _of_query(query, spec)]
    return needed


def _of_query(query: QuerySpec, spec: ReleaseSpec) -> list[tuple[str, tuple[str, Kinds]]]:
    """The columns that a query reads and their types, with the word that names each in the spec.

    A query of other queries names no column: they do.
    """
    read: dict[tuple[str, Kinds], None] = {}
    for total in query_of(query, spec).totals(contribution_bounds(spec.unit, spec.bounds)):
        measure = total.measure
        for each in (measure.of, measure.binning, measure.weight):
            if each is not None:
                read[each.column, _types_of(each)] = None
    weight = getattr(getattr(query, "weight", None), "column", None)
    words = {weight: "weight.column", getattr(query, "column", None): "column"}
    return [(words[column], (column, kinds)) for column, kinds in read if column in words]


def _types_of(read: ClampedColumn | Binning) -> Kinds:
    if isinstance(read, Listed):
        return KEY_TYPES
    return (T.DataType,) if isinstance(read, ClampedColumn) and read.presence else VALUE_TYPES


def column_problem(
    place: str, column: str, allowed: Kinds, types: Mapping[str, T.DataType], *, named: bool
) -> str | None:
    """What is wrong with a column that a spec names at `place`; without `named` no other name is told."""
    if column not in types:
        # Names are not listed: the first line of a CSV file without a header is a row.
        guess = nearest(column, types)
        hint = f"; did you mean {guess!r}?" if guess and named else f"; the input has {len(types)} others"
        return f"{place} = {column!r}: no such column{hint}"
    if not isinstance(types[column], allowed):
        words = ", ".join(kind.__name__.removesuffix("Type").lower() for kind in allowed)
        return f"{place} = {column!r}: is {types[column].simpleString()}, must be one of {words}"
    return None


def _condition(failure: Exception) -> str | None:
    read = getattr(failure, "getCondition", None) or getattr(failure, "getErrorClass", None)
    condition = read() if read is not None else None
    if condition is None and "Illegal Parquet type" in str(failure):  # pyspark 3.5 has no class for it
        return "PARQUET_TYPE_ILLEGAL"
    return condition if isinstance(condition, str) else None
