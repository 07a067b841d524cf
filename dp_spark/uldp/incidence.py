"""Blocks written out as a matrix: for few of them, or small ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from dp_spark.uldp.designs import Floats, Ids

LARGEST_DENSE = 2**23  # elements of a matrix, 64 MB, where there is another way


@dataclass(frozen=True, slots=True, eq=False)
class Explicit:
    """Blocks as the rows of a matrix of 0 and 1.

    Attributes:
        matrix: (m, v) float64, dense or sparse.
    """

    matrix: Floats | csr_array

    def sums(self, shares: Floats) -> Floats:
        """The sum of the shares of the points of each block: (v,) to (m,)."""
        return np.asarray(self.matrix @ shares)

    def supports(self, weights: Floats) -> Floats:
        """The sum of the weights of the blocks that contain each point: (m,) to (v,)."""
        return np.asarray(self.matrix.T @ weights)


def dense(members: NDArray[np.bool_]) -> Explicit:
    """Blocks given by which points lie in each: (m, v)."""
    return Explicit(members.astype(np.float64))


def listed(points: Ids, n_points: int) -> Explicit:
    """Blocks of one size k given by their distinct points: (m, k)."""
    n_blocks, size = points.shape
    ends = np.arange(n_blocks + 1) * size
    return Explicit(csr_array((np.ones(points.size), points.ravel(), ends), shape=(n_blocks, n_points)))


def chosen(members: Callable[[Ids], NDArray[np.bool_]], blocks: Ids, n_points: int) -> Explicit:
    """Blocks of few points each, from a function that tells their members: (m,), never (m, v) at once."""
    rows = max(1, LARGEST_DENSE // n_points)
    parts = [
        csr_array(members(blocks[start : start + rows]), dtype=np.float64)
        for start in range(0, blocks.size, rows)
    ]
    return Explicit(vstack(parts, format="csr") if parts else csr_array((0, n_points)))
