"""Ratios of two noisy numbers, with Fieller's interval."""

from dataclasses import dataclass

import numpy as np

from dp_spark.queries.measure import DerivedEstimate, Floats, Noisy


@dataclass(frozen=True, slots=True)
class Term:
    """The numerator or the denominator of a ratio in every group.

    Attributes:
        values: the noisy numbers, shape (groups,).
        std: standard deviation of each.
        factor: noise lies within `factor` times `std` with probability 95 % or more.
    """

    values: Floats
    std: float | Floats
    factor: float


def ratio_estimate(
    top: Noisy, bottom: Noisy, *, least_bottom: float, offset: float | Floats, low: float, high: float
) -> DerivedEstimate:
    """`offset` + top / bottom within [low, high], for a denominator that is not negative.

    The std is that of the delta method; neither std nor interval is wider than the bounds.

    Args:
        top: the numerator.
        bottom: the denominator; its noise is independent of the numerator's.
        least_bottom: the least denominator that is divided by.
        offset: added to the ratio; known, or taken for known.
        low: the least value that the answer can have.
        high: the largest.
    """
    floor, ceiling = low - offset, high - offset
    divisor = np.maximum(bottom.values, least_bottom)
    ratio = np.clip(top.values / divisor, floor, ceiling)
    std = np.hypot(top.std, ratio * bottom.std) / divisor
    least, most = _interval(top, bottom, floor, ceiling)
    # What was computed with an offset is rounded once more: bounds hold exactly only if clipped at last.
    return DerivedEstimate(
        value=np.clip(offset + ratio, low, high),
        std=np.minimum(std, (high - low) / 2),
        low=np.clip(offset + np.minimum(least, ratio), low, high),
        high=np.clip(offset + np.maximum(most, ratio), low, high),
    )


def _interval(
    top: Noisy, bottom: Noisy, floor: float | Floats, ceiling: float | Floats
) -> tuple[Floats, Floats]:
    """Ratios r within [floor, ceiling] with |top - r bottom| <= factor std(top - r bottom).

    `factor` is the larger ratio of half width to std of the two noises: a mixture of them has
    lighter tails than the heavier one. Where the denominator is not clearly positive every ratio is possible.
    """
    factor = max(top.factor, bottom.factor)
    a = bottom.values**2 - (factor * bottom.std) ** 2
    clear = (bottom.values > 0) & (a > 0)
    safe = np.where(clear, a, 1.0)
    half_b = top.values * bottom.values
    root = np.sqrt(np.maximum(half_b**2 - safe * (top.values**2 - (factor * top.std) ** 2), 0.0))
    low = np.where(clear, (half_b - root) / safe, floor)
    high = np.where(clear, (half_b + root) / safe, ceiling)
    return np.clip(low, floor, ceiling), np.clip(high, floor, ceiling)
