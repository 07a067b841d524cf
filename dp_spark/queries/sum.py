"""sum: the sum of a clamped column over each group's rows, or of each unit's clamped total there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dp_spark.queries.measure import (
    Answer,
    Bounds,
    ClampedColumn,
    Estimate,
    Measure,
    MeasureKind,
    Noisy,
    Total,
    total_estimate,
    total_of_rows,
    total_of_units,
)
from dp_spark.queries.weighting import most_weight, weight_step


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of clamped values, or of weight times value.

    One unit moves a group by max(|lower|, |upper|), for each row, times the largest weight, or in all.
    Totals of units have no weights.
    """

    of: ClampedColumn
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", "sum" if self.weight is None else "weighted sum", 0),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The sum, in steps of the column, times those of the weight."""
        of, least, most = self.of, self.of.lower_steps, self.of.upper_steps
        if not of.per_unit:
            value, step = Measure(MeasureKind.VALUE, of, self.weight), of.step * weight_step(self.weight)
            weight = most_weight(self.weight)
            return (total_of_rows("sum", value, step, bounds, least=weight * least, most=weight * most),)
        measure, largest = Measure(MeasureKind.UNIT_VALUE, of), max(abs(least), abs(most))
        total = total_of_units("sum", measure, of.step, bounds, largest=largest)
        return (replace(total, overlap=max(most, 0) - min(least, 0)),)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy sum as it is."""
        return (total_estimate(noisy[0]),)
