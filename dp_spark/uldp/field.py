"""A subset of a finite field, moved by all lines: a design of q points for a power of a prime.

block(a, b) = { x : a x + b is one of the first `size` elements } has the number (a - 1) q + b, for all a but
0. As with the integers modulo a prime the lines are sharply 2-transitive; where q is not a prime this family
lies closer to a small v.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp.designs import Floats, Ids, Incidence
from dp_spark.uldp.galois import Galois, galois
from dp_spark.uldp.incidence import LARGEST_DENSE, dense
from dp_spark.uldp.primes import least_prime, prime_power
from dp_spark.uldp.ranges import check_range

_LARGEST_ORDER = 2**12  # its table of differences has 32 MB
_PRODUCT_GAIN = 8  # an element of a matrix product against one of a dense matrix times a vector, measured


@dataclass(frozen=True, slots=True)
class Field:
    """The orbit of the first `size` elements under x -> a x + b, on the first v elements.

    Attributes:
        n_points: v, at most q.
        order: q = p^m with m > 1, at most 4096.
        size: in 1..q-1; blocks have size v / q points in the mean, and `size` if v = q.

    Raises:
        PlanRefused: a parameter is out of range, or there is no such field.
    """

    n_points: int
    order: int
    size: int

    def __post_init__(self) -> None:
        check_range("n_points", self.n_points, 1, _LARGEST_ORDER, way_out="take Affine for more points")
        least = max(self.n_points, 4)
        fitting = f"take p^m with m > 1 from {least} on, or Affine with the prime {least_prime(least)}"
        check_range("order", self.order, least, _LARGEST_ORDER, way_out=fitting)
        if (prime_power(self.order) or (0, 1))[1] == 1:
            raise PlanRefused(
                "not_a_prime_power", f"order = {self.order} is not p^m with m > 1", way_out=fitting
            )
        check_range("size", self.size, 1, self.order - 1, way_out="take Trivial for all points together")

    @property
    def name(self) -> str:
        """`field(q=9, size=4)`."""
        return f"field(q={self.order}, size={self.size})"

    @property
    def n_blocks(self) -> int:
        """(q - 1) q."""
        return (self.order - 1) * self.order

    @property
    def replication(self) -> int:
        """(q - 1) size."""
        return (self.order - 1) * self.size

    @property
    def pairs(self) -> int:
        """As many as the ordered pairs of the set: size (size - 1)."""
        return self.size * (self.size - 1) if self.n_points > 1 else 0

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point its blocks: `index` is (a - 1) size + j, j in 0..size-1 the point's image."""
        turns, images = np.divmod(index, self.size)
        return self._lines_through(points, turns, images)

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the others: `index` is (a - 1) (q - size) + j - size, j in size..q-1 its image."""
        turns, images = np.divmod(index, self.order - self.size)
        return self._lines_through(points, turns, images + self.size)

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""
        turns, shifts = np.divmod(blocks[:, None], self.order)
        field = self._field()
        inside: NDArray[np.bool_] = (
            field.sum(field.product(turns + 1, np.arange(self.n_points)), shifts) < self.size
        )
        return inside

    def incidence(self, blocks: Ids) -> Incidence:
        """These blocks as two linear maps."""
        if blocks.size * self.n_points < min(self.order**3 // _PRODUCT_GAIN, LARGEST_DENSE):
            return dense(self.members(blocks))
        field, elements = self._field(), np.arange(self.order)
        first = (field.sum(elements[:, None], elements) < self.size).astype(np.float64)
        images = field.product(elements[1:, None], elements[: self.n_points])
        return Shifted(blocks, images, first)

    def _lines_through(self, points: Ids, turns: Ids, images: Ids) -> Ids:
        """The numbers of the lines with a = turns + 1 that take each point to its image."""
        field = self._field()
        return turns * self.order + field.difference(images, field.product(turns + 1, points))

    def _field(self) -> Galois:
        return galois(*(prime_power(self.order) or (0, 0)))


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """All shifts of a base set at once, one matrix product for all multipliers.

    Attributes:
        blocks: (m,) numbers.
        images: (q - 1, v) the product of each multiplier with each point.
        base: (q, q) whether the sum of two elements is in the base set, 0 or 1; symmetric.
    """

    blocks: Ids
    images: Ids
    base: Floats

    def sums(self, shares: Floats) -> Floats:
        """The sum of the shares of the points of each block: (v,) to (m,)."""
        order = self.base.shape[0]
        turned = np.zeros((order - 1, order))
        np.put_along_axis(turned, self.images, np.broadcast_to(shares, self.images.shape), axis=1)
        return (turned @ self.base).ravel()[self.blocks]

    def supports(self, weights: Floats) -> Floats:
        """The sum of the weights of the blocks that contain each point: (m,) to (v,)."""
        order = self.base.shape[0]
        by_block = np.bincount(self.blocks, weights, (order - 1) * order).reshape(order - 1, order)
        found: Floats = np.take_along_axis(by_block @ self.base, self.images, axis=1).sum(axis=0)
        return found
