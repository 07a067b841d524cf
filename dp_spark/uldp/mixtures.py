"""The error of a mixture of block designs, at truths that are uniform inside S and inside N.

A mixture uses block size k with public probability t_k, its weight. With alpha the share of all people whose
category is sensitive, n x MSE, summed over the w categories, is

    M(alpha, t) = sum_i cost_i(alpha) / sum_k t_k gain_ik(alpha),

with three parts i: contrasts inside S, contrasts inside N, and the mass alpha. It is convex in t and concave
in alpha, and equals the trace of the inverse Fisher information of the channel.

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from dp_spark.errors import PlanRefused
from dp_spark.uldp.checking import checked_epsilon, checked_sizes
from dp_spark.uldp.designs import Floats

_ROUNDING = 1e-9  # by which weights may miss the sum 1


def mixture_mse(
    n_categories: int,
    n_sensitive: int,
    epsilon: Fraction | float,
    *,
    alpha: float,
    block_weights: Mapping[int, float],
) -> float:
    """M(alpha, t): n x MSE summed over all categories; infinite where the reports tell nothing inside S.

    Raises:
        PlanRefused: a parameter is out of range, or the weights are no probabilities of sizes in 1..v.
    """
    setting = Setting.of(n_categories, n_sensitive, epsilon)
    weights = {size: weight for size, weight in block_weights.items() if weight}
    if not 0 <= alpha <= 1 or (n_categories == n_sensitive and alpha < 1):
        raise PlanRefused(
            "uldp_alpha",
            f"alpha = {alpha} (allowed: 0 to 1, and 1 where every category is sensitive)",
            way_out="give the share of people whose category is sensitive",
        )
    if (
        not all(1 <= size <= n_sensitive and weight > 0 for size, weight in weights.items())
        or abs(math.fsum(weights.values()) - 1) > _ROUNDING
    ):
        raise PlanRefused(
            "uldp_block_weights",
            f"block_weights = {dict(block_weights)} (allowed: sizes from 1 to {n_sensitive}, probabilities "
            "that sum to 1)",
            way_out="give each block size the probability with which it is used",
        )
    parts = setting.parts(alpha, np.array([*weights], dtype=float), np.array([*weights.values()]))
    return float(parts.sum())


@dataclass(frozen=True, slots=True)
class Setting:
    """What is given to every mixture: w, v and g = e^epsilon - 1, all in range."""

    n_categories: int
    n_sensitive: int
    growth: float

    @classmethod
    def of(cls, n_categories: int, n_sensitive: int, epsilon: Fraction | float) -> "Setting":
        """The setting, once it is checked.

        Raises:
            PlanRefused: as `checked_sizes` and `checked_epsilon`.
        """
        categories, sensitive = checked_sizes(n_categories, n_sensitive)
        return cls(categories, sensitive, math.expm1(checked_epsilon(epsilon)))

    def costs(self, alpha: float) -> Floats:
        """The numerators: contrasts in S, contrasts in N, mass, shape (3,)."""
        return self._costs_of_no_mass() + alpha * self.cost_slopes()

    def cost_slopes(self) -> Floats:
        """The derivative of `costs` by alpha, shape (3,)."""
        no_mass = self._costs_of_no_mass()
        return np.array([0.0, -no_mass[1], -no_mass[2]])

    def gains(self, alpha: float, sizes: Floats) -> Floats:
        """The information in blocks of each size, (m,) to (3, m), in the order of `costs`."""
        v = self.n_sensitive
        drawn = sizes * self.growth
        apart = (v - sizes) / (v - 1) if v > 1 else np.ones_like(sizes)  # one category has no contrasts
        mass, answered = drawn / (v + drawn * alpha), drawn / (v + drawn)
        return np.array([answered * self.growth * apart / (v + drawn * alpha), answered, mass])

    def gain_slopes(self, alpha: float, sizes: Floats) -> Floats:
        """The derivative of `gains` by alpha, (m,) to (3, m)."""
        drawn = sizes * self.growth
        slopes = -self.gains(alpha, sizes) * drawn / (self.n_sensitive + drawn * alpha)
        slopes[1] = 0
        return slopes

    def parts(self, alpha: float, sizes: Floats, weights: Floats) -> Floats:
        """The three summands of M, shape (3,)."""
        costs, gained = self.costs(alpha), self.gains(alpha, sizes) @ weights
        parts: Floats = np.divide(costs, gained, out=np.full(3, np.inf), where=gained > 0)
        return parts

    def slope(self, alpha: float, sizes: Floats, weights: Floats) -> float:
        """The derivative of M by alpha."""
        gained = self.gains(alpha, sizes) @ weights
        falls = self.costs(alpha) / gained * (self.gain_slopes(alpha, sizes) @ weights)
        return float(((self.cost_slopes() - falls) / gained).sum())

    def hardest_alpha(self, sizes: Floats, weights: Floats) -> float:
        """The alpha in [0, 1] at which M is greatest."""
        if self.n_categories == self.n_sensitive or self.slope(1.0, sizes, weights) >= 0:
            return 1.0
        if self.slope(0.0, sizes, weights) <= 0:
            return 0.0
        return float(brentq(self.slope, 0.0, 1.0, args=(sizes, weights), xtol=1e-16))

    def _costs_of_no_mass(self) -> Floats:
        v, others = self.n_sensitive, self.n_categories - self.n_sensitive
        if not others:
            return np.array([(v - 1) / v, 0.0, 0.0])
        return np.array([(v - 1) / v, (others - 1) / others, self.n_categories / (v * others)])
