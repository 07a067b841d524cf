"""count: how many rows, of any value, each group has."""

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
class Count:
    """Number of rows; one unit moves one group by at most `max_rows_per_group`."""

    on_lattice = True

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The row count."""
        return (Total("rows", Measure(MeasureKind.ROWS), bounds.max_rows_per_group, Fraction(1)),)

    def estimate(self, noisy: Sequence[NoisyTotal]) -> LatticeEstimate:
        """The noisy count as it is; it may be negative."""
        return total_estimate(noisy[0])
