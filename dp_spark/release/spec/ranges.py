"""Public bounds of numbers, the steps between them, and survey weights."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Self

from pydantic import Field, model_validator

from dp_spark.queries import decimal_text
from dp_spark.release.problems import Problem, Wrong
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import Amount, Column, Step

MAX_STEPS = 2**31


class WeightSpec(Part, frozen=True):
    """How often each row counts: a column from 0 up to `upper`, rounded to `step`."""

    column: Column = Field(examples=["COLUMN"])
    upper: Amount = Field(examples=["10"])
    step: Step | None = None

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        problems = [
            *bound_problems(Fraction(0), self.upper, "0"),
            *step_problems(None, self.upper, self.step),
        ]
        if problems:
            raise Wrong(*problems)
        return self


def bound_problems(lower: Fraction, upper: Fraction, named: str | None = None) -> Iterator[Problem]:
    """An upper bound that is not above the lower one; `named` is how that is written, where it is fixed."""
    if lower >= upper:
        why = f"is not above {named or f'lower = {decimal_text(lower)}'}"
        allowed = "lower < upper" if named is None else f"{named} < upper"
        yield Problem(why, "swap or widen the bounds", allowed, decimal_text(upper), ("upper",))


def step_problems(lower: Fraction | None, upper: Fraction, step: Fraction | None) -> Iterator[Problem]:
    """Bounds that are no multiples of the step, or too many steps between them; no lower bound is 0."""
    if step is None:
        return
    for key, bound in (("lower", lower), ("upper", upper)):
        if bound is not None and bound % step:
            below = bound // step * step
            why = f"is not a multiple of step = {decimal_text(step)}"
            way_out = f"write {decimal_text(below)} or {decimal_text(below + step)}, or another step"
            yield Problem(why, way_out, "multiples of step", decimal_text(bound), (key,))
    if (upper - (lower or 0)) / step > MAX_STEPS:
        why = f"cuts [{'lower' if lower is not None else '0'}, upper] into more than {MAX_STEPS:,} steps"
        way_out = "write a coarser step, or leave `step` out"
        allowed = f"(upper{' - lower' if lower is not None else ''}) / step <= 2^31"
        yield Problem(why, way_out, allowed, decimal_text(step), ("step",))
