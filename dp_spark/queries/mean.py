"""mean: the mean of a clamped column, a ratio of two noisy totals, with Fieller's interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_spark.queries.measure import (
    Answer,
    Bounds,
    ClampedColumn,
    DerivedEstimate,
    Floats,
    Measure,
    MeasureKind,
    Noisy,
    Total,
    total_of_rows,
)


@dataclass(frozen=True, slots=True)
class Mean:
    """Midpoint of the bounds plus (noisy sum of distances from it) / (noisy count of values).

    Centring halves what a row can move at worst: (upper - lower) / 2.
    """

    of: ClampedColumn
    answers = (Answer("", "mean", None),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The centred sum in half steps, and the count of values; both are priced."""
        span, half = self.of.upper_steps - self.of.lower_steps, self.of.step / 2
        centred, values = (Measure(kind, self.of) for kind in (MeasureKind.CENTRED, MeasureKind.NON_NULL))
        return (
            total_of_rows("centred_sum", centred, half, bounds, least=-span, most=span),
            total_of_rows("values", values, Fraction(1), bounds, least=1, most=1),
        )

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate]:
        """Mean, std by the delta method, and Fieller's interval, all within the public bounds."""
        centred, count = noisy
        middle, radius = self._middle_and_radius()
        offset = np.clip(centred.values / np.maximum(count.values, 1.0), -radius, radius)
        std = np.hypot(centred.std, offset * count.std) / np.maximum(count.values, 1.0)
        low, high = _fieller(centred, count, radius)
        answer = DerivedEstimate(
            value=middle + offset,
            std=np.minimum(std, radius),
            low=middle + np.minimum(low, offset),
            high=middle + np.maximum(high, offset),
        )
        return (answer,)

    def _middle_and_radius(self) -> tuple[float, float]:
        return float((self.of.lower + self.of.upper) / 2), float((self.of.upper - self.of.lower) / 2)


def _fieller(centred: Noisy, count: Noisy, radius: float) -> tuple[Floats, Floats]:
    """Ratios r within [-radius, radius] with |centred - r count| <= factor std(centred - r count).

    `factor` is the larger ratio of half width to std of the two noises: a mixture of them has
    lighter tails than the heavier one. Where the count is not clearly positive every ratio is possible.
    """
    factor = max(centred.factor, count.factor)
    top, bottom = centred.values, count.values
    a = bottom**2 - (factor * count.std) ** 2
    clear = (bottom > 0) & (a > 0)
    safe = np.where(clear, a, 1.0)
    half_b = top * bottom
    root = np.sqrt(np.maximum(half_b**2 - safe * (top**2 - (factor * centred.std) ** 2), 0.0))
    low = np.where(clear, (half_b - root) / safe, -radius)
    high = np.where(clear, (half_b + root) / safe, radius)
    return np.clip(low, -radius, radius), np.clip(high, -radius, radius)
