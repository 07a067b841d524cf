"""Whether a frame has the columns that a spec names, in types that can serve: asked before the charge."""

from collections.abc import Mapping
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from dp_spark.errors import InputRefused
from dp_spark.frames.expressions import derived_types
from dp_spark.queries import Binning, ClampedColumn, Listed
from dp_spark.release.asking import query_of
from dp_spark.release.problems import nearest
from dp_spark.release.spec import InputFormat, QuerySpec, ReleaseSpec, contribution_bounds

Kinds: TypeAlias = tuple[type[T.DataType], ...]
KEY_TYPES: Kinds = (T.StringType, T.IntegralType, T.DateType, T.BooleanType)
VALUE_TYPES: Kinds = (T.NumericType, T.StringType)
PERIOD_TYPES: Kinds = (T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType)


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
