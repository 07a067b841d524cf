"""All subsets of one size, numbered in colexicographic order.

The number of the block c_1 < c_2 < ... < c_k is C(c_1, 1) + C(c_2, 2) + ... + C(c_k, k) (the combinatorial
number system). Complements are numbered in the reverse order, so that no more than v / 2 points are handled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Ids
from dp_spark.uldp.incidence import Explicit, dense, listed
from dp_spark.uldp.ranges import check_blocks, check_range

_LARGEST_POINTS = 2**22  # of which the table of binomials has a column each
_LARGEST_TABLE = 2**18  # block numbers that are written out once instead of computed for each person
_SPARSE = 4  # blocks of less than v / 4 points are quicker listed than as a dense matrix


@dataclass(frozen=True, slots=True)
class Complete:
    """All k-subsets of v points.

    Attributes:
        n_points: v.
        size: k, in 1..v.

    Raises:
        PlanRefused: there is no such subset, or there are 2^62 of them or more.
    """

    n_points: int
    size: int

    def __post_init__(self) -> None:
        check_range("n_points", self.n_points, 1, _LARGEST_POINTS, way_out="take Affine for more points")
        check_range("size", self.size, 1, self.n_points, way_out="give a size from 1 to the number of points")
        check_blocks(self.name, self.n_blocks)

    @property
    def name(self) -> str:
        """`complete(v=10, size=2)`."""
        return f"complete(v={self.n_points}, size={self.size})"

    @property
    def n_blocks(self) -> int:
        """C(v, k)."""
        return comb(self.n_points, self.size)

    @property
    def replication(self) -> int:
        """C(v - 1, k - 1)."""
        return comb(self.n_points - 1, self.size - 1)

    @property
    def pairs(self) -> int:
        """C(v - 2, k - 2); 0 where k = 1."""
        return comb(self.n_points - 2, self.size - 2) if self.size > 1 and self.n_points > 1 else 0

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point its blocks: `index` numbers the rest, a (k-1)-subset of the other points."""
        if self.n_points * self.n_blocks <= _LARGEST_TABLE:
            found: Ids = _written_out(self)[0][points, index]
            return found
        return _containing(self, points, index)

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the blocks without it: `index` numbers the k-subsets of the other points."""
        if self.n_points * self.n_blocks <= _LARGEST_TABLE:
            found: Ids = _written_out(self)[1][points, index]
            return found
        return _missing(self, points, index)

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""
        outside = _more_than_half(self)
        numbers = self.n_blocks - 1 - blocks if outside else blocks
        chosen = np.full((blocks.size, self.n_points), outside)
        size = min(self.size, self.n_points - self.size)
        np.put_along_axis(chosen, _subsets(numbers, self.n_points, size), not outside, axis=1)
        return chosen

    def incidence(self, blocks: Ids) -> Explicit:
        """These blocks as two linear maps."""
        if _SPARSE * self.size < self.n_points:
            return listed(_subsets(blocks, self.n_points, self.size), self.n_points)
        return dense(self.members(blocks))


@lru_cache(maxsize=16)
def _written_out(design: Complete) -> tuple[Ids, Ids]:
    """The blocks with each point and those without it: (v, r) and (v, b - r)."""
    points = np.arange(design.n_points)[:, None]
    counts = (design.replication, design.n_blocks - design.replication)
    with_it, without = (np.broadcast_arrays(points, np.arange(count)) for count in counts)
    return _containing(design, *with_it), _missing(design, *without)


def _more_than_half(design: Complete) -> bool:
    """Whether blocks are handled by the points outside of them."""
    return 2 * design.size > design.n_points


def _containing(design: Complete, points: Ids, index: Ids) -> Ids:
    if _more_than_half(design):
        outside = design.n_points - design.size
        return design.n_blocks - 1 - _without(points, index, design.n_points, outside)
    return _with(points, index, design.n_points, design.size)


def _missing(design: Complete, points: Ids, index: Ids) -> Ids:
    if _more_than_half(design):
        outside = design.n_points - design.size
        return design.n_blocks - 1 - _with(points, index, design.n_points, outside)
    return _without(points, index, design.n_points, design.size)


@lru_cache(maxsize=64)
def _binomials(n_points: int, size: int) -> Ids:
    """C(m, k) in row k, column m; as size <= v / 2 the last is the largest, a number of blocks below 2^62."""
    table = np.zeros((size + 1, n_points + 1), np.int64)
    table[0] = 1
    for row in range(1, size + 1):
        np.cumsum(table[row - 1, :-1], out=table[row, 1:])
    table.setflags(write=False)
    return table


def _largest_first(numbers: Ids, n_points: int, size: int) -> Iterator[tuple[int, Ids]]:
    """The points of numbered subsets: (place, point of each) for places size, size - 1, ..., 1."""
    table = _binomials(n_points, size)
    rest = numbers.copy()
    for place in range(size, 0, -1):
        point = np.searchsorted(table[place], rest, side="right") - 1
        rest -= table[place, point]
        yield place, point


def _subsets(numbers: Ids, n_points: int, size: int) -> Ids:
    """The points of numbered subsets, rising: (m,) to (m, size)."""
    chosen = np.empty((numbers.size, size), np.int64)
    for place, point in _largest_first(numbers, n_points, size):
        chosen[:, place - 1] = point
    return chosen


def _without(points: Ids, index: Ids, n_points: int, size: int) -> Ids:
    """Numbers of subsets without the point, by their numbers among the subsets of the others."""
    table = _binomials(n_points, size)
    numbers = np.zeros_like(index)
    for place, other in _largest_first(index, n_points - 1, size):
        numbers += table[place, other + (other >= points)]
    return numbers


def _with(points: Ids, index: Ids, n_points: int, size: int) -> Ids:
    """Numbers of subsets with the point, by the numbers of their rest among the subsets of the others."""
    table = _binomials(n_points, size)
    numbers = np.zeros_like(index)
    own_place = np.full_like(index, size)
    for place, other in _largest_first(index, n_points - 1, max(size - 1, 0)):
        above = (other >= points).astype(np.int64)
        numbers += table[place + above, other + above]
        own_place -= above
    numbers += table[own_place, points]
    return numbers
