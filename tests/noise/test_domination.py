"""One cell's noise against another's at every epsilon, against exact profiles of integers."""

from fractions import Fraction
from itertools import product

import pytest

from dp_spark.noise import wide
from dp_spark.noise.domination import Cell, is_dominated
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic
from dp_spark.noise.freezing import freeze
from dp_spark.noise.lattice import NoiseTable

SCALES = ("1.5", "1.6", "2.5")
FAMILIES: list[Family] = [Laplace(), Gaussian(), Logistic()]


def table(family: Family, scale: str, support: int = 14, edge: Fraction = Fraction(1)) -> NoiseTable:
    return freeze(family, 1 / Fraction(scale), support, sensitivity=1, max_groups=1, edge=edge)


def pairs(cell: Cell, shift: int) -> list[tuple[int, int]]:
    half = wide.to_ints(cell.table.weights)
    support = cell.table.support
    weights = {n: int(half[abs(n)]) for n in range(-support, support + 1)}
    return [(weights[n], weights.get(n + shift, 0)) for n in weights]


def exact_delta(atoms: list[tuple[int, int]], growth: Fraction) -> Fraction:
    return sum((gap for p, q in atoms if (gap := p - growth * q) > 0), Fraction(0)) / 2**128


def dominated_exactly(cell: Cell, other: Cell) -> bool:
    """At every kink of both, below 1 and above, at every smaller shift, up to the slack of freezing."""
    theirs = pairs(other, other.shift)
    for shift in range(1, cell.shift + 1):
        mine = pairs(cell, shift)
        growths = {Fraction(p, q) for p, q in (*mine, *theirs) if q} | {Fraction(1), Fraction(10**60)}
        for growth in growths:
            if exact_delta(mine, growth) > exact_delta(theirs, growth) + (1 + growth) * Fraction(30, 2**128):
                return False
    return True


CELLS = [
    Cell(table(family, scale), shift) for (family, scale), shift in product(product(FAMILIES, SCALES), (1, 2))
]


@pytest.mark.parametrize(
    "cell", CELLS, ids=lambda cell: f"{cell.table.family}-{cell.table.step}-{cell.shift}"
)
def test_the_decision_is_that_of_exact_profiles_at_every_kink(cell: Cell) -> None:
    found = {index for index, other in enumerate(CELLS) if is_dominated(cell, other)}
    assert found == {index for index, other in enumerate(CELLS) if dominated_exactly(cell, other)}


def test_among_these_are_cells_of_either_kind() -> None:
    decided = [is_dominated(a, b) for a, b in product(CELLS, CELLS) if a is not b]
    assert 20 < sum(decided) < len(decided) - 20


def test_a_profile_below_at_the_promised_epsilon_may_be_above_elsewhere() -> None:
    """The fault that a look at one epsilon would make: Laplace and Gaussian noise cross."""
    laplace, gaussian = Cell(table(Laplace(), "2.5", 40), 1), Cell(table(Gaussian(), "1.6"), 1)
    growth = Fraction(3, 2)
    assert exact_delta(pairs(laplace, 1), growth) < exact_delta(pairs(gaussian, 1), growth)
    assert not is_dominated(gaussian, laplace)
    assert not is_dominated(laplace, gaussian) or dominated_exactly(laplace, gaussian)


def test_a_shorter_tail_is_caught_although_all_finite_losses_are_smaller() -> None:
    """More noise, but cut so near that what a neighbour can never draw is more probable."""
    short, long = Cell(table(Laplace(), "2.5", 6), 1), Cell(table(Laplace(), "1.6", 40), 1)
    assert not is_dominated(short, long)
    assert is_dominated(Cell(table(Laplace(), "2.5", 80), 1), long)


def test_the_same_table_covers_itself_and_smaller_shifts_only() -> None:
    noise = table(Gaussian(), "2.5")
    assert is_dominated(Cell(noise, 2), Cell(noise, 2))
    assert is_dominated(Cell(noise, 1), Cell(noise, 2))
    assert not is_dominated(Cell(noise, 2), Cell(noise, 1))


def test_large_tables_are_decided_in_a_moment() -> None:
    one = freeze(Gaussian(), Fraction(1, 20_000), 160_000, sensitivity=900, max_groups=1)
    more = freeze(Gaussian(), Fraction(1, 20_200), 165_000, sensitivity=900, max_groups=1)
    assert is_dominated(Cell(more, 900), Cell(one, 900))
    assert not is_dominated(Cell(one, 900), Cell(more, 900))
