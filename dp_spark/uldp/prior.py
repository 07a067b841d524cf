"""What is supposed of the shape inside the sensitive part before any report is seen.

Of the mass of the sensitive part and of the other categories nothing is supposed. Both priors were chosen on
synthetic truths alone (`benchmarks/uldp_prior.py`). There the learned one has the least error of all at each
epsilon up to 3, on average over the truths, and up to 2 about half that of the linear decoder, clipped. At 5
and 8 it errs less than the most likely shares do.
"""

import math
from dataclasses import dataclass

import numpy as np

_PSEUDO_REPORTS = 0.3  # of each category, where the noise is as large as an even share


@dataclass(frozen=True, slots=True)
class LearnedPrior:
    """Log-normal shares, some empty, whose spread the reports themselves show; the posterior mean is taken.

    It has no setting: see `posterior.py`.
    """


@dataclass(frozen=True, slots=True)
class FixedPrior:
    """A symmetric Dirichlet prior; the estimate is the posterior mode.

    Attributes:
        strength: pseudo-reports, the same number for each category, in all; 0 for the most likely shares.
    """

    strength: float


Prior = LearnedPrior | FixedPrior


def fixed_prior(n: int, growth: float, n_sensitive: int) -> FixedPrior:
    """The prior whose strength is a function of the number of reports, g = e^epsilon - 1 and v alone.

    0.3 pseudo-reports for each category where the standard error of an even share is as large as the share or
    larger, fewer by its square where it is smaller. Of the synthetic truths' mean error at an epsilon of 5
    and more that costs nothing.
    """
    noise = min(1.0, relative_noise(n, growth, n_sensitive))
    return FixedPrior(_PSEUDO_REPORTS * n_sensitive * noise**2)


def relative_noise(n: int, growth: float, n_sensitive: int) -> float:
    """The standard error of an even share, all people sensitive, in units of that share; best block size."""
    v = n_sensitive
    if v == 1:
        return 0.0
    sizes = np.arange(1, v, dtype=float)
    least = float(((v + sizes * growth) ** 2 / (sizes * (v - sizes))).min())
    return (v - 1) / growth * math.sqrt(least / n)
