"""Quantiles from a noisy cumulated histogram: where the statistic of a rank crosses zero."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dp_spark.queries.hierarchy import RankVariances, consistent, rank_variances
from dp_spark.queries.measure import DerivedEstimate, Edges, Floats, Noisy
from dp_spark.queries.mixing import mixed_factor

_BLOCK = 2**17  # cells of groups that are decoded together: what they need on the way fits a cache


def rank_estimates(
    noisy: Sequence[Noisy], of: Edges, branching: int, at: Sequence[Fraction]
) -> tuple[DerivedEstimate, ...]:
    """An estimate for each share in `at`, from the levels of a hierarchy, finest first.

    With C(x) the count below x, linear within bins, and N the count of all bins, the statistic of share p is
    S(x) = C(x) - p N. Its value is where S crosses 0, once C is made to grow.
    """
    groups = len(noisy[0].values)
    levels = [_by_group(total.values) for total in noisy]
    variances = [_variances(total) for total in noisy]
    edges = np.array([float(edge) for edge in of.edges])
    factor = mixed_factor(noisy)
    found = np.empty((len(at), 4, groups))
    for block in _blocks(groups, of.bins):
        own = [each[block] if len(each) > 1 else each for each in variances]
        below = _growing(consistent([level[block] for level in levels], own, branching))
        moments = rank_variances(own, of.bins, branching)
        for place, share in enumerate(at):
            found[place, :, block] = _located(below, moments, float(share), edges, factor)
    return tuple(DerivedEstimate(*each) for each in found)


def _located(below: Floats, moments: RankVariances, share: float, edges: Floats, factor: float) -> Floats:
    """Value, std, low and high of one quantile, shape (4, groups).

    Ends are the first x where S + factor std(S) is not negative and the last where S - factor std(S) is not
    positive. Where there seem to be no rows, anything is possible.
    """
    total = below[:, -1:]
    statistic = below - share * total
    spread, of_bin = factor**2 * moments.of_rank(share), factor**2 * moments.of_bin
    nothing = np.zeros_like(spread[:1]), np.zeros_like(of_bin[:1])
    value = _first_possible(statistic, *nothing, edges)
    low = _first_possible(statistic, spread, of_bin, edges)
    high = _first_possible(-statistic[:, ::-1], spread[:, ::-1], of_bin[:, ::-1], edges[::-1])
    empty = total[:, 0] <= 0
    value = np.where(empty, edges[0] + share * (edges[-1] - edges[0]), value)
    low = np.where(empty, edges[0], np.minimum(low, value))
    high = np.where(empty, edges[-1], np.maximum(high, value))
    value, low, high = np.clip([value, low, high], edges[0], edges[-1])
    return np.stack([value, (high - low) / (2 * factor), low, high])


def _growing(counts: Floats) -> Floats:
    """A cumulated histogram that does not fall, shape (groups, bins + 1), from 0 to the sum of all bins.

    Halfway between the least growing curve above the noisy one and the largest below it: an interval from
    either alone would be too wide where bins hold less than the noise.
    """
    below = np.cumsum(counts, axis=1)
    below = np.hstack([np.zeros((len(below), 1)), below])
    above = np.maximum.accumulate(below, axis=1)
    under = np.minimum.accumulate(below[:, ::-1], axis=1)[:, ::-1]
    return np.clip((above + under) / 2, 0.0, np.maximum(below[:, -1:], 0.0))


def _first_possible(statistic: Floats, spread: Floats, of_bin: Floats, edges: Floats) -> Floats:
    """The first x where the statistic S is 0 or more within its noise; the last edge where it nowhere is.

    With d = S_(i+1) - S_i, a share t into the bin from edge i, S = S_i + t d has the spread
    (1 - t)^2 spread_i + t^2 spread_(i+1) + 2 t (1 - t) c, c from spread_i + spread_(i+1) - 2 c = of_bin.
    Where S^2 equals it is a root of a quadratic equation, of which the smallest positive one is meant.

    Args:
        statistic: at every edge, shape (groups, bins + 1).
        spread: squares of how far its noise reaches, shape (groups or 1, bins + 1).
        of_bin: the same of its change within each bin, shape (groups or 1, bins).
        edges: where they are.
    """
    reached = statistic + np.sqrt(spread) >= 0
    reached[:, -1] = True
    at = np.argmax(reached, axis=1)
    rows, before = np.arange(len(statistic)), np.maximum(at - 1, 0)
    known = rows if len(spread) > 1 else 0
    start, step = statistic[rows, before], statistic[rows, at] - statistic[rows, before]
    first, last, change = spread[known, before], spread[known, at], of_bin[known, before]
    square = step**2 - change
    half = start * step - ((last - first) - change) / 2
    constant = start**2 - first
    divisor = np.sqrt(np.maximum(half**2 - square * constant, 0.0)) - half
    part = np.divide(constant, divisor, out=np.ones_like(constant), where=divisor > 0)
    part = np.where(at > 0, np.clip(part, 0.0, 1.0), 0.0)
    found: Floats = edges[before] + part * (edges[at] - edges[before])
    return found


def _variances(total: Noisy) -> Floats:
    """Noise variances of a level, shape (1, 1) where all are alike, else (groups, 1) or (groups, cells)."""
    std = np.asarray(total.std, dtype=np.float64)
    return _by_group(std) ** 2 if std.ndim else std.reshape(1, 1) ** 2


def _by_group(cells: Floats) -> Floats:
    """The cells of each group, shape (groups, cells): a total of one cell has no second axis."""
    return cells if cells.ndim > 1 else cells[:, np.newaxis]


def _blocks(groups: int, bins: int) -> Iterator[slice]:
    size = max(1, _BLOCK // (bins + 1))
    yield from (slice(start, start + size) for start in range(0, groups, size))
