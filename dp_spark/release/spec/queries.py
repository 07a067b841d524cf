"""The queries of a spec: about rows and units, or about the values of a column."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from dp_spark.release.problems import Problem, Wrong, shown, wrong
from dp_spark.release.reading import decimal_text, read_each, word_of
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import (
    COLUMN_KINDS,
    COUNTING_KINDS,
    Amount,
    Clamp,
    Column,
    Missing,
    OnMissing,
    QueryKind,
    QueryName,
    Step,
)

MAX_STEPS = 2**31


class CountingQuerySpec(Part, frozen=True):
    """A query about rows or units."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("column", "lower", "upper", "step", "clamp", "on_null", "on_nan"),
        "remove it, or ask for kind: sum or kind: mean, which take it",
    )

    name: QueryName = Field(examples=["flights"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(COUNTING_KINDS))] = Field(examples=["count"])


class ColumnQuerySpec(Part, frozen=True):
    """A query about the values of a column, rounded to `step`; they, or a unit's total, are clamped."""

    name: QueryName = Field(examples=["total_delay"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(COLUMN_KINDS))] = Field(examples=["sum"])
    column: Column = Field(examples=["COLUMN"])
    lower: Amount = Field(examples=["-30"])
    upper: Amount = Field(examples=["180"])
    step: Step | None = None
    clamp: Annotated[Clamp, BeforeValidator(word_of(Clamp))] = Clamp.ROW
    on_null: OnMissing = Missing.DROP
    on_nan: OnMissing = Missing.DROP

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        problems = [*_range_problems(self.lower, self.upper, self.step)]
        if self.kind is QueryKind.MEAN and self.clamp is Clamp.UNIT:
            why = "does not go with kind: mean: no number of values goes with a total that was clamped"
            way_out = "remove clamp, or ask for kind: sum and kind: ids and divide"
            problems.append(Problem(why, way_out, str(Clamp.ROW), shown(str(self.clamp)), ("clamp",)))
        if problems:
            raise Wrong(*problems)
        return self


QuerySpec = CountingQuerySpec | ColumnQuerySpec


def read_query(value: object) -> QuerySpec:
    """A query of either kind: a part, or a mapping whose `kind` says which."""
    if isinstance(value, QuerySpec):
        return value
    if not isinstance(value, Mapping):
        raise wrong(value, "is not a mapping", way_out="write {name: flights, kind: count}")
    if "kind" not in value:
        kinds = " | ".join(QueryKind)
        raise Wrong(Problem("missing key 'kind'", "add `kind: count`", f"kind: {kinds}", at=("kind",)))
    (kind,) = read_each([("kind", value["kind"])], word_of(QueryKind))
    part = CountingQuerySpec if kind in COUNTING_KINDS else ColumnQuerySpec
    return part.model_validate({**value, "kind": kind})


def _range_problems(lower: Fraction, upper: Fraction, step: Fraction | None) -> Iterator[Problem]:
    if lower >= upper:
        why = f"is not above lower = {decimal_text(lower)}"
        yield Problem(why, "swap or widen the bounds", "lower < upper", decimal_text(upper), ("upper",))
    if step is None:
        return
    for key, bound in (("lower", lower), ("upper", upper)):
        if bound % step:
            below = bound // step * step
            why = f"is not a multiple of step = {decimal_text(step)}"
            way_out = f"write {decimal_text(below)} or {decimal_text(below + step)}, or another step"
            yield Problem(why, way_out, "multiples of step", decimal_text(bound), (key,))
    if (upper - lower) / step > MAX_STEPS:
        why = f"cuts [lower, upper] into more than {MAX_STEPS:,} steps"
        way_out = "write a coarser step, or leave `step` out"
        yield Problem(why, way_out, "(upper - lower) / step <= 2^31", decimal_text(step), ("step",))
