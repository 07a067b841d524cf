"""Blocks that are arcs of turned circles, summed by running totals instead of a matrix.

With multiplier a the point x stands at a x mod q on a circle of q places, and a block is the points on an arc
of it. All blocks of one multiplier together cost O(q + v), and each block two look-ups more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Floats, Ids
from dp_spark.uldp.incidence import LARGEST_DENSE
from dp_spark.uldp.lines import n_multipliers

_CHUNK = 2**22  # places of circles that are worked on at a time: 32 MB
_PLACE_COST = 16  # elements of a dense matrix that are summed in the time of one place of a circle, measured


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The arcs of r circles, few enough to be worked on together. Running totals have q + 1 places a circle.

    Attributes:
        shape: (r, q + 1).
        order: (m,) which of all blocks these are.
        stands: (r, v) the place of each point on each circle.
        starts: (m,) the place of the first point of each arc.
        stops: (m,) the place behind its last point.
        wrapped: (m,) 1 where it passes the circle's end, else 0.
    """

    shape: tuple[int, int]
    order: Ids
    stands: NDArray[np.intp]
    starts: Ids
    stops: Ids
    wrapped: Floats

    def sums(self, shares: Floats) -> Floats:
        """The sum of the shares on each arc."""
        totals = np.zeros(self.shape)
        totals.ravel()[1:][self.stands] = shares
        np.cumsum(totals, axis=1, out=totals)
        found = totals.ravel()[self.stops]
        found -= totals.ravel()[self.starts]
        found += self.wrapped * shares.sum()
        return found

    def supports(self, weights: Floats) -> Floats:
        """The sum of the weights of the arcs over each point."""
        n_places = self.shape[0] * self.shape[1]
        steps = np.bincount(self.starts, weights, n_places) - np.bincount(self.stops, weights, n_places)
        covers = np.cumsum(steps.reshape(self.shape), axis=1)
        found: Floats = covers.ravel()[self.stands].sum(axis=0) + self.wrapped @ weights
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """m blocks as arcs, in parts."""

    n_blocks: int
    parts: tuple[Part, ...]

    def sums(self, shares: Floats) -> Floats:
        """The sum of the shares of the points of each block: (v,) to (m,)."""
        found = np.empty(self.n_blocks)
        for part in self.parts:
            found[part.order] = part.sums(shares)
        return found

    def supports(self, weights: Floats) -> Floats:
        """The sum of the weights of the blocks that contain each point: (m,) to (v,)."""
        found: Floats = np.sum([part.supports(weights[part.order]) for part in self.parts], axis=0)
        return found


def arcs_are_quicker(n_blocks: int, n_points: int, prime: int) -> bool:
    """Whether running totals beat a dense matrix of so many blocks, or save its memory."""
    n_places = min(n_blocks, n_multipliers(prime)) * prime
    return n_blocks * n_points > max(n_places, min(_PLACE_COST * n_places, LARGEST_DENSE))


def arcs(turns: Ids, starts: Ids, lengths: Ids, *, n_points: int, prime: int) -> Arcs:
    """Blocks that are arcs: (m,) multipliers less 1, first places and numbers of places, these below q."""
    order = np.argsort(turns, kind="stable")
    circles = np.unique(turns)
    firsts = np.arange(0, circles.size, max(1, _CHUNK // (prime + 1)))
    cuts = np.searchsorted(turns, circles[firsts[1:]], sorter=order)
    parts = (
        _part(some, own, np.searchsorted(own, turns[some]), starts[some], lengths[some], n_points, prime)
        for own, some in zip(np.split(circles, firsts[1:]), np.split(order, cuts), strict=True)
    )
    return Arcs(turns.size, tuple(parts))


def _part(order: Ids, turns: Ids, circle: Ids, starts: Ids, lengths: Ids, n_points: int, prime: int) -> Part:
    """Arcs on the circles that `turns` makes; `circle` says on which of them each lies."""
    width = prime + 1
    images = (turns[:, None] + 1) * np.arange(n_points) % prime
    stops = starts + lengths
    wrapped = stops > prime
    return Part(
        shape=(turns.size, width),
        order=order,
        stands=images + np.arange(turns.size)[:, None] * width,
        starts=starts + circle * width,
        stops=stops - wrapped * prime + circle * width,
        wrapped=wrapped.astype(np.float64),
    )
