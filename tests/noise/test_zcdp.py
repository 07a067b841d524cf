"""zCDP of tables against closed forms; l2 sensitivity by the exact maximum, where a formula is wrong."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from dp_spark.errors import PlanRefused
from dp_spark.noise import wide
from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import table_law
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic
from dp_spark.noise.freezing import freeze
from dp_spark.noise.losses import Repeated
from dp_spark.noise.zcdp import discrete_gaussian_rho, l2_delta, law_zcdp, maximal_shifts, table_zcdp


@pytest.mark.parametrize(("std", "shift"), [(Fraction(3, 2), 1), (Fraction(3, 2), 2), (Fraction(20), 7)])
def test_numeric_rho_of_the_discrete_gaussian_is_the_exact_one(std: Fraction, shift: int) -> None:
    table = freeze(Gaussian(), 1 / std, int(12 * std), sensitivity=shift, max_groups=1)
    exact = float(discrete_gaussian_rho(shift, std))
    assert exact * (1 - 1e-9) <= table_zcdp(table).rho <= exact * (1 + 1e-3)


@pytest.mark.parametrize("family", [Laplace(), Logistic(), Gaussian()], ids=lambda family: family.name)
@pytest.mark.parametrize("entries", [60, 12_000])
def test_rho_bounds_every_order_and_is_nearly_reached(family: Family, entries: int) -> None:
    law = table_law(freeze(family, Fraction(10, entries), entries, sensitivity=3, max_groups=1), 3)
    masses = law.masses / law.masses.sum()
    orders = np.geomspace(1e-4, 3e3, 500)
    reached = max(
        math.log(float(np.sum(masses * np.exp(t * law.losses)))) / (t * (t + 1))
        for t in orders
        if t * law.losses.max() < 600
    )
    assert reached * (1 - 1e-7) <= law_zcdp(law).rho <= reached * (1 + 2e-3)


def test_the_cut_of_a_table_goes_to_delta_and_rho_stays_finite() -> None:
    table = freeze(Laplace(), Fraction(1, 4), 20, sensitivity=2, max_groups=1)
    account = table_zcdp(table)
    outer = float(table.weights[-2:, 0].astype(float).sum()) / 2.0**64
    assert account.delta == pytest.approx(outer, rel=1e-9, abs=0)
    assert 0 < account.rho <= 0.5**2 / 2
    assert account.times(10).rho == 10 * account.rho


def test_weights_of_few_units_are_delta_and_do_not_count_in_rho() -> None:
    """Below 2^56 units a weight is not trusted; a small shift of them could lose more than the full one."""
    table = freeze(Gaussian(), Fraction(1, 20), 260, sensitivity=3, max_groups=1)
    half = wide.to_ints(table.weights)
    rare = 2 * sum(int(weight) for weight in half if weight < 2**56) / 2**128
    outer = sum([int(weight) for weight in half if weight >= 2**56][-3:]) / 2**128
    account = table_zcdp(table)
    assert account.delta == pytest.approx(outer + rare, rel=1e-9, abs=0)
    for shift in (1, 2):
        assert law_zcdp(table_law(table, shift)).rho < account.rho


def test_l2_on_the_lattice_is_above_the_formula_for_continuous_noise() -> None:
    """n = 4, sigma 1.5, epsilon 5.6: 5.65e-5 where Balle and Wang say 5.17e-5."""
    table = freeze(Gaussian(), Fraction(2, 3), 40, sensitivity=2, max_groups=1)
    mu = 2 / 1.5
    continuous = norm.cdf(mu / 2 - 5.6 / mu) - math.exp(5.6) * norm.cdf(-mu / 2 - 5.6 / mu)
    assert continuous == pytest.approx(5.17e-5, rel=2e-3, abs=0)
    assert l2_delta(table, 5.6, squared_sensitivity=4, cells=4) == pytest.approx(5.65e-5, rel=1e-3, abs=0)


@pytest.mark.parametrize(("squared", "cells"), [(4, 4), (7, 3), (14, 3)])
def test_maximal_shifts_are_worst_of_all_shifts(squared: int, cells: int) -> None:
    table = freeze(Gaussian(), Fraction(1, 2), 30, sensitivity=1, max_groups=1)
    worst = 0.0
    for shifts in product(range(math.isqrt(squared) + 1), repeat=cells):
        if 0 < sum(d * d for d in shifts) <= squared and list(shifts) == sorted(shifts):
            parts = [Repeated(table_law(table, d), 1) for d in shifts if d]
            worst = max(worst, fft_delta(parts, 2.5).upper)
    assert l2_delta(table, 2.5, squared_sensitivity=squared, cells=cells) == pytest.approx(
        worst, rel=1e-3, abs=0
    )


def test_maximal_shifts_of_a_small_case_are_listed() -> None:
    assert maximal_shifts(4, 4) == [(2,), (1, 1, 1, 1)]
    assert maximal_shifts(5, 2) == [(2, 1)]


def test_too_many_shifts_are_refused() -> None:
    with pytest.raises(PlanRefused, match="50000"):
        maximal_shifts(400, 40)
