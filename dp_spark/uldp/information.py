"""Standard errors and intervals of shares by the likelihood.

The information of the reports about the non-sensitive shares is diag(n tau / share). About the sensitive ones
it is close to a diagonal matrix and one of rank one, which is fitted to the means of its rows: pairs that are
balanced make it so. Its inverse, with the shares' sum held at 1, is the covariance. The prior adds nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import INTERVAL
from dp_spark.uldp.evidence import Evidence

_STANDARD = float(ndtri((1 + INTERVAL) / 2))


@dataclass(frozen=True, slots=True)
class Spread:
    """How far estimated shares may be from the truth.

    Attributes:
        centres: (w,) one step of Newton from the estimate without prior or bound: centred on the truth.
        stds: (w,) standard errors of the centres.
        low: (w,) lower ends of intervals about the centres, widened to hold the estimate, cut to [0, 1].
        high: (w,) upper ends.
    """

    centres: Floats
    stds: Floats
    low: Floats
    high: Floats


def spread(evidence: Evidence, cells: Cells, answers: Floats) -> Spread:
    """Errors of the shares near which the cells are; `answers` (w - v,) are counts."""
    rest = max(1 - float(cells.shares.sum()), 0.0)
    others = rest * answers / max(evidence.answered, 1.0)
    shares = np.concatenate([cells.shares, others])
    level = float(cells.reach @ cells.slopes / cells.reach.sum())
    sensitive = cells.moved(level) if level > 0 else cells.shares
    centres = np.concatenate([sensitive, others])
    stds = np.sqrt(_variances(evidence, cells, others))
    low, high = _ends(np.maximum(centres, 0.0), shares, stds, evidence.expected)
    return Spread(
        centres,
        stds,
        np.clip(np.minimum(low, shares), 0.0, 1.0),
        np.clip(np.maximum(high, shares), 0.0, 1.0),
    )


def _variances(evidence: Evidence, cells: Cells, others: Floats) -> Floats:
    """The diagonal of the inverse information, the sum held at 1.

    An answer that nobody gave has the variance of one that one person gave.
    """
    shared = cells.beside / np.sqrt(max(float(cells.beside.mean()), 1e-300))
    own = evidence.expected / cells.reach
    own = np.maximum(own + np.where(cells.seen, cells.beside - shared**2, 0.0), own / 2)
    damping = 1 + float((shared**2 / own).sum())
    alone = np.maximum(others, 1 / evidence.expected) / evidence.expected
    inverse = np.concatenate([1 / own - (shared / own) ** 2 / damping, alone])
    of_sum = np.concatenate([1 / own - shared / own * float((shared / own).sum()) / damping, alone])
    variances: Floats = np.maximum(inverse - of_sum**2 / of_sum.sum(), 0.0)
    return variances


def _ends(centres: Floats, shares: Floats, stds: Floats, expected: float) -> tuple[Floats, Floats]:
    """Where the centre would be two standard errors off; variances rise by 1 / (n tau) with the share.

    Those of a count over a background do, and where few people answer this is Wilson's interval.
    """
    rise = _STANDARD**2 / (2 * expected)
    at_centres = np.maximum(stds**2 + (centres - shares) / expected, 0.0)
    half = np.sqrt(_STANDARD**2 * at_centres + rise**2)
    return centres + rise - half, centres + rise + half
