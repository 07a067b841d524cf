"""Random hashes of the categories into cells: a block is one hash with one of its cells.

Hash (a, b) takes x to floor(z cells / q), z = (a x + b) mod q. The block (a, b, y) of all points that it
takes to y has the number ((a - 1) q + b) cells + y. Every hash takes a point to exactly one cell, so a point
lies in as many blocks as there are hashes. For how many b two points meet depends on a times their difference
up to its sign, so half of the multipliers balance the pairs exactly.

Source: Wang, Blocki, Li, Jha 2017 (optimized local hashing).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.arcs import arcs, arcs_are_quicker
from dp_spark.uldp.designs import Ids, Incidence
from dp_spark.uldp.incidence import chosen, dense
from dp_spark.uldp.lines import check_prime, images, n_multipliers
from dp_spark.uldp.primes import least_prime
from dp_spark.uldp.ranges import LARGEST_NUMBER, check_blocks, check_range

_SHORT = 8  # places of an arc


@dataclass(frozen=True, slots=True)
class Hashing:
    """All hashes of the first v residues modulo a prime into cells, with all of their cells.

    Attributes:
        n_points: v, at most q.
        prime: q, below 2^31.
        cells: at least 2; where there are more than q, a cell holds one point or none.

    Raises:
        PlanRefused: a parameter is out of range, q is no prime, or there are 2^62 blocks or more.
    """

    n_points: int
    prime: int
    cells: int

    def __post_init__(self) -> None:
        check_prime(self.n_points, self.prime)
        check_range("cells", self.cells, 2, LARGEST_NUMBER, way_out="a hash needs two cells to say anything")
        check_blocks(self.name, self.n_blocks)

    @classmethod
    def of(cls, n_points: int, cells: int) -> "Hashing":
        """With the least prime that has room for the points."""
        return cls(n_points, least_prime(n_points), cells)

    @property
    def name(self) -> str:
        """`hashing(q=37, cells=4)`."""
        return f"hashing(q={self.prime}, cells={self.cells})"

    @property
    def n_hashes(self) -> int:
        """The number of hashes, M q."""
        return n_multipliers(self.prime) * self.prime

    @property
    def n_blocks(self) -> int:
        """Each cell of each hash, empty ones counted."""
        return self.n_hashes * self.cells

    @property
    def replication(self) -> int:
        """One cell of each hash."""
        return self.n_hashes

    @property
    def pairs(self) -> int:
        """The hashes that take two points to one cell: the sum of s (s - 1) over cells, M / (q - 1) times.

        q mod cells of the cells hold one place more than the others.
        """
        if self.n_points == 1:
            return 0
        size, larger = divmod(self.prime, self.cells)
        ordered = (self.cells - larger) * size * (size - 1) + larger * (size + 1) * size
        return n_multipliers(self.prime) * ordered // (self.prime - 1)

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point its blocks: `index` is the hash."""
        return index * self.cells + self._cells_of(index, points)

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the others: `index` is hash (cells - 1) + the cell's place among the other cells."""
        hashes = index // (self.cells - 1)
        others = index - hashes * (self.cells - 1)
        others += others >= self._cells_of(hashes, points)
        return hashes * self.cells + others

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""
        hashes, cells = np.divmod(blocks[:, None], self.cells)
        inside: NDArray[np.bool_] = self._cells_of(hashes, np.arange(self.n_points)) == cells
        return inside

    def incidence(self, blocks: Ids) -> Incidence:
        """These blocks as two linear maps: a block is the arc of its cell, turned back by b.

        Short arcs are listed: running totals of weights as different as theirs lose their digits.
        """
        if self.prime < _SHORT * self.cells:
            return chosen(self.members, blocks, self.n_points)
        if not arcs_are_quicker(blocks.size, self.n_points, self.prime):
            return dense(self.members(blocks))
        hashes, cells = np.divmod(blocks, self.cells)
        turns, shifts = np.divmod(hashes, self.prime)
        firsts, ends = self._first_places(cells), self._first_places(cells + 1)
        starts = (firsts - shifts) % self.prime
        return arcs(turns, starts, ends - firsts, n_points=self.n_points, prime=self.prime)

    def _cells_of(self, hashes: Ids, points: Ids) -> Ids:
        return images(hashes, points, self.prime) * self.cells // self.prime

    def _first_places(self, cells: Ids) -> Ids:
        """The least z of each cell: y q / cells, rounded up."""
        return -(-cells * self.prime // self.cells)
