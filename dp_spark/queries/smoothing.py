"""Totals of several groupings made consistent: least squares under the variances of their noise.

Post-processing of released totals. Estimates are linear and unbiased, no variance is larger than before, and
a coarser group is the sum of its groups again. Source: Gauss-Markov; for trees Hay, Rastogi, Miklau, Suciu
2010, here with a variance for each level and any number of children.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dp_spark.queries.measure import Floats, NoisyTotal, SmoothedTotal

Numbers = NDArray[np.int64]
# Groups of which dense matrices are made, where groupings do not lie within each other.
MOST_DENSE = 2000


def smoothed(levels: Sequence[NoisyTotal], of_group: Sequence[Numbers]) -> list[SmoothedTotal]:
    """The consistent estimates of each level, in the order given.

    Args:
        levels: a total of the groups and of coarser groupings, one cell a group.
        of_group: for each level, the number of the group there that holds each group, shape (groups,).

    Groupings that lie within each other, of any size, are taken from the finest up and down again. Others
    are solved as one system of at most MOST_DENSE groups; above that they are left as they were drawn.
    """
    factor = max(level.factor for level in levels)
    order = _finest_first(of_group)
    if _is_chain(of_group, order):
        found = _of_chain([levels[i] for i in order], [of_group[i] for i in order])
        values = dict(zip(order, found, strict=True))
    elif is_smoothed(of_group):
        values = dict(enumerate(_of_any(levels, of_group)))
    else:
        values = {i: (level.values, _variances(level)) for i, level in enumerate(levels)}
    return [SmoothedTotal(values[i][0], np.sqrt(values[i][1]), factor) for i in range(len(levels))]


def is_smoothed(of_group: Sequence[Numbers]) -> bool:
    """Whether `smoothed` makes totals of these groupings consistent; else they stay as they were drawn."""
    return len(of_group[0]) <= MOST_DENSE or _is_chain(of_group, _finest_first(of_group))


def _finest_first(of_group: Sequence[Numbers]) -> list[int]:
    return sorted(range(len(of_group)), key=lambda i: -int(of_group[i].max(initial=-1)))


def _is_chain(of_group: Sequence[Numbers], order: Sequence[int]) -> bool:
    return all(_lies_within(of_group[fine], of_group[coarse]) for fine, coarse in pairwise(order))


def _lies_within(fine: Numbers, coarse: Numbers) -> bool:
    """Whether groups that are one in the fine grouping are one in the coarse one."""
    return bool(np.array_equal(_parents(fine, coarse)[fine], coarse))


def _parents(fine: Numbers, coarse: Numbers) -> Numbers:
    """The coarse group of each fine one."""
    parents = np.zeros(fine.max(initial=-1) + 1, dtype=np.int64)
    parents[fine] = coarse
    return parents


def _variances(level: NoisyTotal) -> Floats:
    return np.full(len(level.steps), level.std**2, dtype=np.float64)


def _sums(parent: Numbers, values: Floats, parents: int) -> Floats:
    return np.bincount(parent, values, parents).astype(np.float64)


def _of_chain(levels: Sequence[NoisyTotal], of_group: Sequence[Numbers]) -> list[tuple[Floats, Floats]]:
    """Values and variances of each level, finest first.

    Up: what a group and everything below it say of its total, z with variance v. Down: each child takes of
    what its parent knows better its share by variance. z_child - v_child / V Z is uncorrelated with Z, the
    sum of the children, and with whatever else the parent knows, which gives the variances.
    """
    z, v = levels[0].values, _variances(levels[0])
    below: list[tuple[Floats, Floats, Floats, Floats, Numbers]] = []
    for level, (fine, coarse) in zip(levels[1:], pairwise(of_group), strict=True):
        parent = _parents(fine, coarse)
        sums, variances = (_sums(parent, each, len(level.steps)) for each in (z, v))
        below.append((z, v, sums, variances, parent))
        own = level.std**2
        v = 1 / (1 / own + 1 / variances)
        z = v * (level.values / own + sums / variances)
    found = [(z, v)]
    for z, v, sums, variances, parent in reversed(below):
        above, above_variance = found[-1]
        share = v / variances[parent]
        found.append((z + share * (above - sums)[parent], v - share * v + share**2 * above_variance[parent]))
    return found[::-1]


def _of_any(levels: Sequence[NoisyTotal], of_group: Sequence[Numbers]) -> list[tuple[Floats, Floats]]:
    """Values and variances of each level, by one solution for the groups of the finest."""
    groups = len(of_group[0])
    sums = []
    for level, numbers in zip(levels, of_group, strict=True):
        matrix = np.zeros((len(level.steps), groups))
        matrix[numbers, np.arange(groups)] = 1
        sums.append(matrix)
    precision = sum(matrix.T @ matrix / level.std**2 for matrix, level in zip(sums, levels, strict=True))
    right = sum(matrix.T @ level.values / level.std**2 for matrix, level in zip(sums, levels, strict=True))
    covariance = np.linalg.inv(precision)
    values = covariance @ right
    return [(matrix @ values, np.sum(matrix @ covariance * matrix, axis=1)) for matrix in sums]
