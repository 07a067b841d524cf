"""The l1 lemma by brute force, exact sums of guarantees, and composed losses of frozen tables."""

import math
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import FAMILIES, Family, basic_sum, dominating_shift, freeze, wide
from dp_spark.noise.composition import (
    Slot,
    composed_delta,
    composed_epsilon,
    fft_composed_delta,
    freezing_slack,
    table_law,
)
from dp_spark.noise.families import Gaussian, Laplace
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.losses import LossLaw

GROWTHS = [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(5, 2), Fraction(6), Fraction(40)]


def vector_delta(weights: dict[int, int], shifts: tuple[int, ...], growth: Fraction) -> Fraction:
    """sum over all points of (product law - growth * shifted product law)+, without a formula."""
    gaps = (
        prod(weights[x] for x in point)
        - growth * prod(weights.get(x - shift, 0) for x, shift in zip(point, shifts, strict=True))
        for point in product(weights, repeat=len(shifts))
    )
    return sum((gap for gap in gaps if gap > 0), start=Fraction(0)) / 2 ** (128 * len(shifts))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize(("cells", "sensitivity", "support"), [(2, 1, 7), (2, 2, 6), (3, 1, 3)])
@pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1)])
def test_cells_are_dominated_by_one_coordinate(
    family: Family, cells: int, sensitivity: int, support: int, step: Fraction
) -> None:
    table = freeze(family, step, support, sensitivity=sensitivity, max_groups=cells)
    half = wide.to_ints(table.weights)
    weights = {n: int(half[abs(n)]) for n in range(-support, support + 1)}
    moves = range(-sensitivity, sensitivity + 1)
    for growth in GROWTHS:
        bound = vector_delta(weights, (dominating_shift(sensitivity, cells),), growth)
        slack = Fraction(cells + 1) * table.entries * (1 + growth) / 2**128
        for shifts in product(moves, repeat=cells):
            assert vector_delta(weights, shifts, growth) <= bound + slack


def test_ten_tenths_make_one() -> None:
    tenth = PrivacyGuarantee(Fraction("0.1"), Fraction("1e-7"))
    assert basic_sum([tenth] * 10) == PrivacyGuarantee(Fraction(1), Fraction("1e-6"))


def test_a_sum_is_the_inverse_of_equal_shares() -> None:
    whole = PrivacyGuarantee(Fraction(1, 3), Fraction(1, 7))
    assert basic_sum([whole.share(7)] * 7) == whole


@pytest.mark.parametrize("guarantees", [[], [PrivacyGuarantee(Fraction(1), Fraction(1, 2))] * 2])
def test_sums_that_guarantee_nothing_are_refused(guarantees: list[PrivacyGuarantee]) -> None:
    with pytest.raises(ValueError, match="must"):
        basic_sum(guarantees)


def night(family: Family) -> NoiseTable:
    """Least noise of (1, 1e-7) alone, at sensitivity 32; the cut costs less than 1e-13."""

    def excess(d: float) -> float:
        return norm.cdf(d / 2 - 1 / d) - math.e * norm.cdf(-d / 2 - 1 / d) - 1e-7

    d = 1 + 2e-7 if family == Laplace() else brentq(excess, 0.1, 1)
    support = 31 if family == Laplace() else 8
    scale = Fraction(32 / d)
    return freeze(family, 1 / scale, int(support * scale), sensitivity=32, max_groups=1)


@pytest.mark.parametrize(("family", "epsilon"), [(Gaussian(), 27.09), (Laplace(), 204.4)])
def test_a_year_of_nights_costs_what_the_design_says(family: Family, epsilon: float) -> None:
    year = [Slot(night(family), times=365)]
    found = composed_epsilon(year, 1e-6)
    assert found == pytest.approx(epsilon, rel=2e-3)
    bound, own = composed_delta(year, found), fft_composed_delta(year, found)
    assert own.lower <= bound * (1 + 1e-5)
    assert bound == pytest.approx(1e-6, rel=1e-3, abs=0)
    assert own.upper == pytest.approx(bound, rel=1e-4, abs=0)


@pytest.mark.parametrize("family", [Laplace(), Gaussian()], ids=lambda family: family.name)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_cells_cost_no_more_than_composed_and_composed_no_more_than_the_l1_lemma(
    family: Family, epsilon: float
) -> None:
    table = freeze(family, Fraction(1, 2), 12, sensitivity=1, max_groups=3)
    half = wide.to_ints(table.weights)
    weights = {n: int(half[abs(n)]) for n in range(-12, 13)}
    truth = float(vector_delta(weights, (1, 1, 1), Fraction(math.exp(epsilon))))
    bound = composed_delta([Slot(table, cells=3)], epsilon)
    assert truth <= bound <= truth * (1 + 1e-3) + 1e-14
    assert bound <= table.privacy_delta(epsilon) * (1 + 1e-3) + 1e-14


def test_slots_add_up_however_they_are_written() -> None:
    table = freeze(Gaussian(), Fraction(1, 9), 90, sensitivity=2, max_groups=1)
    whole = composed_delta([Slot(table, cells=4, times=3)], 3.0)
    parts = [Slot(table, cells=4), Slot(table, cells=2, times=4)]
    assert composed_delta(parts, 3.0) == pytest.approx(whole, rel=1e-9, abs=0)


def test_composed_epsilon_is_the_inverse_of_composed_delta() -> None:
    table = freeze(Laplace(), Fraction(1, 20), 700, sensitivity=3, max_groups=1)
    for delta in (1e-2, 1e-5, 1e-9):
        slots = [Slot(table, cells=5, times=2)]
        epsilon = composed_epsilon(slots, delta)
        assert composed_delta(slots, epsilon) == pytest.approx(delta, rel=2e-3, abs=0)


def test_an_adaptive_choice_after_looking_costs_more_than_each_branch() -> None:
    """The counter-example of the design: PLD composition is no filter."""
    first = freeze(Gaussian(), Fraction(1, 10), 150, sensitivity=1, max_groups=1)
    branches = [
        freeze(family, 1 / Fraction(scale), support, sensitivity=1, max_groups=1)
        for family, scale, support in (
            (Gaussian(), "4.665", 70),
            (Laplace(), "1.634", 60),
            (Laplace(), "5", 58),
        )
    ]
    for branch in branches:
        assert composed_delta([Slot(first), Slot(branch)], 1.0) <= 1.005e-6
    look, laws = table_law(first, 1), [table_law(branch, 1) for branch in branches]
    spent = look.losses[:, None]

    def left(law: LossLaw) -> NDArray[np.float64]:
        over = np.maximum(law.losses - (1.0 - spent), 0.0)
        return law.infinite - np.sum(law.masses * np.expm1(-over), axis=1)

    adaptive = look.infinite + float(np.sum(look.masses * np.max([left(law) for law in laws], axis=0)))
    assert adaptive > 2.5e-6


def test_the_slack_of_freezing_stays_small_at_a_large_epsilon() -> None:
    year = [Slot(night(Laplace()), times=365)]
    for epsilon in (1.0, 30.0, 60.0, 204.0):
        slack = freezing_slack(year, epsilon)
        assert slack.epsilon < 1e-9
        assert slack.delta < 1e-12


@pytest.mark.parametrize("change", [{"cells": 0}, {"times": 0}, {"shift": 0}])
def test_empty_slots_are_refused(change: dict[str, int]) -> None:
    table = freeze(Laplace(), Fraction(1), 9, sensitivity=1, max_groups=1)
    with pytest.raises(ValueError, match="slot"):
        Slot(table, **change)
