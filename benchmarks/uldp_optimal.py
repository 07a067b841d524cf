"""The best channel for one truth: all blocks, each with its own probability, by an interior point method.

A channel reports block B with probability c_B e^epsilon if the input lies in B, else c_B; the rest, the same
for every sensitive input only if sum over B of c_B (1 + g [x in B]) = 1, is 0 for them and the answer itself
for others. Where all are sensitive these are the extreme points of all channels of local privacy. The trace
of the inverse Fisher information along the simplex, n x MSE, is convex in c.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dp_spark.uldp.choice import best_designs
from dp_spark.uldp.designs import Floats

_GAP = 1e-4  # relative, of the value found and a lower bound of it
_NEWTON = 1e-6  # half the squared decrement at which a stage ends
_FASTER = 10.0


@dataclass(frozen=True)
class Truth:
    """Shares p of v sensitive categories, then of others, and g = e^epsilon - 1."""

    sensitive: Floats
    others: Floats
    growth: float

    @cached_property
    def members(self) -> Floats:
        """All subsets but those that tell nothing, (b, v), block i + 1 in binary."""
        v = len(self.sensitive)
        numbers = np.arange(1, 2**v - (len(self.others) == 0))
        return (numbers[:, None] >> np.arange(v) & 1).astype(float)

    @cached_property
    def needed(self) -> Floats:
        """(b, v): how much of each input's probability the blocks use."""
        return 1 + self.growth * self.members

    @cached_property
    def _informations(self) -> tuple[Floats, Floats, Floats]:
        """Directions (b, w-1) and, of answers in clear, the matrix (w-1, w-1); the basis of the simplex."""
        w = len(self.sensitive) + len(self.others)
        basis = np.linalg.svd(np.ones((1, w)))[2][1:].T
        padded = np.hstack([self.members, np.zeros((len(self.members), len(self.others)))])
        rates = self.growth / np.sqrt(1 + self.growth * (self.members @ self.sensitive))
        answers = np.diag(np.concatenate([np.zeros_like(self.sensitive), 1 / self.others]))
        return (rates[:, None] * padded) @ basis, basis.T @ answers @ basis, basis

    def inverse(self, chances: Floats) -> Floats:
        """The inverse information along the simplex, (w-1, w-1)."""
        directions, answers, _ = self._informations
        told = directions.T @ (chances[:, None] * directions) + (1 - chances.sum()) * answers
        return np.linalg.inv(told)

    def error(self, chances: Floats) -> float:
        """N x MSE of a channel, for many reports."""
        return float(np.trace(self.inverse(chances)))

    def ubd(self, epsilon: Fraction) -> Floats:
        """The channel of uBD as probabilities of blocks."""
        v = len(self.sensitive)
        chances = np.zeros(2**v)
        for weight, design in best_designs(v + len(self.others), v, epsilon).components:
            numbers = design.members(np.arange(design.n_blocks)) @ (1 << np.arange(v))
            rate = float(weight) / (design.replication * self.growth + design.n_blocks)
            np.add.at(chances, numbers, rate)
        return chances[1 : len(self.members) + 1]

    def best(self) -> Floats:
        """The channel of least error, to one part in 10^4."""
        v, b = len(self.sensitive), len(self.members)
        sizes = self.members.sum(axis=1).astype(int)
        subsets = np.array([math.comb(v, size) for size in range(v + 1)])
        chances = 1 / (len(np.unique(sizes)) * subsets[sizes] * (1 + self.growth * sizes / v))
        weight = b / self.error(chances)
        while True:
            chances = self._centred(chances, weight)
            if b / weight < _GAP * self.error(chances):
                return chances
            weight *= _FASTER

    def _centred(self, chances: Floats, weight: float) -> Floats:
        """Newton's method for weight x error - sum of log c, among channels."""
        while True:
            step, decrement = self._step(chances, weight)
            if decrement < _NEWTON:
                return chances
            length = min(1.0, 0.95 / max(float((-step / chances).max()), 1e-300))
            before = weight * self.error(chances) - np.log(chances).sum()
            while length > 1e-9:
                tried = chances + length * step
                if weight * self.error(tried) - np.log(tried).sum() <= before - 0.1 * length * decrement:
                    break
                length /= 2
            else:
                return chances
            chances = tried

    def _step(self, chances: Floats, weight: float) -> tuple[Floats, float]:
        directions, answers, _ = self._informations
        inverse = self.inverse(chances)
        along = directions @ inverse  # (b, w-1)
        near = inverse @ answers @ inverse
        slope = -(along**2).sum(axis=1) + np.trace(near)
        plain, twice = directions @ along.T, along @ along.T
        bend = 2 * plain * twice
        if len(self.others):
            mixed = np.einsum("ij,jk,ik->i", along, answers, along @ inverse)
            bend -= 2 * (mixed[:, None] + mixed) - 2 * np.trace(near @ answers @ inverse)
        gradient = weight * slope - 1 / chances
        factor = cho_factor(weight * bend + np.diag(chances**-2.0), overwrite_a=True)
        moved, priced = cho_solve(factor, gradient), cho_solve(factor, self.needed)
        prices = np.linalg.solve(self.needed.T @ priced, self.needed.T @ moved)
        step = -(moved - priced @ prices)
        return step, float(-gradient @ step) / 2
