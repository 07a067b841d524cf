"""Neighbour relations as shifts of cells, against a brute-force maximum over what two units can hold."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import Slot, composed_epsilon, table_law
from dp_spark.noise.families import Family, Gaussian, Laplace
from dp_spark.noise.freezing import freeze
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.losses import Repeated
from dp_spark.noise.neighbours import Moved, Part, epsilon_alone, worst_cases, worst_delta

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
    bound = worst_delta([noise], [Part(noise.sensitivity, cells, overlap=upper - lower)], EPSILON)
    assert bound == pytest.approx(truth, rel=1e-3, abs=0)


@pytest.mark.parametrize(("family", "cells"), [(Laplace(), 1), (Gaussian(), 2)], ids=["laplace", "gaussian"])
def test_replace_of_a_mean_covers_the_brute_force_maximum(family: Family, cells: int) -> None:
    """Two totals moved together: sum of x - (L + U) / 2 in -2..2 and the count of non-null values, linf 1."""
    tables = [table(family, 2), table(family, 1)]
    holdings = [(value, 1) for value in range(-2, 3)] + [(0, 0)]
    truth = replaced(holdings, cells, tables)
    parts = [Part(2, cells, overlap=4), Part(1, cells, overlap=1)]
    bound = worst_delta(tables, parts, EPSILON)
    assert truth * (1 - 1e-3) <= bound
    halved = worst_delta(tables, [Part(2, cells, overlap=2), Part(1, cells, overlap=1)], EPSILON)
    assert halved <= bound


@pytest.mark.parametrize("fault", [Part(2, 2, overlap=2), Part(2, 1, overlap=3), Part(1, 2, overlap=2)])
def test_a_shift_or_a_cell_too_few_is_below_the_brute_force_maximum(fault: Part) -> None:
    noise = table(Gaussian(), 2)
    truth = replaced([(value,) for value in range(-1, 3)], 2, [noise])
    assert worst_delta([noise], [fault], EPSILON) < truth * (1 - 1e-3)
    assert worst_delta([noise], [Part(2, 2, overlap=3)], EPSILON) >= truth * (1 - 1e-6)


def test_the_overlap_can_be_the_worst_case_and_can_be_harmless() -> None:
    noise = table(Gaussian(), 2)
    assert worst_cases([Part(2, 1, overlap=1)]) == (((Moved(2, 2),),),)
    assert worst_cases([Part(2, 1, overlap=4)]) == (((Moved(4, 1),),),)
    assert len(worst_cases([Part(2, 5, overlap=3)])) == 6
    wide_overlap = worst_delta([noise], [Part(2, 1, overlap=4)], EPSILON)
    assert wide_overlap > worst_delta([noise], [Part(2, 1, overlap=1)], EPSILON) * 1.5


def test_a_cell_that_does_not_move_costs_nothing() -> None:
    """ids in a cell that both units have; the sum beside it moves there."""
    parts = [Part(2, 2, overlap=4), Part(1, 2, overlap=0)]
    assert ((Moved(4, 2),), ()) in worst_cases(parts)


@pytest.mark.parametrize("overlap", [1, 2, 4])
def test_replace_costs_at_least_add_remove_and_at_most_twice_the_shift(overlap: int) -> None:
    noise = table(Laplace(), 2)
    once = worst_delta([noise], [Part(2, 3)], EPSILON)
    replaced_once = worst_delta([noise], [Part(2, 3, overlap=overlap)], EPSILON)
    sound = fft_delta([Repeated(table_law(noise, 4), 3)], EPSILON).upper
    assert once <= replaced_once <= sound * (1 + 1e-3)
    assert math.isfinite(replaced_once)


def test_blocks_of_kept_cells_cover_every_number_of_them() -> None:
    parts = [Part(4, 100, overlap=7)]
    blocks = [(moves[0].cells, moves[-1].cells // 2) for (moves,) in worst_cases(parts)[1:-1]]
    for kept in range(13, 88):
        assert any(most >= kept and alone >= 100 - kept for most, alone in blocks)


def test_epsilon_alone_is_that_of_the_worst_case() -> None:
    noise = table(Gaussian(), 2)
    cases = [[Slot(noise, 2, shift=3)], [Slot(noise, 1, shift=3), Slot(noise, 2)], [Slot(noise, 4)]]
    found = epsilon_alone(noise, Part(2, 2, overlap=3), 1e-3)
    assert found == max(composed_epsilon(slots, 1e-3) for slots in cases)


def test_units_may_have_other_cells_in_common_each_night() -> None:
    """Four nights of one cell: of the numbers of nights in common, 1 is worse than 0 and 4."""
    noise = table(Laplace(), 2)
    deltas = [
        delta_of({(0, 3): kept, (0, 2): 2 * (4 - kept)} if kept < 4 else {(0, 3): 4}, [noise])
        for kept in range(5)
    ]
    bound = worst_delta([noise], [Part(2, 1, overlap=3)], EPSILON, times=4)
    assert bound == pytest.approx(max(deltas), rel=1e-3, abs=0)
    assert len(worst_cases([Part(2, 1, overlap=3)], 4)) == 5


def test_the_same_cells_every_night_are_not_the_worst() -> None:
    noise = table(Laplace(), 2)
    mixed = fft_delta([Repeated(table_law(noise, 3), 1), Repeated(table_law(noise, 2), 6)], 2.0).upper
    constant = max(fft_delta([Repeated(table_law(noise, d), n)], 2.0).upper for d, n in ((2, 8), (3, 4)))
    assert mixed > 1.2 * constant
    assert worst_delta([noise], [Part(2, 1, overlap=3)], 2.0, times=4) >= mixed * (1 - 1e-6)
