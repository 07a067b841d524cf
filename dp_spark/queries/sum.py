"""sum: the sum of a clamped column over each group's rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from dp_spark.queries.measure import (
    Bounds,
    ClampedColumn,
    LatticeEstimate,
    Measure,
    MeasureKind,
    NoisyTotal,
    Total,
    total_estimate,
)


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of clamped values; one unit moves it by max_rows_per_group * max(|lower|, |upper|)."""

    of: ClampedColumn
    on_lattice = True

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The sum, in steps of the column."""
        largest = max(abs(self.of.lower_steps), abs(self.of.upper_steps))
        measure = Measure(MeasureKind.VALUE, self.of)
        return (Total("sum", measure, bounds.max_rows_per_group * largest, self.of.step),)

    def estimate(self, noisy: Sequence[NoisyTotal]) -> LatticeEstimate:
        """The noisy sum as it is."""
        return total_estimate(noisy[0])
