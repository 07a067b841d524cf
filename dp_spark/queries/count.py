"""count: how many rows, of any value, each group has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    total_of_rows,
)


@dataclass(frozen=True, slots=True)
class Count:
    """Number of rows; one unit moves one group by as many rows as it may keep there."""

    answers = (Answer("", "number of rows", 0),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The row count; of two units that both have rows in a group, each has one at least."""
        rows = total_of_rows("rows", Measure(MeasureKind.ROWS), Fraction(1), bounds, least=1, most=1)
        return (replace(rows, overlap=rows.overlap - 1),)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy count as it is; it may be negative."""
        return (total_estimate(noisy[0]),)
