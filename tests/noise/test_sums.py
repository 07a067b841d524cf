"""How far sums of noise reach: never less than the exact tail says, and little more."""

from fractions import Fraction

import numpy as np
import pytest

from dp_spark.noise import Gaussian, Laplace, NoiseTable, freeze, wide
from dp_spark.noise.sums import Drawn, sum_bound

TABLES = {
    family.name: freeze(family, Fraction(1, 4), 120, sensitivity=1, max_groups=1)
    for family in (Gaussian(), Laplace())
}


def law(table: NoiseTable) -> np.ndarray:
    weights = wide.to_floats(table.weights)
    return np.concatenate([weights[:0:-1], weights])


def exact_tail(table: NoiseTable, count: int, coarse: NoiseTable, step: int, least: int) -> float:
    """P(abs of `count` draws of one and `step` times one of the other >= least), by convolution."""
    found = np.ones(1)
    for _ in range(count):
        found = np.convolve(found, law(table))
    spread = np.zeros(2 * coarse.support * step + 1)
    spread[::step] = law(coarse)
    found = np.convolve(found, spread)
    middle = len(found) // 2
    return float(2 * found[middle + least :].sum())


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("chance", [1e-4, 1e-6, 1e-9])
def test_a_sum_is_beyond_the_bound_as_seldom_as_asked_and_no_wider_than_half_again(
    name: str, count: int, chance: float
) -> None:
    table = TABLES[name]
    bound = sum_bound([Drawn(table, 0.5, count), Drawn(table, 1.5, 1)], chance)
    least = int(np.floor(bound / 0.5)) + 1
    assert exact_tail(table, count, table, 3, least) <= chance
    assert exact_tail(table, count, table, 3, int(least / 1.5)) > chance


def test_no_bound_is_beyond_what_can_be_drawn() -> None:
    table = TABLES["gaussian"]
    assert sum_bound([Drawn(table, 1, 1)], 1e-300) <= table.support * (1 + 1e-8)
