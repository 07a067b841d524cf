"""mean: the mean of a clamped column, a ratio of two noisy totals, with Fieller's interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from dp_spark.queries.fieller import ratio_estimate
from dp_spark.queries.measure import Answer, Bounds, ClampedColumn, DerivedEstimate, Noisy, Total
from dp_spark.queries.moments import centred_sum, value_count
from dp_spark.queries.weighting import weight_step


@dataclass(frozen=True, slots=True)
class Mean:
    """Midpoint of the bounds plus (noisy sum of distances from it) / (noisy count of values).

    With weights, sum and count are weighted.
    """

    of: ClampedColumn
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", "mean" if self.weight is None else "weighted mean", None),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The centred sum, and the count of values; both are priced."""
        return centred_sum(self.of, self.weight, bounds), value_count(self.of, self.weight, bounds)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate]:
        """Mean, std by the delta method, and Fieller's interval, all within the public bounds."""
        centred, count = noisy
        answer = ratio_estimate(
            centred,
            count,
            least_bottom=float(weight_step(self.weight)),
            offset=float((self.of.lower + self.of.upper) / 2),
            low=float(self.of.lower),
            high=float(self.of.upper),
        )
        return (answer,)
