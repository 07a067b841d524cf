"""ids: how many distinct units each group has."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_spark.queries.measure import (
    Bounds,
    LatticeEstimate,
    Measure,
    MeasureKind,
    NoisyTotal,
    Total,
    total_estimate,
)


@dataclass(frozen=True, slots=True)
class Ids:
    """Number of units that keep a row in the group; one unit moves it by 1."""

    on_lattice = True

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The unit count, whatever the bounds."""
        return (Total("units", Measure(MeasureKind.UNITS), 1, Fraction(1)),)

    def estimate(self, noisy: Sequence[NoisyTotal]) -> LatticeEstimate:
        """The noisy count as it is; it may be negative."""
        return total_estimate(noisy[0])
