"""95 % intervals of mean scores that also cover where few reports favour a category."""

import numpy as np
from scipy.special import betaincinv, ndtri

from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import INTERVAL
from dp_spark.uldp.scores import Moments

_TAIL = (1 - INTERVAL) / 2


def reaches(moments: Moments) -> tuple[Floats, Floats]:
    """How far below and above the shares, each (w,), their intervals reach.

    Normal, z std, but for rare events: a share that rests on k reports of n has a plug-in error of 0 at
    k = 0. So the part slope^2 z^2 f (1 - f) / n of (z std)^2, with f = k / n, is replaced by the squared
    distance from slope f to slope times the end of the exact binomial interval of f. With many reports the
    two are equal.

    Source: Zou and Donner 2008 (recovery of variances); Clopper and Pearson 1934.
    """
    z = float(ndtri(1 - _TAIL))
    frequency = moments.favours / moments.n
    normal = z**2 * frequency * (1 - frequency) / moments.n
    lower, upper = binomial_interval(moments.favours, moments.n)
    below = _squared(moments.slopes, (frequency - lower) ** 2 - normal)
    above = _squared(moments.slopes, (upper - frequency) ** 2 - normal)
    square = z**2 * moments.variances
    return np.sqrt(np.maximum(square + below, 0.0)), np.sqrt(np.maximum(square + above, 0.0))


def _squared(slopes: Floats, excess: Floats) -> Floats:
    total: Floats = (slopes**2 * excess).sum(axis=0)
    return total


def binomial_interval(successes: Floats, trials: int) -> tuple[Floats, Floats]:
    """Exact 95 % intervals of probabilities of which `successes` of `trials` were seen; any one shape."""
    failures = trials - successes
    # A beta distribution with a parameter 0 has no quantiles: the ends there are 0 and 1.
    lower = np.where(successes > 0, betaincinv(np.maximum(successes, 1), failures + 1, _TAIL), 0.0)
    upper = np.where(failures > 0, betaincinv(successes + 1, np.maximum(failures, 1), 1 - _TAIL), 1.0)
    return lower, upper
