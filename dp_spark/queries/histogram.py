"""histogram: how many rows of each group lie in each bin of a column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_spark.queries.binned import binned_total
from dp_spark.queries.decimals import decimal_text
from dp_spark.queries.measure import (
    Answer,
    Bounds,
    ClampedColumn,
    Edges,
    Estimate,
    Noisy,
    NoisyTotal,
    SmoothedTotal,
    Total,
    total_estimate,
)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Number of rows, or their weight, in each bin; a row is in one bin at most."""

    of: Edges
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """A number for each bin, _1 to _n."""
        counted = "rows" if self.weight is None else "sum of the weights of rows"
        return tuple(
            Answer(f"_{place + 1}", f"{counted} with {self.of.column} {self._within(place)}", 0)
            for place in range(self.of.bins)
        )

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """One total with a cell for each bin."""
        return (binned_total(self.of, self.weight, bounds),)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The noisy counts as they are; they may be negative."""
        (total,) = noisy
        return tuple(total_estimate(_cell(total, place, self.of.bins)) for place in range(self.of.bins))

    def _within(self, place: int) -> str:
        last = place == self.of.bins - 1
        low, high = (decimal_text(edge) for edge in self.of.edges[place : place + 2])
        beyond = [" or below"] * (place == 0) + [" or above"] * last
        return f"in [{low}, {high}{']' if last else ')'}{''.join(beyond)}"


def _cell(total: Noisy, place: int, bins: int) -> Noisy:
    """One cell of every group; a total of one cell has no second axis."""
    if bins == 1:
        return total
    if isinstance(total, NoisyTotal):
        return replace(total, steps=total.steps[:, place])
    std = np.broadcast_to(total.std, total.values.shape)
    return SmoothedTotal(total.values[:, place], std[:, place], total.factor)
