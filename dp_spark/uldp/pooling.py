"""Estimates of several groups put together, and how much one of them says."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import INTERVAL, Estimate


def weighted(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """The mean of the groups' shares, each group counting as its public weight says, not by its reports.

    Standard errors add in squares, for groups are of different people; intervals are normal, within 0 and 1
    where all shares are, and hold the shares.
    """
    parts = np.asarray(weights, dtype=np.float64) / float(np.sum(weights))
    first = estimates[0]
    mean = _sum(parts, [each.shares for each in estimates])
    stds = np.sqrt(_sum(parts**2, [each.stds**2 for each in estimates]))
    reach = float(ndtri((1 + INTERVAL) / 2)) * stds
    inside = all((each.shares >= 0).all() and (each.shares <= 1).all() for each in estimates)
    bounds = (0.0, 1.0) if inside else (-np.inf, np.inf)
    shares = np.clip(mean, *bounds)  # of shares that are all 1 the mean may be more, by rounding
    low, high = np.clip(shares - reach, *bounds), np.clip(shares + reach, *bounds)
    return Estimate(
        shares=shares,
        stds=stds,
        low=low,
        high=high,
        n=sum(each.n for each in estimates),
        method=first.method,
        consistency=first.consistency,
        biased=np.any([each.biased for each in estimates], axis=0),
        boundary=shares - reach <= 0,
    )


def is_small(estimate: Estimate, n_sensitive: int) -> bool:
    """Whether sensitive shares are mostly smaller than their own error: too few people reported.

    The median standard error of the first `n_sensitive` shares is larger than their mean.
    """
    sensitive = slice(0, n_sensitive)
    return bool(np.median(estimate.stds[sensitive]) > estimate.shares[sensitive].mean())


def _sum(parts: Floats, values: Sequence[Floats]) -> Floats:
    total: Floats = parts @ np.stack(values)
    return total
