"""Shapes that the sensitive shares may have, and the mean shares under one of them.

Given a shape and the mass alpha, the v sensitive shares are theta_x = alpha u_x / v where the u_x are drawn
alike and independently, given that they sum to v. Each is 0 with the probability `empty`, else log-normal;
its mean is 1. A spread near 0 says "all alike", one of 3 that a few categories hold all.

Cells' likelihoods times such a prior are integrated on nodes, tilted by exp(-tilt theta) with the one tilt
at which the means sum to alpha. That is the saddle point: it gives the probability of the reports as well.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats

_TAIL = 6.0  # standard deviations of the prior, and of the likelihood, that the nodes span
_PRIOR_NODES = 33
_REPORT_NODES = 33
_TILTS = 60
_FOUND = 1e-4  # standard deviations between the sum of the means and the sum asked for


@dataclass(frozen=True, slots=True)
class Shape:
    """A prior of the sensitive shares.

    Attributes:
        spread: standard deviation of the logarithm of a share that is not 0.
        empty: probability of a share of 0.
    """

    spread: float
    empty: float

    @property
    def middle(self) -> float:
        """Mean of the logarithm of u where it is not 0."""
        return -(self.spread**2) / 2 - math.log1p(-self.empty)

    def nodes(self, v: int) -> Floats:
        """Logarithms of u from tail to tail; no share is above the sum."""
        reach = _TAIL * self.spread
        return np.linspace(self.middle - reach, min(self.middle + reach, math.log(v)), _PRIOR_NODES)

    def log_density(self, logs: Floats) -> Floats:
        """Of log u, together with its not being 0."""
        standard = (logs - self.middle) / self.spread
        scale = math.log((1 - self.empty) / (self.spread * math.sqrt(2 * math.pi)))
        density: Floats = scale - standard**2 / 2
        return density


@dataclass(frozen=True, slots=True)
class Tilted:
    """Independent cells, tilted so that their means have a given sum.

    Attributes:
        means: (v,) of the cells.
        log_density: the logarithm of the untilted integral over all that has the sum, by the saddle point;
            minus infinity where the sum is so improbable that no tilt is found.
        tilt: the tilt.
    """

    means: Floats
    log_density: float
    tilt: float


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Densities at (v, k) points, and the points' weights in an integral."""

    points: Floats
    log_density: Floats
    widths: Floats


def means_given(shape: Shape, cells: Cells, tilt: float = 0.0) -> Tilted:
    """Means of the cells under a shape, of the mass the cells have, and the reports' probability.

    The search for the tilt starts at `tilt`. The shape leaves more than one category not empty on average,
    which the caller sees to.
    """
    v = len(cells.shares)
    scale = float(cells.shares.sum()) / v
    level = cells.level
    prior_nodes = shape.nodes(v)
    std = 1 / np.sqrt(np.maximum(cells.curvature, 1e-300))[:, None]
    near_reports = cells.moved(level)[:, None] + std * np.linspace(-_TAIL, _TAIL, _REPORT_NODES)
    lowest, highest = np.exp(prior_nodes[[0, -1]])
    logs = np.concatenate(
        [
            np.log(np.clip(near_reports / scale, lowest, highest)),
            np.broadcast_to(prior_nodes, (v, _PRIOR_NODES)),
        ],
        axis=1,
    )
    logs.sort(axis=1)
    shares = scale * np.exp(logs)
    likely = cells.log_likelihood(shares, level)
    nodes = _Nodes(shares, likely + shape.log_density(logs), _widths(logs))
    if shape.empty:
        nodes = _with_zero(nodes, shape, cells.log_likelihood(np.zeros((v, 1)), level))
    tilted = _of_sum(nodes, scale * v, tilt)
    log_density = tilted.log_density - _log_prior_of_sum(shape, v) - math.log(scale)
    return replace(tilted, log_density=log_density)


@cache
def _log_prior_of_sum(shape: Shape, v: int) -> float:
    """The logarithm of the density of the sum of all u at v."""
    logs = np.broadcast_to(shape.nodes(v), (v, _PRIOR_NODES))
    nodes = _Nodes(np.exp(logs), shape.log_density(logs), _widths(logs))
    if shape.empty:
        nodes = _with_zero(nodes, shape, np.zeros((v, 1)))
    return _of_sum(nodes, float(v)).log_density


def _with_zero(nodes: _Nodes, shape: Shape, likely: Floats) -> _Nodes:
    """The nodes and a point of its own at 0, with the probability that the shape gives it."""
    return _Nodes(
        np.concatenate([np.zeros_like(likely), nodes.points], axis=1),
        np.concatenate([likely + math.log(shape.empty), nodes.log_density], axis=1),
        np.concatenate([np.ones_like(likely), nodes.widths], axis=1),
    )


def _widths(nodes: Floats) -> Floats:
    """Weights of the trapezoid rule on each row's sorted nodes."""
    steps = np.diff(nodes, axis=1) / 2
    widths = np.zeros_like(nodes)
    widths[:, :-1] += steps
    widths[:, 1:] += steps
    return widths


def _of_sum(nodes: _Nodes, total: float, tilt: float = 0.0) -> Tilted:
    """Tilt the densities so that the means sum to a total: Newton's steps in a bracket."""
    low, high = -math.inf, math.inf
    weights = np.empty_like(nodes.points)  # one for all steps: memory taken anew costs a fifth more time
    for _ in range(_TILTS):
        np.multiply(nodes.points, -tilt, out=weights)
        weights += nodes.log_density
        highest = weights.max(axis=1, keepdims=True)
        weights -= highest
        np.exp(weights, out=weights)
        weights *= nodes.widths
        integrals = weights.sum(axis=1)
        weights *= nodes.points
        means = weights.sum(axis=1) / integrals
        squares = np.einsum("ij,ij->i", weights, nodes.points) / integrals
        variance = max(float((squares - means**2).sum()), 1e-24 * total**2)
        excess = float(means.sum()) - total
        if abs(excess) <= _FOUND * math.sqrt(variance):
            log_integral = float((np.log(integrals) + highest[:, 0]).sum())
            log_density = log_integral + tilt * total - math.log(2 * math.pi * variance) / 2
            return Tilted(means, log_density, tilt)
        low, high = (tilt, high) if excess > 0 else (low, tilt)
        farthest = 4 * abs(tilt) + 10 * len(means) / total
        stepped = tilt + min(max(excess / variance, -farthest), farthest)
        tilt = stepped if low < stepped < high else (low + high) / 2
    return Tilted(means * (total / means.sum()), -math.inf, tilt)
