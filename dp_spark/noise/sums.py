"""How far a sum of independent noises can be from 0, but for a stated chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_spark.noise import wide
from dp_spark.noise.lattice import NoiseTable

_RATES = np.logspace(-2, 2, 81)  # tried as multiples of the one that is best for Gaussian noise
_ROUNDED_UP = 1 + 1e-9  # more than all rounding of the bound together


@dataclass(frozen=True, slots=True)
class Drawn:
    """So many independent draws of one law.

    Attributes:
        table: the law, in grid steps.
        step: the value of one grid step.
        count: how many draws.
    """

    table: NoiseTable
    step: float
    count: int


def sum_bound(draws: Sequence[Drawn], chance: float) -> float:
    """An x for which P(abs(sum of all draws) > x) <= `chance`, in (0, 1).

    Markov's inequality for exp(t S), with the moment generating functions of the very tables: for every
    t > 0, x = (log(2 / chance) + sum of count log E exp(t step N)) / t holds; the least of those tried is
    taken. For no sum is it infinite: tables end. Source: Chernoff 1952.
    """
    log_chance = math.log(2 / chance)
    std = math.sqrt(sum(each.count * (each.step * each.table.std) ** 2 for each in draws))
    rates = _RATES * math.sqrt(2 * log_chance) / std
    logs = [log_chance + sum(each.count * _log_moment(each, rate) for each in draws) for rate in rates]
    furthest = sum(each.count * each.step * each.table.support for each in draws)
    return min(furthest, float(np.min(logs / rates))) * _ROUNDED_UP


def _log_moment(draws: Drawn, rate: float) -> float:
    """Log E exp(rate step N) of one draw: the logarithm of the sum of w(n) 2 cosh(rate step n)."""
    weights = wide.to_floats(draws.table.weights)
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    moves = rate * draws.step * np.arange(len(weights))
    up, down = logs + moves, logs[1:] - moves[1:]
    return float(np.logaddexp(np.logaddexp.reduce(up), np.logaddexp.reduce(down)))
