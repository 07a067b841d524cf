"""Neighbour relations as shifts of cells, against a brute-force maximum over what two units can hold."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import Slot, table_law
from dp_spark.noise.families import Family, Gaussian, Laplace
from dp_spark.noise.freezing import freeze
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.losses import Repeated
from dp_spark.noise.neighbours import Moves, add_remove_delta, replace_cases, replace_delta

EPSILON = 1.5


def table(family: Family, sensitivity: int) -> NoiseTable:
    return freeze(family, Fraction(1, 6), 60, sensitivity=sensitivity, max_groups=1)


def delta_of(shifts: dict[tuple[int, int], int], tables: list[NoiseTable]) -> float:
    """delta of shifts {(table, abs shift): cells}."""
    parts = [Repeated(table_law(tables[t], d), cells) for (t, d), cells in shifts.items() if d]
    return fft_delta(parts, EPSILON).upper if parts else 0.0


def replaced(holdings: list[tuple[int, ...]], cells: int, tables: list[NoiseTable]) -> float:
    """The largest delta over all pairs of units, each with at most `cells` of 2 cells + cells cells.

    A unit holds in each of its cells one of `holdings`, a value for each table; none elsewhere.
    """
    moves = set()
    for kept in range(cells + 1):
        both = sorted(
            {tuple(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in product(holdings, holdings)}
        )
        alone = sorted({tuple(abs(a) for a in x) for x in holdings})
        for one in combinations_with_replacement(both, kept):
            for other in combinations_with_replacement(alone, 2 * (cells - kept)):
                counts: dict[tuple[int, int], int] = {}
                for shift in one + other:
                    for index, d in enumerate(shift):
                        counts[index, d] = counts.get((index, d), 0) + 1
                moves.add(tuple(sorted(counts.items())))
    return max(delta_of(dict(move), tables) for move in moves)


@pytest.mark.parametrize(
    ("family", "cells"),
    [(Laplace(), 1), (Gaussian(), 1), (Gaussian(), 2)],
    ids=["laplace1", "gaussian1", "gaussian2"],
)
@pytest.mark.parametrize(
    ("lower", "upper"), [(-1, 2), (0, 2), (1, 2), (-2, 2)], ids=["mixed", "positive", "narrow", "symmetric"]
)
def test_replace_of_a_sum_is_the_brute_force_maximum(
    family: Family, cells: int, lower: int, upper: int
) -> None:
    """One row a cell, clamped: D = max(abs L, abs U) and D_overlap = U - L."""
    noise = table(family, max(abs(lower), abs(upper)))
    truth = replaced([(value,) for value in range(lower, upper + 1)], cells, [noise])
    bound = replace_delta([Moves(noise, upper - lower)], cells, EPSILON)
    assert bound == pytest.approx(truth, rel=1e-3, abs=0)


@pytest.mark.parametrize(("family", "cells"), [(Laplace(), 1), (Gaussian(), 2)], ids=["laplace", "gaussian"])
def test_replace_of_a_mean_covers_the_brute_force_maximum(family: Family, cells: int) -> None:
    """Two totals moved together: sum of x - (L + U) / 2 in -2..2 and the count of non-null values, linf 1."""
    tables = [table(family, 2), table(family, 1)]
    holdings = [(value, 1) for value in range(-2, 3)] + [(0, 0)]
    truth = replaced(holdings, cells, tables)
    bound = replace_delta([Moves(tables[0], 4), Moves(tables[1], 1)], cells, EPSILON)
    assert truth * (1 - 1e-3) <= bound
    halved = replace_delta([Moves(tables[0], 2), Moves(tables[1], 1)], cells, EPSILON)
    assert halved <= bound


def test_the_overlap_can_be_the_worst_case_and_can_be_harmless() -> None:
    noise = table(Gaussian(), 2)
    apart = next(replace_cases([Moves(noise, 4)], 1))
    assert apart == [Slot(noise, 2)]
    wide_overlap = replace_delta([Moves(noise, 4)], 1, EPSILON)
    assert wide_overlap > replace_delta([Moves(noise, 1)], 1, EPSILON) * 1.5


@pytest.mark.parametrize("overlap", [1, 2, 4])
def test_replace_costs_at_least_add_remove_and_at_most_twice_the_shift(overlap: int) -> None:
    noise = table(Laplace(), 2)
    once = add_remove_delta([Moves(noise, overlap)], 3, EPSILON)
    replaced_once = replace_delta([Moves(noise, overlap)], 3, EPSILON)
    sound = fft_delta([Repeated(table_law(noise, 4), 3)], EPSILON).upper
    assert once <= replaced_once <= sound * (1 + 1e-3)
    assert math.isfinite(replaced_once)
