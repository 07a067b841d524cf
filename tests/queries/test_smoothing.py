"""Consistent totals of several groupings, against the generic least squares of the noise room."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_spark.noise import consistent_sums
from dp_spark.queries import NoisyTotal, SmoothedTotal
from dp_spark.queries.smoothing import MOST_DENSE, smoothed

CELLS = [(a, b, c) for a in range(3) for b in range(2 + a) for c in range(1 + b)]
CHAIN = [(0, 1, 2), (0, 1), (0,), ()]
CROSS = [(0, 1, 2), (0,), (1,), (2, 0)]
STD = {(0, 1, 2): 3.0, (0, 1): 2.0, (0,): 5.0, (): 1.5, (1,): 0.7, (2, 0): 4.0}


def numbers(columns: tuple[int, ...]) -> NDArray[np.int64]:
    parts = [tuple(cell[i] for i in columns) for cell in CELLS]
    place = {part: i for i, part in enumerate(sorted(set(parts)))}
    return np.array([place[part] for part in parts])


def drawn(columns: tuple[int, ...], rng: np.random.Generator) -> NoisyTotal:
    steps = rng.integers(-50, 50, int(numbers(columns).max()) + 1)
    return NoisyTotal(steps, Fraction(1, 2), STD[columns], half_width=int(4.1 * STD[columns]))


def oracle(
    sets: list[tuple[int, ...]], levels: list[NoisyTotal]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and variances of all levels, one behind the other, from the formula for any constraints."""
    finest = numbers(sets[0])
    rows, places = [], np.cumsum([0, *(len(level.steps) for level in levels)])
    for level, columns in list(enumerate(sets))[1:]:
        of = numbers(columns)
        for group in range(int(of.max()) + 1):
            row = np.zeros(places[-1])
            row[finest[of == group]] = 1
            row[places[level] + group] = -1
            rows.append(row)
    variances = np.concatenate([np.full(len(level.steps), level.std**2) for level in levels])
    constraints = np.array(rows)
    spread = variances[:, None] * constraints.T
    left = variances - np.einsum("ij,ji->i", spread, np.linalg.solve(constraints @ spread, spread.T))
    return consistent_sums(
        np.concatenate([level.values for level in levels]), variances, constraints
    ).values, left


def of_all(found: list[SmoothedTotal], what: str) -> NDArray[np.float64]:
    return np.concatenate([getattr(each, what) for each in found])


@pytest.mark.parametrize(
    "sets", [CHAIN, CHAIN[:2], [CHAIN[0], CHAIN[2]], CROSS, [CHAIN[0], (), (0,)]], ids=repr
)
def test_estimates_and_stds_are_those_of_least_squares(sets: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(3)
    levels = [drawn(columns, rng) for columns in sets]
    found = smoothed(levels, [numbers(columns) for columns in sets])
    values, variances = oracle(sets, levels)
    np.testing.assert_allclose(of_all(found, "values"), values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(of_all(found, "std") ** 2, variances, rtol=1e-9)
    assert {each.factor for each in found} == {max(level.factor for level in levels)}


def test_the_other_way_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groupings that lie within each other, solved as one system."""
    rng = np.random.default_rng(4)
    levels = [drawn(columns, rng) for columns in CHAIN]
    maps = [numbers(columns) for columns in CHAIN]
    found = smoothed(levels, maps)
    monkeypatch.setattr("dp_spark.queries.smoothing._lies_within", lambda fine, coarse: False)
    again = smoothed(levels, maps)
    np.testing.assert_allclose(of_all(found, "values"), of_all(again, "values"), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(of_all(found, "std"), of_all(again, "std"), rtol=1e-9)


def test_many_groups_that_cross_are_left_as_they_were_drawn() -> None:
    side = int(MOST_DENSE**0.5) + 1
    row, column = np.divmod(np.arange(side * side), side)
    maps = [np.arange(side * side), row, column]
    levels = [NoisyTotal(np.arange(int(each.max()) + 1), Fraction(1), 2.0, 4) for each in maps]
    for level, found in zip(levels, smoothed(levels, maps), strict=True):
        assert np.array_equal(found.values, level.values)
        assert np.all(found.std == 2.0)


def test_a_million_groups_in_a_chain_take_no_matrix() -> None:
    of = [np.arange(10**6), np.arange(10**6) // 100, np.zeros(10**6, dtype=np.int64)]
    levels = [NoisyTotal(np.zeros(int(each.max()) + 1, dtype=np.int64), Fraction(1), 3.0, 6) for each in of]
    found = smoothed(levels, of)
    assert found[0].std[0] == pytest.approx(3 * (1 - 1 / 101 - 1 / (101 * 10**4 * 0.99)) ** 0.5, rel=1e-3)
