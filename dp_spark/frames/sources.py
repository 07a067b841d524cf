"""Inputs as DataFrames: opened lazily, their columns checked against the spec before anything is charged."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.errors import InputRefused
from dp_spark.release.period import PeriodWindow
from dp_spark.release.spec import ColumnQuerySpec, InputSpec, ReleaseSpec

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")  # a path from the root, or one with a scheme
Kinds: TypeAlias = tuple[type[T.DataType], ...]
_KEY_TYPES: Kinds = (T.StringType, T.IntegralType, T.DateType, T.BooleanType)
_VALUE_TYPES: Kinds = (T.NumericType, T.StringType)
_PERIOD_TYPES: Kinds = (T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType)


def open_source(spark: SparkSession, source: InputSpec) -> DataFrame:
    """The input as a lazy frame; only file names, footers or a header line are read.

    Raises:
        InputRefused: the path does not exist or is not of the format.
    """
    reader = spark.read.option("header", "true") if source.format == "csv" else spark.read
    try:
        return reader.format(source.format).load(_located(source.path))
    except AnalysisException as failure:
        raise InputRefused(
            "input_not_readable",
            f"input.path = {source.path!r} cannot be opened as {source.format} "
            f"({_condition(failure) or type(failure).__name__})",
            way_out="check input.path and input.format; nothing was charged",
        ) from None


def _located(path: str) -> str:
    """The path as Spark finds it: a relative one is a file of this machine, seen from where we run.

    Spark's own process may have been started elsewhere.
    """
    return path if _ABSOLUTE.match(path) else f"file:{Path.cwd() / path}"


def check_columns(frame: DataFrame, spec: ReleaseSpec) -> None:
    """Refuse a frame that lacks a column of the spec, or has it in a type that cannot serve.

    Raises:
        InputRefused: names every such column, with its type and the types allowed.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    problems = [
        problem
        for place, column, allowed in _needed(spec)
        if (problem := _problem(place, column, allowed, types)) is not None
    ]
    if problems:
        raise InputRefused(
            "input_columns",
            "the input does not have what the spec names:\n  " + "\n  ".join(problems),
            way_out="name the columns as the input has them, or cast them in the view that writes it; "
            "nothing was charged",
        )


def in_period(frame: DataFrame, column: str, window: PeriodWindow) -> Column:
    """Whether a row lies in the window; a text that is no date, and NULL, do not."""
    field = quoted(column)
    kind = frame.schema[column].dataType
    if isinstance(kind, T.TimestampType):
        first, after = map(F.timestamp_micros, map(F.lit, window.utc_micros))
        return (F.col(field) >= first) & (F.col(field) < after)
    day = F.expr(f"try_cast({field} AS DATE)") if isinstance(kind, T.StringType) else F.col(field)
    return (day >= F.lit(window.start)) & (day < F.lit(window.end))


def quoted(column: str) -> str:
    """The column's name as Spark SQL reads it, whatever characters it holds."""
    return "`" + column.replace("`", "``") + "`"


def _needed(spec: ReleaseSpec) -> list[tuple[str, str, Kinds]]:
    needed = [("unit.column", spec.unit.column, _KEY_TYPES)]
    needed += [(f"group_by[{i}]", column, _KEY_TYPES) for i, column in enumerate(spec.group_by)]
    if spec.period is not None:
        needed.append(("period.column", spec.period.column, _PERIOD_TYPES))
    needed += [
        (f"queries[{i}].column", query.column, _VALUE_TYPES)
        for i, query in enumerate(spec.queries)
        if isinstance(query, ColumnQuerySpec)
    ]
    return needed


def _problem(place: str, column: str, allowed: Kinds, types: Mapping[str, T.DataType]) -> str | None:
    if column not in types:
        return f"{place} = {column!r}: no such column (there are: {', '.join(sorted(types))})"
    if not isinstance(types[column], allowed):
        words = ", ".join(kind.__name__.removesuffix("Type").lower() for kind in allowed)
        return f"{place} = {column!r}: is {types[column].simpleString()}, must be one of {words}"
    return None


def _condition(failure: AnalysisException) -> str | None:
    read = getattr(failure, "getCondition", None) or failure.getErrorClass
    return read()
