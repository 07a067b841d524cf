"""count of a column: how many rows of each group have a value there."""

from collections.abc import Sequence
from dataclasses import dataclass
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
class Values:
    """Number of rows whose value, of whatever type, is neither NULL nor NaN."""

    column: str

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", f"number of rows with a {self.column}", 0),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The count of values; a unit's rows in a group may have none."""
        presence = ClampedColumn(self.column, Fraction(0), Fraction(1), Fraction(1), presence=True)
        measure = Measure(MeasureKind.NON_NULL, presence)
        return (total_of_rows("values", measure, Fraction(1), bounds, least=0, most=1),)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy count as it is; it may be negative."""
        return (total_estimate(noisy[0]),)
