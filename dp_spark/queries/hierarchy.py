"""Noisy histograms of bins and of coarser and coarser cells, made consistent by least squares.

Source: Hay, Rastogi, Miklau, Suciu (2010), Boosting the accuracy of differentially private histograms through
consistency; here for any variances and without a root.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dp_spark.queries.measure import Floats

_MOST_BRANCHING = 32


def merged_bins(bins: int, branching: int) -> tuple[int, ...]:
    """How many bins one cell of each level holds: 1, b, b^2, ... as long as there are two cells or more."""
    merged = [1]
    while merged[-1] * branching < bins:
        merged.append(merged[-1] * branching)
    return tuple(merged)


@cache
def branching_of(bins: int) -> int:
    """How many cells of a level make one of the next: the best of 2 to 32, or all `bins`, which is flat.

    The best has the least variance of the median's rank, C(x) - N / 2, on average over the inner edges, if
    each level's noise has a variance in proportion to the number of levels. Of equals, the largest.
    """
    flat = max(bins, 2)
    choices = sorted({*range(2, min(_MOST_BRANCHING, flat) + 1), flat}, reverse=True)
    best: int = min(choices, key=lambda branching: _median_variance(bins, branching))
    return best


def _median_variance(bins: int, branching: int) -> float:
    levels = len(merged_bins(bins, branching))
    ranks = rank_variances([np.array([[float(levels)]])] * levels, bins, branching)
    return float(np.mean(ranks.of_rank(0.5)[:, 1:-1])) if bins > 1 else 0.0


@dataclass(frozen=True, slots=True)
class RankVariances:
    """Second moments of the noise in a consistent histogram, at its edges.

    Attributes:
        below: variance of the count below each edge, shape (groups or 1, bins + 1).
        with_all: its covariance with the count of all bins, of the same shape.
        of_bin: variance of the count of each bin, shape (groups or 1, bins).
    """

    below: Floats
    with_all: Floats
    of_bin: Floats

    def of_rank(self, share: float) -> Floats:
        """Variance at each edge of the count below it less `share` times the count of all bins."""
        variance = self.below - 2 * share * self.with_all + share**2 * self.below[:, -1:]
        return np.maximum(variance, 0.0)


def rank_variances(variances: Sequence[Floats], bins: int, branching: int) -> RankVariances:
    """Second moments of `consistent` at every edge.

    From the finest level up: within a cell, of which children are known, own noise v tells more about the
    sum T of the children. A count P of rows in the cell, of one bin or of all below an edge, keeps
    Var P - Cov(P, T)^2 / (Var T + v), and Cov(P, T) v / (Var T + v).

    Args:
        variances: of the noise of each level's cells, finest first, of shapes that broadcast to
            (groups or 1, cells).
        bins: how many there are.
        branching: cells of a level that make one of the next.
    """
    groups = max(each.shape[0] for each in variances)
    cells = np.broadcast_to(variances[0], (groups, bins)).astype(np.float64)
    # In front of the last axis: counts below the upper edge of each bin, and counts of each bin.
    spread = joint = np.stack([cells, cells])
    place = np.arange(bins)
    for own in variances[1:]:
        before, sums = _added(cells, branching)
        spread, joint = (_with_before(each, before[:, place]) for each in (spread, joint))
        place = place // branching
        known = sums + own
        spread = spread - joint**2 / known[:, place]
        joint = joint * (own / known)[:, place]
        cells = sums * own / known
    before = np.cumsum(cells, axis=1) - cells
    spread, joint = (_with_before(each, before[:, place]) for each in (spread, joint))
    start = np.zeros((groups, 1))
    below, with_all = (np.hstack([start, each[0]]) for each in (spread, joint))
    return RankVariances(below, with_all, spread[1])


def _with_before(moments: Floats, before: Floats) -> Floats:
    """Moments of counts below edges and of bins, with what stands before them under the same parent."""
    return moments + np.stack([before, np.zeros_like(before)])


def consistent(levels: Sequence[Floats], variances: Sequence[Floats], branching: int) -> Floats:
    """Counts of the bins, shape (groups, bins): the least squares fit to the noisy counts of all levels.

    Up the hierarchy each cell is weighed against the sum of its children, then down again what a cell knows
    better is spread over its children by their variances.

    Args:
        levels: noisy counts of each level's cells, finest first, each of shape (groups, cells).
        variances: as in `rank_variances`.
        branching: cells of a level that make one of the next.
    """
    fits = [np.asarray(levels[0], dtype=np.float64)]
    spreads = [np.broadcast_to(variances[0], (variances[0].shape[0], fits[0].shape[1]))]
    for level, own in zip(levels[1:], variances[1:], strict=True):
        _, spread = _added(spreads[-1], branching)
        _, children = _added(fits[-1], branching)
        fits.append((level * spread + children * own) / (spread + own))
        spreads.append(spread * own / (spread + own))
    found = fits.pop()
    spreads.pop()
    for fit, spread in zip(reversed(fits), reversed(spreads), strict=True):
        parent = np.arange(fit.shape[1]) // branching
        missing = (found - _added(fit, branching)[1]) / _added(spread, branching)[1]
        found = fit + spread * missing[:, parent]
    return found


def _added(cells: Floats, branching: int) -> tuple[Floats, Floats]:
    """For each cell the sum of those before it under the same parent; for each parent the sum of all."""
    starts = np.arange(0, cells.shape[1], branching)
    sums = np.add.reduceat(cells, starts, axis=1)
    before = np.cumsum(cells, axis=1) - cells
    return before - np.repeat(before[:, starts], branching, axis=1)[:, : cells.shape[1]], sums
