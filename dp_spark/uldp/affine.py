"""An interval of the integers modulo a prime, moved by all lines: a design for every v and every size.

block(a, b) = { x : (a x + b) mod q < size } has the number (a - 1) q + b, for a in 1..(q-1)/2 and b in
0..q-1. The other multipliers give the same blocks again: block(-a, size - 1 - b) = block(a, b).

The group of all lines is sharply 2-transitive on the q points, so for v = q every pair of points lies in
equally many blocks; fewer points inherit that, while their blocks then differ in size.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.arcs import arcs, arcs_are_quicker
from dp_spark.uldp.designs import Ids, Incidence
from dp_spark.uldp.incidence import dense
from dp_spark.uldp.lines import check_prime, images, lines_through, n_multipliers
from dp_spark.uldp.ranges import check_range


@dataclass(frozen=True, slots=True)
class Affine:
    """The orbit of 0..size-1 under x -> (a x + b) mod q, on the first v points.

    Attributes:
        n_points: v, at most q.
        prime: q, below 2^31.
        size: of the interval, in 1..q-1; blocks have size v / q points in the mean, and `size` if v = q.

    Raises:
        PlanRefused: a parameter is out of range, or q is no prime.
    """

    n_points: int
    prime: int
    size: int

    def __post_init__(self) -> None:
        check_prime(self.n_points, self.prime)
        check_range("size", self.size, 1, self.prime - 1, way_out="take Trivial for all points together")

    @property
    def name(self) -> str:
        """`affine(q=37, size=9)`."""
        return f"affine(q={self.prime}, size={self.size})"

    @property
    def n_blocks(self) -> int:
        """M q with M = (q - 1) / 2 multipliers, and 2 for q = 2."""
        return n_multipliers(self.prime) * self.prime

    @property
    def replication(self) -> int:
        """M size: a shift b for each multiplier and each place of the point in the interval."""
        return n_multipliers(self.prime) * self.size

    @property
    def pairs(self) -> int:
        """M size (size - 1) / (q - 1)."""
        if self.n_points == 1:
            return 0
        return n_multipliers(self.prime) * self.size * (self.size - 1) // (self.prime - 1)

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point its blocks: `index` is (a - 1) size + j, j in 0..size-1 the point's image."""
        return self._moved_to(points, index, 0, self.size)

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the others: `index` is (a - 1) (q - size) + j - size, j in size..q-1 its image."""
        return self._moved_to(points, index, self.size, self.prime - self.size)

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""
        return images(blocks[:, None], np.arange(self.n_points), self.prime) < self.size

    def incidence(self, blocks: Ids) -> Incidence:
        """These blocks as two linear maps: block (a, b) is the arc from -b of the circle that a turns."""
        if not arcs_are_quicker(blocks.size, self.n_points, self.prime):
            return dense(self.members(blocks))
        turns, starts = blocks // self.prime, -blocks % self.prime
        sizes = np.full_like(blocks, self.size)
        return arcs(turns, starts, sizes, n_points=self.n_points, prime=self.prime)

    def _moved_to(self, points: Ids, index: Ids, first: int, n_places: int) -> Ids:
        """The lines that take each point to a place: `index` is (a - 1) n_places + place - first."""
        turns = index.view(np.uint64) // np.uint64(n_places)
        places = turns * np.uint64(n_places)
        np.subtract(index.view(np.uint64), places, out=places)
        places += np.uint64(first)
        return lines_through(points, turns, places, self.prime)
