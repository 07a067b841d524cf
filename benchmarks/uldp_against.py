"""Ratios of mean squared errors with standard errors, from the replicates of both sides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from acs import AUTHORS_REPLICATES, Curve
from uldp_errors import Errors


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two means.

    Attributes:
        value: of ours to theirs.
        error: its standard error.
    """

    value: float
    error: float

    @property
    def z(self) -> float:
        """Standard errors between the ratio's logarithm and 0."""
        return math.log(self.value) * self.value / self.error

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


def ratio(ours: Errors, mean: float, std: float) -> Ratio:
    """To a mean of the authors' replicates, of which each has this standard deviation."""
    value = ours.mean / mean
    spread = (ours.std / ours.mean) ** 2 / len(ours.totals) + (std / mean) ** 2 / AUTHORS_REPLICATES
    return Ratio(value, value * math.sqrt(spread))


def paired_ratio(ours: Errors, others: Errors) -> Ratio:
    """To the errors of the same replicates."""
    value = ours.mean / others.mean
    off = ours.totals - value * others.totals
    return Ratio(value, float(off.std(ddof=1)) / others.mean / math.sqrt(len(off)))


def pooled_ratio(ours: Sequence[Errors], theirs: Curve) -> Ratio:
    """The geometric mean over epsilons.

    Replicates share their people over all epsilons, so that ratios go together: ours as the replicates show,
    theirs are supposed to do so alike.
    """
    means = np.array([errors.mean for errors in ours])
    off = np.array([errors.totals for errors in ours]) / means[:, None] - 1
    theirs_off = off * (theirs.stds / theirs.means / off.std(axis=1, ddof=1))[:, None]
    own, other = (part.mean(axis=0).var(ddof=1) for part in (off, theirs_off))
    value = math.exp(float(np.log(means / theirs.means).mean()))
    return Ratio(value, value * math.sqrt(own / off.shape[1] + other / AUTHORS_REPLICATES))
