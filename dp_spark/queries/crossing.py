"""Quantiles from a noisy cumulated histogram: where the statistic of a rank crosses zero."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dp_spark.queries.hierarchy import RankVariances, consistent, rank_variances
from dp_spark.queries.measure import DerivedEstimate, Edges, Floats, Noisy

# The statistic of a rank adds noises of many cells: 95 % of a normal law lies within this many std.
_FACTOR = 1.96
_BLOCK = 2**20  # cells of groups that are decoded together: what they need on the way fits 100 MB


def rank_estimates(
    noisy: Sequence[Noisy], of: Edges, branching: int, at: Sequence[Fraction]
) -> tuple[DerivedEstimate, ...]:
    """An estimate for each share in `at`, from the levels of a hierarchy, finest first.

    With C(x) the count below x, linear within bins, and N the count of all bins, the statistic of share p is
    S(x) = C(x) - p N. Its value is where S crosses 0, once C is made to grow.
    """
    groups = len(noisy[0].values)
    levels = [total.values.reshape(groups, -1) for total in noisy]
    variances = [_variances(total, level) for total, level in zip(noisy, levels, strict=True)]
    edges = np.array([float(edge) for edge in of.edges])
    found = np.empty((len(at), 4, groups))
    for block in _blocks(groups, of.bins):
        own = [each[block] if len(each) > 1 else each for each in variances]
        counts = consistent([level[block] for level in levels], own, branching)
        moments = rank_variances(own, of.bins, branching)
        for place, share in enumerate(at):
            found[place, :, block] = _located(counts, moments, float(share), edges)
    return tuple(DerivedEstimate(*each) for each in found)


def _located(counts: Floats, moments: RankVariances, share: float, edges: Floats) -> Floats:
    """Value, std, low and high of one quantile, shape (4, groups).

    Ends are the first x where S + factor std(S) is not negative and the last where S - factor std(S) is not
    positive. Where there seem to be no rows, anything is possible.
    """
    below = _growing(counts)
    total = below[:, -1:]
    statistic = below - share * total
    reach = _FACTOR * np.sqrt(moments.of_rank(share))
    value = _first_crossing(statistic, edges)
    low = _first_crossing(statistic + reach, edges)
    high = _first_crossing((reach - statistic)[:, ::-1], edges[::-1])
    empty = total[:, 0] <= 0
    value = np.where(empty, edges[0] + share * (edges[-1] - edges[0]), value)
    low = np.where(empty, edges[0], np.minimum(low, value))
    high = np.where(empty, edges[-1], np.maximum(high, value))
    return np.stack([value, (high - low) / (2 * _FACTOR), low, high])


def _growing(counts: Floats) -> Floats:
    """A cumulated histogram that does not fall, shape (groups, bins + 1), from 0 to the sum of all bins.

    Halfway between the least growing curve above the noisy one and the largest below it.
    """
    below = np.cumsum(counts, axis=1)
    below = np.hstack([np.zeros((len(below), 1)), below])
    above = np.maximum.accumulate(below, axis=1)
    under = np.minimum.accumulate(below[:, ::-1], axis=1)[:, ::-1]
    return np.clip((above + under) / 2, 0.0, np.maximum(below[:, -1:], 0.0))


def _first_crossing(curve: Floats, edges: Floats) -> Floats:
    """Where each curve, linear between edges, is first not negative; the last edge where it always is."""
    reached = curve >= 0
    reached[:, -1] = True
    at = np.argmax(reached, axis=1)
    rows, before = np.arange(len(curve)), np.maximum(at - 1, 0)
    start, end = curve[rows, before], curve[rows, at]
    rise = end - start
    part = np.where(rise > 0, -start / np.where(rise > 0, rise, 1.0), 1.0)
    found: Floats = edges[before] + np.clip(part, 0.0, 1.0) * (edges[at] - edges[before])
    return found


def _variances(total: Noisy, level: Floats) -> Floats:
    """Noise variances of a level, shape (1, 1) where all are alike, else (groups, cells)."""
    std = np.asarray(total.std, dtype=np.float64)
    return (
        np.array([[std**2]])
        if std.ndim == 0
        else np.broadcast_to(std.reshape(len(std), -1), level.shape) ** 2
    )


def _blocks(groups: int, bins: int) -> Iterator[slice]:
    size = max(1, _BLOCK // (bins + 1))
    yield from (slice(start, start + size) for start in range(0, groups, size))
