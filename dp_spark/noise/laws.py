"""What follows from a family's density and cdf: tails, masses, quantiles, all in log space."""

import math
from fractions import Fraction

import numpy as np
from flint import arb
from scipy.optimize import brentq

from dp_spark.noise.families import Family, HasTailBall
from dp_spark.noise.tails import Floats


def log_cdf(family: Family, x: float) -> float:
    """The log of P(X <= x) of the standard member, one number."""
    return float(family.log_cdf(np.array([x]))[0])


def log_sf(family: Family, x: Floats) -> Floats:
    """The log of P(X > x), by symmetry."""
    return family.log_cdf(-x)


def log_difference(larger: float, smaller: float) -> float:
    """log(e^larger - e^smaller); -inf where the difference is not positive."""
    if smaller >= larger:
        return -math.inf
    gap = smaller - larger
    return larger + (math.log(-math.expm1(gap)) if gap > -1 else math.log1p(-math.exp(gap)))


def log_mass(family: Family, low: float, high: float) -> float:
    """The log of P(low < X <= high).

    An interval on one side of 0 is taken in the lower tail, where no two numbers near 1 are subtracted. A
    narrow one loses about as many digits as low and high share: such masses are taken in balls.
    """
    if low >= 0:
        low, high = -high, -low
    if high <= 0:
        return log_difference(log_cdf(family, high), log_cdf(family, low))
    outside = math.exp(log_cdf(family, low)) + math.exp(log_cdf(family, -high))
    return math.log1p(-outside) if outside < 1 else -math.inf


def quantile(family: Family, q: Fraction | float) -> float:
    """The x with P(X <= x) = q, q in (0, 1); a fraction near 1 keeps all its digits.

    Raises:
        ValueError: q is not inside (0, 1).
    """
    if not 0 < q < 1:
        raise ValueError(f"q = {q} must lie inside (0, 1)")
    if q >= 1 / 2:
        return -quantile(family, 1 - Fraction(q)) if q > 1 / 2 else 0.0
    target = math.log(q)
    low = -1.0
    while low > -family.end and log_cdf(family, low) > target:
        low *= 2
    return float(brentq(lambda x: _at_least_underflow(log_cdf(family, x) - target), low, 0.0, xtol=1e-300))


def cdf_ball(family: HasTailBall, x: arb) -> arb:
    """A ball that contains P(X <= x); tight, in relative terms, for x <= 0."""
    if x <= 0:
        return family.tail_ball(-x)
    if x >= 0:
        return 1 - family.tail_ball(x)
    return family.tail_ball(-x.lower()).union(1 - family.tail_ball(x.upper()))


def _at_least_underflow(log: float) -> float:
    return max(log, -1e6)
