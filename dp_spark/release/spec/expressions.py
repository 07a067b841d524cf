"""The row filter and the derived columns of a spec: what may be written, and in which order."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from dp_spark.release.expressions import NOTHING, columns_of, condition_sql, parse_expression
from dp_spark.release.problems import Problem, Wrong, shown, wrong
from dp_spark.release.reading import name_like, read_each, read_normal_text
from dp_spark.release.spec.part import Part

MAX_DERIVED = 100
NAME = "[A-Za-z_][A-Za-z0-9_]{0,63}"


def _read_sql(value: object) -> str:
    """An expression as it is written, that parses and stays on the list."""
    if not isinstance(value, str) or not value.strip():
        raise wrong(value, "is no expression", way_out="write Spark SQL as one text")
    text = value.strip()
    parse_expression(text)
    return text


def _read_condition(value: object) -> str:
    text = _read_sql(value)
    condition_sql(parse_expression(text), lambda path: NOTHING)
    return text


def _read_default(value: object) -> str:
    """A default as text; its kind is that of the expression, known with the columns of the input."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    return read_normal_text(value)


Condition = Annotated[str, BeforeValidator(_read_condition)]


class DerivedColumn(Part, frozen=True):
    """A column that is computed from the others of its row, before anything is clamped or counted."""

    name: Annotated[
        str,
        BeforeValidator(name_like(NAME, "start with a letter; use letters, digits, _")),
    ] = Field(examples=["speed"])
    sql: Annotated[str, BeforeValidator(_read_sql)] = Field(examples=['"distance / air_time"'])
    default: Annotated[str, BeforeValidator(_read_default)] = Field(examples=["0"])

    def reads(self) -> frozenset[str]:
        """The columns that its expression names."""
        return frozenset(columns_of(parse_expression(self.sql)))


def read_derive(value: object) -> tuple[DerivedColumn, ...]:
    """Derived columns in the order of computation: `{name: {sql, default}}`, or a list of parts."""
    allowed = f"a mapping of 1 to {MAX_DERIVED} columns"
    if not isinstance(value, Mapping | list | tuple) or not 1 <= len(value) <= MAX_DERIVED:
        way_out = 'write {speed: {sql: "distance / air_time", default: 0}}'
        raise wrong(value, "is no list of derived columns", allowed=allowed, way_out=way_out)
    if isinstance(value, Mapping):
        named = [(str(name), _named(str(name), each)) for name, each in value.items()]
        return tuple(read_each(named, _read_column))
    return tuple(read_each(enumerate(value), _read_column))


def _read_column(written: object) -> DerivedColumn:
    try:
        return DerivedColumn.model_validate(written)
    except ValidationError as failure:
        raise Wrong(*DerivedColumn._problems(failure)) from None


def _named(name: str, written: object) -> object:
    return {**written, "name": name} if isinstance(written, Mapping) and "name" not in written else written


def derive_problems(derive: Sequence[DerivedColumn], taken: Mapping[str, str]) -> Iterator[Problem]:
    """Names that are derived twice or serve elsewhere, and columns that are read before they are derived.

    Args:
        derive: the columns, in their order.
        taken: for what the spec uses columns that cannot be derived, by name.
    """
    later = {each.name.casefold() for each in derive}
    for each in derive:
        place = ("derive", each.name)
        name = each.name.casefold()
        if name not in later:
            yield Problem("is derived twice", "rename one", "distinct names, whatever their case", at=place)
        if use := {column.casefold(): use for column, use in taken.items()}.get(name):
            way_out = f"compute the {use} in the view that is released from"
            yield Problem(f"is also the {use}, which must be a column of the input", way_out, at=place)
        if early := sorted(column for column in each.reads() if column.casefold() in later):
            why = f"reads {shown(early[0])}, which is derived later, or here"
            yield Problem(why, "derive that one first", at=(*place, "sql"))
        later.discard(name)
