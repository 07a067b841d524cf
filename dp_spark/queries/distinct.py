"""distinct: how many values of a public list at least one row of each group has."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_spark.queries.measure import (
    Answer,
    Bounds,
    Estimate,
    Listed,
    Measure,
    MeasureKind,
    Noisy,
    Total,
    total_estimate,
)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Number of listed values that occur in the group; a unit's rows bring as many new ones at most."""

    of: Listed

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", f"number of the {self.of.bins} listed values of {self.of.column} that occur", 0),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The number of values; what a unit brings depends on what others have, and is never negative.

        Of two units that take each other's place in a group, each brings from 0 to that many.
        """
        most, groups = min(bounds.most_rows_in_group, self.of.bins), bounds.most_groups
        measure, in_all = Measure(MeasureKind.DISTINCT, binning=self.of), min(bounds.most_rows, groups * most)
        return (
            Total(
                "distinct",
                measure,
                Fraction(1),
                sensitivity=most,
                cells=groups,
                in_all=in_all,
                overlap=most,
            ),
        )

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy number as it is; it may be negative, or above the length of the list."""
        return (total_estimate(noisy[0]),)
