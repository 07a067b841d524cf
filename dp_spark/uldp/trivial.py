"""The two designs that need no construction: every point alone, and all points together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Ids
from dp_spark.uldp.incidence import Explicit, dense, listed
from dp_spark.uldp.ranges import LARGEST_NUMBER, check_range


@dataclass(frozen=True, slots=True)
class Trivial:
    """Block x is {x}, or the one block is everything; made by `singletons` and `whole`.

    Attributes:
        n_points: v.
        size: of every block, 1 or v.

    Raises:
        PlanRefused: there is no point, or blocks have another size.
    """

    n_points: int
    size: int

    def __post_init__(self) -> None:
        check_range("n_points", self.n_points, 1, LARGEST_NUMBER - 1, way_out="give at least one point")
        if self.size != self.n_points:
            check_range(
                "size", self.size, 1, 1, way_out="take 1 or n_points here; Complete and Affine have all sizes"
            )

    @classmethod
    def singletons(cls, n_points: int) -> "Trivial":
        """Every point alone: k = 1, the blocks of randomized response."""
        return cls(n_points, 1)

    @classmethod
    def whole(cls, n_points: int) -> "Trivial":
        """All points together: k = v, one block that says no more than "sensitive, or not"."""
        return cls(n_points, n_points)

    @property
    def name(self) -> str:
        """`singletons(v=5)` or `whole(v=5)`."""
        return f"{'singletons' if self.size == 1 else 'whole'}(v={self.n_points})"

    @property
    def n_blocks(self) -> int:
        """A block for each point, or one."""
        return self.n_points if self.size == 1 else 1

    @property
    def replication(self) -> int:
        """Each point lies in one block."""
        return 1

    @property
    def pairs(self) -> int:
        """No two points are together, or all are."""
        return 0 if self.size == 1 else 1

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point its only block; `index` is 0."""
        return points + index if self.size == 1 else np.zeros_like(points)

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the other points' blocks; where all points are together there is no `index`."""
        return index + (index >= points)

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""
        if self.size == self.n_points:
            return np.ones((blocks.size, self.n_points), bool)
        own: NDArray[np.bool_] = blocks[:, None] == np.arange(self.n_points)
        return own

    def incidence(self, blocks: Ids) -> Explicit:
        """These blocks as two linear maps."""
        return listed(blocks[:, None], self.n_points) if self.size == 1 else dense(self.members(blocks))
