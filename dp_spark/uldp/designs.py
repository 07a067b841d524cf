"""What a mechanism needs of a family of blocks: subsets of the sensitive categories, one of which it reports.

Points are the sensitive categories 0..v-1. A family is regular (each point lies in `replication` blocks) and
balanced (each pair of points lies in `pairs` blocks); blocks may have different sizes and may repeat. All
blocks are numbered 0..n_blocks-1, and a report is such a number.

Source: Park, Nam, Lee, arXiv 2305.01261 (block designs); Yoon, Park, Nam, Lee, arXiv 2509.24173.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class Incidence(Protocol):
    """Some blocks, m of them, as a matrix of points that is never written out where it need not be."""

    def sums(self, shares: Floats) -> Floats:
        """The sum of the shares of the points of each block: (v,) to (m,)."""

    def supports(self, weights: Floats) -> Floats:
        """The sum of the weights of the blocks that contain each point: (m,) to (v,)."""


class Design(Protocol):
    """A regular, balanced family of blocks."""

    @property
    def name(self) -> str:
        """The construction with its parameters, as `affine(q=37, size=9)`."""

    @property
    def n_points(self) -> int:
        """The number v of sensitive categories."""

    @property
    def n_blocks(self) -> int:
        """The number b of blocks, repeated ones counted."""

    @property
    def replication(self) -> int:
        """The number r of blocks that contain a given point."""

    @property
    def pairs(self) -> int:
        """The number lambda of blocks that contain two given points; 0 where there is one point only."""

    def containing(self, points: Ids, index: Ids) -> Ids:
        """For each point its blocks, numbered: `index` in 0..r-1 to a block, one to one."""

    def missing(self, points: Ids, index: Ids) -> Ids:
        """For each point the blocks without it, numbered: `index` in 0..b-r-1, one to one."""

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which points lie in each block: (m,) to (m, v)."""

    def incidence(self, blocks: Ids) -> Incidence:
        """These blocks as two linear maps, in the quickest form for so many."""
