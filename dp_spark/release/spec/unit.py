"""Whom a release protects, and how much of one unit it uses."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from dp_spark.guarantee import Every, PrivacyUnit
from dp_spark.queries import ONE_ROW, Bounds
from dp_spark.release.problems import Problem, Wrong, shown
from dp_spark.release.reading import read_each, read_list, read_text, word_of
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import Bound, Missing, OnMissing

_FORMS = "{column: COLUMN, on_null: drop} | {columns: [A, B], on_null: drop} | {row: true}"
# Periods inside which others lie whole: a week does not lie inside a month.
_WITHIN = {
    Every.DAY: (Every.DAY,),
    Every.WEEK: (Every.DAY, Every.WEEK),
    Every.MONTH: (Every.DAY, Every.MONTH),
}


class UnitSpec(Part, frozen=True):
    """Whom the guarantee protects: all rows that share the values of `columns`, or, without, each row.

    Written as `column: x`, `columns: [x, y]` or `row: true`; columns are kept in code point order.
    """

    also: ClassVar[tuple[str, ...]] = ("column", "row")

    columns: tuple[str, ...] = ()
    on_null: OnMissing = Missing.DROP
    per: Annotated[Every, BeforeValidator(word_of(Every))] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_forms(cls, written: Any) -> Any:
        return _one_form(written) if isinstance(written, Mapping) else written

    @property
    def is_row(self) -> bool:
        """Whether each row is a unit by itself."""
        return not self.columns

    @property
    def protected(self) -> PrivacyUnit:
        """The unit as the ledger and the reports know it."""
        return PrivacyUnit(self.columns, self.per)


def _one_form(written: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with `columns` alone, in code point order, whichever of the forms was written."""
    forms = [key for key in ("column", "columns", "row") if key in written]
    if len(forms) != 1:
        if not forms:
            raise Wrong(Problem("missing key 'column'", "add `column: COLUMN`, or `row: true`", _FORMS))
        why = f"stands beside {forms[0]}: one form of unit is possible"
        raise Wrong(Problem(why, "keep one of the two", _FORMS, shown(written[forms[1]]), (forms[1],)))
    rest = {key: each for key, each in written.items() if key not in forms}
    match forms[0]:
        case "row":
            return rest | _row(written)
        case "column":
            columns = read_each([("column", written["column"])], read_text)
        case _:
            (columns,) = read_each([("columns", written["columns"])], _read_columns)
    if "on_null" not in written:
        raise Wrong(Problem("missing key 'on_null'", "add `on_null: drop`", at=("on_null",)))
    return rest | {"columns": tuple(sorted(columns))}


def _row(written: Mapping[str, Any]) -> dict[str, Any]:
    if written["row"] not in ("true", True):
        why = "says nothing: a unit is a row or has columns"
        raise Wrong(
            Problem(why, "write `row: true`, or `column: COLUMN`", "true", shown(written["row"]), ("row",))
        )
    reasons = {"on_null": "a row is there or not", "per": "a row is a unit by itself, whatever its period"}
    problems = [
        Problem(f"does not go with row: true: {why}", f"remove {key}", _FORMS, shown(written[key]), (key,))
        for key, why in reasons.items()
        if key in written
    ]
    if problems:
        raise Wrong(*problems)
    return {"columns": ()}


def _read_columns(value: object) -> list[str]:
    columns = read_each(enumerate(read_list(value)), read_text)
    twice = [
        Problem("is listed twice", "list it once", "distinct columns", shown(column), (i,))
        for i, column in enumerate(columns)
        if column in columns[:i]
    ]
    if twice:
        raise Wrong(*twice)
    return columns


class BoundsSpec(Part, frozen=True):
    """How much of one unit is used at most: `max_rows`, or both of the others, or any of them with it."""

    max_groups: Bound | None = Field(None, examples=["3"])
    max_rows_per_group: Bound | None = Field(None, examples=["10"])
    max_rows: Bound | None = Field(None, examples=["20"])

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        missing = [key for key in ("max_groups", "max_rows_per_group") if getattr(self, key) is None]
        if self.max_rows is None and missing:
            left = {"max_groups": "the number of its groups", "max_rows_per_group": "its rows in a group"}
            unbounded = " and ".join(left[key] for key in missing)
            add = " and ".join(f"`{key}: {type(self).model_fields[key].examples[0]}`" for key in missing)  # type: ignore[index]
            keys = " and ".join(map(repr, missing))
            why = f"missing key {keys}: of one unit, {unbounded} would have no bound"
            allowed = "max_groups with max_rows_per_group | max_rows, alone or with one or both of them"
            raise Wrong(Problem(why, f"add {add}, or `max_rows: 20`", allowed))
        return self

    @property
    def bounds(self) -> Bounds:
        """The same for the queries."""
        return Bounds(self.max_groups, self.max_rows_per_group, self.max_rows)


def contribution_bounds(unit: UnitSpec, bounds: BoundsSpec | None) -> Bounds:
    """What one unit may contribute; a row is its own bound.

    Precondition: `unit_problems` found none.
    """
    return ONE_ROW if bounds is None else bounds.bounds


def unit_problems(unit: UnitSpec, bounds: BoundsSpec | None, every: Every | None) -> Iterator[Problem]:
    """A unit without bounds, bounds without use, or a unit of a period that a release does not hold whole."""
    if unit.is_row and bounds is not None:
        why = "does not go with unit.row = true: a row is its own bound, 1 row in 1 group"
        yield Problem(why, "remove bounds, or name the unit's columns", "no bounds", at=("bounds",))
    if not unit.is_row and bounds is None:
        add = "add `bounds: {max_groups: 3, max_rows_per_group: 10}`"
        yield Problem("missing key 'bounds'", add, at=("bounds",))
    if unit.per is None:
        return
    if every is None:
        why = "needs a period: its column and time zone say to which one a row belongs"
        way_out = f"add `period: {{column: date, every: {unit.per}}}`, or remove per"
        yield Problem(why, way_out, "with period only", shown(str(unit.per)), ("unit", "per"))
    elif unit.per not in _WITHIN[every]:
        part = f"a {unit.per} does not lie within one {every}"
        why = f"does not go with period.every = {str(every)!r}: {part}, so a release would see parts of units"
        allowed = " | ".join(_WITHIN[every])
        way_out = f"write one of {allowed}, or a period of a {unit.per}"
        yield Problem(why, way_out, allowed, shown(str(unit.per)), ("unit", "per"))
