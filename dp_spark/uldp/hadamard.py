"""The +1 entries of the columns of a Hadamard matrix (Sylvester's).

The entry of row i and column c is +1 where i and c have an even number of bits in common. Point x is row
x + 1; row 0, all +1, is no point. Any two rows agree in half of the columns.

Source: Acharya, Sun, Zhang 2019 (Hadamard response).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Floats, Ids, Incidence
from dp_spark.uldp.incidence import LARGEST_DENSE, dense
from dp_spark.uldp.ranges import check_range

_LARGEST_POINTS = 2**30
_STEP_COST = 32  # elements of a dense matrix that are summed in the time of one sum of a transform, measured


@dataclass(frozen=True, slots=True)
class Hadamard:
    """Blocks of a Hadamard matrix of order V, the least power of 2 above v.

    Attributes:
        n_points: v.
        first: whether column 0, the block of all points, is one of them.

    Raises:
        PlanRefused: there is no point, or one point whose only block would be column 0, left out.
    """

    n_points: int
    first: bool

    def __post_init__(self) -> None:
        least = 1 if self.first else 2
        check_range("n_points", self.n_points, least, _LARGEST_POINTS, way_out="take Trivial for one point")

    @property
    def name(self) -> str:
        """`hadamard(order=64, first=True)`."""
        return f"hadamard(order={self.order}, first={self.first})"

    @property
    def order(self) -> int:
        """V."""
        return 1 << self.n_points.bit_length()

    @property
    def n_blocks(self) -> int:
        """V, or V - 1."""
        return self.order - self._skipped

    @property
    def replication(self) -> int:
        """V / 2, or 1 less."""
        return self.order // 2 - self._skipped

    @property
    def pairs(self) -> int:
        """V / 4, or 1 less."""
        return self.order // 4 - self._skipped if self.n_points > 1 else 0

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point the columns where its row has +1, in an order of its own."""
        return _columns(points + 1, index + self._skipped, odd=False) - self._skipped

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the columns where its row has -1, in an order of its own."""
        return _columns(points + 1, index, odd=True) - self._skipped

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""
        return ~_odd((blocks[:, None] + self._skipped) & np.arange(1, self.n_points + 1))

    def incidence(self, blocks: Ids) -> Incidence:
        """These blocks as two linear maps."""
        transform_cost = _STEP_COST * self.order * self.n_points.bit_length()
        if blocks.size * self.n_points < min(transform_cost, LARGEST_DENSE):
            return dense(self.members(blocks))
        return Transformed(self.n_points, self.order, blocks + self._skipped)

    @property
    def _skipped(self) -> int:
        return 0 if self.first else 1


@dataclass(frozen=True, slots=True, eq=False)
class Transformed:
    """Columns of a Hadamard matrix, summed by the fast transform: half of what all columns have in common."""

    n_points: int
    order: int
    columns: Ids

    def sums(self, shares: Floats) -> Floats:
        """The sum of the shares of the points of each block: (v,) to (m,)."""
        by_row = np.zeros(self.order)
        by_row[1 : self.n_points + 1] = shares
        found: Floats = (transform(by_row)[self.columns] + shares.sum()) / 2
        return found

    def supports(self, weights: Floats) -> Floats:
        """The sum of the weights of the blocks that contain each point: (m,) to (v,)."""
        by_column = np.bincount(self.columns, weights, self.order).astype(np.float64)
        found: Floats = (transform(by_column)[1 : self.n_points + 1] + weights.sum()) / 2
        return found


def transform(values: Floats) -> Floats:
    """The product with Sylvester's Hadamard matrix, in V log2 V sums: (V,) to (V,), V a power of 2."""
    result = values.copy()
    half = 1
    while half < values.size:
        pairs = result.reshape(-1, 2, half)
        differences = pairs[:, 0] - pairs[:, 1]
        pairs[:, 0] += pairs[:, 1]
        pairs[:, 1] = differences
        half *= 2
    return result


def _columns(rows: Ids, index: Ids, *, odd: bool) -> Ids:
    """For each row its columns of one parity: the index with a bit put in, where the row has its lowest."""
    lowest = rows & -rows
    columns: Ids = 2 * index - (index & (lowest - 1))
    columns += lowest * (_odd(columns & rows) != odd)
    return columns


def _odd(words: Ids) -> NDArray[np.bool_]:
    """Whether the number of bits is."""
    return (np.bitwise_count(words) & 1).astype(np.bool_)
