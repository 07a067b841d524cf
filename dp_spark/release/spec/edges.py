"""Public edges of bins: as a range, or one by one."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from dp_spark.queries import decimal_text
from dp_spark.release.problems import Problem, Wrong
from dp_spark.release.reading import decimal_number, read_each, read_list
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import LARGEST_AMOUNT, Amount, Step

MAX_BINS = 1000

_read_edge = decimal_number(
    "a decimal from -1e15 to 1e15",
    lambda edge: abs(edge) <= LARGEST_AMOUNT,
    "choose edges that real values reach; the outer bins hold what lies beyond",
)


class EdgeRangeSpec(Part, frozen=True):
    """Edges from `start` to `stop`, `step` apart."""

    start: Amount = Field(examples=["-30"])
    stop: Amount = Field(examples=["180"])
    step: Step = Field(examples=["15"])

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        problems = [*self._problems_of_range()]
        if problems:
            raise Wrong(*problems)
        return self

    def _problems_of_range(self) -> Iterator[Problem]:
        width = self.stop - self.start
        if width <= 0:
            why, allowed = f"is not above start = {decimal_text(self.start)}", "start < stop"
            yield Problem(why, "swap or widen them", allowed, decimal_text(self.stop), ("stop",))
        elif width % self.step:
            below = self.start + width // self.step * self.step
            why = f"is not a whole number of steps of {decimal_text(self.step)} above start"
            way_out = f"write {decimal_text(below + self.step)}, or another step"
            yield Problem(why, way_out, "start + n step", decimal_text(self.stop), ("stop",))
        elif width / self.step > MAX_BINS:
            why, allowed = f"makes {width // self.step:,} bins", f"at most {MAX_BINS:,} bins"
            yield Problem(why, "write a larger step", allowed, decimal_text(self.step), ("step",))
        elif any(float(low) >= float(high) for low, high in pairwise(self.edges)):
            why, allowed = "leaves edges that are one number in 64 bits", "edges apart in 64 bits"
            yield Problem(why, "write a larger step", allowed, decimal_text(self.step), ("step",))

    @property
    def edges(self) -> tuple[Fraction, ...]:
        """All of them."""
        return tuple(
            self.start + place * self.step for place in range(int((self.stop - self.start) / self.step) + 1)
        )


def read_edges(value: object) -> tuple[Fraction, ...]:
    """The edges, in order, of a list or a range; values are told apart from them in 64 bits."""
    if isinstance(value, Mapping | EdgeRangeSpec):
        return EdgeRangeSpec.model_validate(value).edges
    written = read_list(value)
    if not 2 <= len(written) <= MAX_BINS + 1:
        why, allowed = f"has {len(written):,} edges", f"2 to {MAX_BINS + 1:,} edges"
        way_out = "write {start: -30, stop: 180, step: 15}, or at least [e0, e1]"
        raise Wrong(Problem(why, way_out, allowed))
    edges = read_each(enumerate(written), _read_edge)
    unsorted = [
        Problem(
            f"is not above the edge before it, {decimal_text(before)}, in 64 bits",
            "write every edge once, in ascending order",
            "ascending edges",
            decimal_text(edge),
            (place + 1,),
        )
        for place, (before, edge) in enumerate(pairwise(edges))
        if float(edge) <= float(before)
    ]
    if unsorted:
        raise Wrong(*unsorted)
    return tuple(edges)
