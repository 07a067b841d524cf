"""count: how many rows, of any value, each group has, or what they weigh together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

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
)


@dataclass(frozen=True, slots=True)
class Count:
    """Number of rows, or sum of their weights.

    One unit moves one group by as many rows as it may keep there, times the largest weight.
    """

    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", "number of rows" if self.weight is None else "sum of the rows' weights", 0),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The row count; of two units that both have rows in a group, each has one at least.

        Weights may be 0: of two units in a group, one may add nothing there.
        """
        if self.weight is not None:
            weights, most = Measure(MeasureKind.VALUE, self.weight), self.weight.upper_steps
            return (total_of_rows("weights", weights, self.weight.step, bounds, least=0, most=most),)
        rows = total_of_rows("rows", Measure(MeasureKind.ROWS), Fraction(1), bounds, least=1, most=1)
        return (replace(rows, overlap=rows.overlap - 1),)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy count as it is; it may be negative."""
        return (total_estimate(noisy[0]),)
