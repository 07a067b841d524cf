"""ids: how many distinct units each group has."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_spark.queries.measure import (
    Answer,
    Bounds,
    Estimate,
    Measure,
    MeasureKind,
    Noisy,
    Total,
    total_estimate,
    total_of_units,
)


@dataclass(frozen=True, slots=True)
class Ids:
    """Number of units that keep a row in the group; one unit moves it by 1."""

    answers = (Answer("", "number of units", 0),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The unit count; a group that keeps a unit while another takes its place there does not move."""
        return (total_of_units("units", Measure(MeasureKind.UNITS), Fraction(1), bounds, largest=1),)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy count as it is; it may be negative."""
        return (total_estimate(noisy[0]),)
