"""variance and std of a clamped column, from the totals of its mean and one of squares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_spark.queries.fieller import Term, ratio_estimate
from dp_spark.queries.measure import Answer, Bounds, ClampedColumn, DerivedEstimate, Noisy, Total
from dp_spark.queries.mixing import mixed_factor
from dp_spark.queries.moments import centred_squares, centred_sum, value_count
from dp_spark.queries.weighting import weight_step


@dataclass(frozen=True, slots=True)
class Variance:
    """The mean square of distances from the midpoint less the square of their mean.

    It is the variance of the group's values themselves (their mean squared distance from their mean), or
    with weights the weighted one. It lies within [0, r^2], r half the width of the bounds.
    """

    of: ClampedColumn
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", "variance" if self.weight is None else "weighted variance", None),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The two totals of the mean, then the squares; all are priced."""
        make = (centred_sum, value_count, centred_squares)
        return tuple(each(self.of, self.weight, bounds) for each in make)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate]:
        """Variance, std by the delta method, and Fieller's interval, all within [0, r^2].

        With N values, noisy centred sum C, noisy squares S and m = C / N the variance is
        r^2 / 2 + S / N - m^2 = k + (S - C^2 / N - m^2 N) / N for k = r^2 / 2 + m^2. To first order the noise
        of that numerator is S's less 2 m times C's, independent of N's: what is left is a ratio like a mean.
        """
        centred, count, squares = noisy
        most = float(((self.of.upper - self.of.lower) / 2) ** 2)
        least_count = float(weight_step(self.weight))
        number = np.maximum(count.values, least_count)
        mean = np.clip(centred.values / number, -(most**0.5), most**0.5)
        factor = mixed_factor(noisy)
        top = squares.values - mean * centred.values - mean**2 * number
        answer = ratio_estimate(
            Term(top, np.hypot(squares.std, 2 * mean * centred.std), factor),
            Term(count.values, count.std, factor),
            least_bottom=least_count,
            offset=most / 2 + mean**2,
            low=0.0,
            high=most,
        )
        return (answer,)


@dataclass(frozen=True, slots=True)
class Std:
    """The square root of the variance, of the same totals."""

    of: ClampedColumn
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        says = "standard deviation" if self.weight is None else "weighted standard deviation"
        return (Answer("", f"{says} of the values", None),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """Those of the variance."""
        return Variance(self.of, self.weight).totals(bounds)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate]:
        """Roots of the variance and its interval.

        The std is the root's rise if the variance rises by its std: where that is small beside the variance
        it is what the delta method gives, and it stays finite where the variance is 0.
        """
        (variance,) = Variance(self.of, self.weight).estimate(noisy)
        value = np.sqrt(variance.value)
        std = variance.std / (value + np.sqrt(variance.value + variance.std))
        return (DerivedEstimate(value, std, np.sqrt(variance.low), np.sqrt(variance.high)),)
