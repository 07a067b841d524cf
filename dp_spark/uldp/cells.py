"""The likelihood of each sensitive category's share alone, the others giving way alike.

Near given shares the likelihood of a cell's share theta is replaced by that of a count over a background,

    A log(theta + b) - mu theta,

with the true first and second derivative; mu, one for all cells, keeps the sum. Where every block is one
category the replacement is exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dp_spark.uldp.designs import Floats
from dp_spark.uldp.evidence import Evidence

_WIDER = 1.5


@dataclass(frozen=True, slots=True)
class Cells:
    """Replaced likelihoods, one for each sensitive category.

    Attributes:
        shares: (v,) where they are exact to the second order.
        slopes: (v,) first derivatives there, without mu.
        curvature: (v,) minus the second derivatives there.
        reach: (v,) slope over curvature, which is theta + b there.
        seen: (v,) whether a report speaks for the category at all.
        background: b of a category that no report speaks for; its A is 0.
        beside: (v,) the mean of minus the second derivatives by the cell's share and another's.
    """

    shares: Floats
    slopes: Floats
    curvature: Floats
    reach: Floats
    seen: NDArray[np.bool_]
    background: float
    beside: Floats

    @classmethod
    def near(cls, evidence: Evidence, shares: Floats) -> "Cells":
        """The cells' likelihoods as they are near (v,) shares."""
        slopes = evidence.slopes(shares)
        seen = slopes.slope > 0
        background = 1 / evidence.growth
        reach = shares + background
        reach[seen] = slopes.slope[seen] / slopes.curvature[seen]
        return cls(shares, slopes.slope, slopes.curvature, reach, seen, background, slopes.beside)

    @property
    def level(self) -> float:
        """The mu at which the cells' mean slope, weighted by their shares, is 0."""
        return float(self.slopes @ self.shares / self.shares.sum())

    def moved(self, level: float) -> Floats:
        """A / mu - b, the unbounded maximum of each cell; without the cancellation of its terms."""
        return np.where(self.seen, self.shares + self.reach * (self.slopes - level) / level, -self.background)

    def log_likelihood(self, theta: Floats, level: float) -> Floats:
        """Of (v, k) shares theta of the cells, 0 at the shares near which they are; mu is `level`."""
        change = theta - self.shares[:, None]
        counts = np.where(self.seen, self.slopes * self.reach, 0.0)[:, None]
        logs: Floats = counts * np.log1p(change / self.reach[:, None]) - level * change
        return logs

    def modes(self, level: float, pseudo: float) -> Floats:
        """The maximum over theta >= 0 with pseudo log(theta) added: the root of a quadratic equation."""
        middle = (self.moved(level) + pseudo / level) / 2
        if pseudo == 0:
            return np.maximum(2 * middle, 0.0)
        product = pseudo / level * np.maximum(self.reach - self.shares, 0.0)
        root = np.sqrt(middle**2 + product)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(middle > 0, middle + root, product / (root - middle))

    def modes_of_sum(self, total: float, pseudo: float) -> Floats:
        """The modes at the mu at which they sum to a total above 0; some cell is seen or pseudo above 0."""

        def excess(level: float) -> float:
            return float(self.modes(level, pseudo).sum()) - total

        low = high = max(self.level, pseudo * len(self.shares) / total)
        while excess(low) < 0:
            low /= _WIDER
        while excess(high) > 0:
            high *= _WIDER
        level = low if low == high else brentq(excess, low, high, xtol=1e-15 * low, rtol=1e-15)
        return self.modes(level, pseudo)
