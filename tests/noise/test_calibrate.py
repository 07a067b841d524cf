"""Calibration: never above delta, least in scale, and equal to what theory says."""

import math
import time
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dp_spark.errors import PlanRefused
from dp_spark.noise import (
    FAMILIES,
    Family,
    Gaussian,
    Laplace,
    Mass,
    calibrate_lattice,
    certified_delta,
    freeze,
    least_variance_noise,
)
from dp_spark.noise.calibrate import _certified
from dp_spark.noise.demand import checked_demand
from dp_spark.noise.families import Subbotin, TruncatedLaplace
from dp_spark.noise.scales import search

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
every_demand = pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "max_groups"),
    [
        (1.0, 1e-6, 1, 1),
        (Fraction(1, 2), Fraction(1, 100), 1, 1),
        (0.1, 1e-3, 1, 1),
        (Fraction("0.3"), Fraction("1e-9"), 3, 4),
        (4.0, 1e-6, 1, 1),
        (8.0, 1e-5, 10, 1),
        (30.0, 1e-6, 1, 1),
        (0.01, 0.2, 5, 2),
        (2.0, 0.9, 3, 1),
        (1e-9, 0.1, 1, 1),
        (1.0, 1e-20, 7, 1),
    ],
)


CALIBRATED = [*FAMILIES.values(), Subbotin(1.5), TruncatedLaplace(60)]


@pytest.mark.parametrize("family", CALIBRATED, ids=lambda family: family.name)
@pytest.mark.parametrize("mass", Mass)
@every_demand
def test_delta_is_met_within_a_millionth_and_a_smaller_scale_fails(
    family: Family, mass: Mass, epsilon: float, delta: float, sensitivity: int, max_groups: int
) -> None:
    shift = sensitivity * max_groups
    table = calibrate_lattice(family, epsilon, delta, shift, 1, mass=mass)
    assert (table.family, table.sensitivity, table.max_groups) == (family.name, shift, 1)
    assert (1 - 1e-6) * delta <= table.privacy_delta(epsilon) <= delta
    shorter = freeze(
        family,
        table.step * (1 + Fraction(1, 10**5)),
        table.support,
        mass=mass,
        edge=table.edge,
        sensitivity=shift,
        max_groups=1,
    )
    assert shorter.privacy_delta(epsilon) > table.privacy_delta(epsilon) or family.name[0] == "t"


@every_family
@pytest.mark.parametrize(("sensitivity", "cells"), [(1, 4), (3, 8), (1, 16)])
def test_several_cells_are_tight_by_the_certificate_that_is_used(
    family: Family, sensitivity: int, cells: int
) -> None:
    """By the composed loss within 1e-3, or by the l1 lemma within 1e-6; never above delta."""
    table = calibrate_lattice(family, 1, 1e-6, sensitivity, cells)
    lemma, certified = table.privacy_delta(1), certified_delta(table, 1)
    assert certified <= 1e-6
    assert certified >= 0.999e-6 or 0.999999e-6 <= lemma <= 1e-6
    assert table.std <= calibrate_lattice(family, 1, 1e-6, sensitivity * cells, 1).std * (1 + 1e-6)


@pytest.mark.parametrize(("family", "variance"), [(Laplace(), 460.4), (Gaussian(), 285.57)])
def test_sixteen_cells_cost_what_the_design_says(family: Family, variance: float) -> None:
    assert calibrate_lattice(family, 1, 1e-6, 20, 16).variance / 400 == pytest.approx(variance, rel=0.002)


@pytest.mark.parametrize(("mass", "variance"), [(Mass.POINT, 0.038), (Mass.CELL, 0.143)])
def test_rounded_laplace_costs_more_than_discrete_laplace(mass: Mass, variance: float) -> None:
    assert calibrate_lattice(Laplace(), 4.0, 1e-6, 1, 1, mass=mass).variance == pytest.approx(
        variance, rel=0.01
    )


def test_the_cut_of_geng_spends_all_of_delta_on_the_cut() -> None:
    """Truncated Laplace at scale 1 / epsilon, on a fine lattice: the variance of the design's table."""
    epsilon, delta = 0.05, 1e-3
    family = TruncatedLaplace(math.log(1 + math.expm1(epsilon) / (2 * delta)))
    assert calibrate_lattice(family, epsilon, delta, 100, 1).variance / 1e4 == pytest.approx(
        529.4751, rel=1e-3
    )


@pytest.mark.parametrize(
    ("family", "epsilon", "delta", "variance"),
    [
        (Laplace(), 1.0, 1e-6, 1.84124),
        (Gaussian(), 1.0, 1e-6, 17.8),
        (Laplace(), 0.5, 0.01, 7.34),
        (Gaussian(), 0.5, 0.01, 9.98),
        (Laplace(), 0.1, 1e-3, 192.4),
        (Gaussian(), 0.1, 1e-3, 302.9),
    ],
)
def test_variances_are_those_of_the_design(
    family: Family, epsilon: float, delta: float, variance: float
) -> None:
    assert calibrate_lattice(family, epsilon, delta, 1, 1).variance == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.2, 0.01), (3.0, 1e-2)])
def test_laplace_scale_solves_the_closed_form_of_one_step(epsilon: float, delta: float) -> None:
    """Without a cut, delta = (1 - e^(epsilon - h)) / (1 + e^-h) at sensitivity 1."""
    root = brentq(lambda h: -math.expm1(epsilon - h) / (1 + math.exp(-h)) - delta, epsilon, epsilon + 5)
    assert float(calibrate_lattice(Laplace(), epsilon, delta, 1, 1).step) == pytest.approx(root, rel=2e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 2e-7), (1.0, 1e-6), (4.0, 1e-5)])
def test_gaussian_on_a_fine_lattice_is_the_analytic_gaussian(epsilon: float, delta: float) -> None:
    """Balle and Wang 2018, at 256 steps: the lattice and the cut cost less than 1e-3 together."""

    def excess(d: float) -> float:
        return norm.cdf(d / 2 - epsilon / d) - math.exp(epsilon) * norm.cdf(-d / 2 - epsilon / d) - delta

    table = calibrate_lattice(Gaussian(), epsilon, delta, 256, 1)
    assert table.std == pytest.approx(256 / brentq(excess, 1e-3, 20), rel=1e-3)


@every_family
def test_a_search_that_came_out_too_low_is_corrected_by_the_certificate(family: Family) -> None:
    demand = checked_demand(0.7, 1e-4, 6, 1)
    found = search(family, demand)
    short = replace(found, scale=found.scale * (1 - 1e-6))
    table = _certified(short, demand)
    assert 0.999999e-4 <= table.privacy_delta(0.7) <= 1e-4
    assert 1 / table.step == pytest.approx(found.scale, rel=1e-5)


def test_more_budget_never_needs_more_noise() -> None:
    variances = [least_variance_noise(epsilon, 1e-6, 4, 2).variance for epsilon in (0.3, 1, 3)]
    assert variances == sorted(variances, reverse=True)


@pytest.mark.parametrize(
    ("epsilon", "delta", "family"), [(1.0, 1e-6, "laplace"), (0.5, 0.05, "gaussian"), (0.05, 1e-3, "laplace")]
)
def test_least_variance_is_the_lower_of_the_families(epsilon: float, delta: float, family: str) -> None:
    best = least_variance_noise(epsilon, delta, 2, 1)
    assert best.family == family
    assert best.variance == min(
        calibrate_lattice(f, epsilon, delta, 2, 1).variance for f in FAMILIES.values()
    )


def test_decimals_and_fractions_give_the_same_digest_where_they_are_equal() -> None:
    assert calibrate_lattice(Laplace(), 0.5, 2.0**-20, 3, 1) == calibrate_lattice(
        Laplace(), Fraction(1, 2), Fraction(1, 2**20), 3, 1
    )


@pytest.mark.parametrize(
    ("family", "sensitivity", "cells", "seconds"),
    [*((family, 512, 1, 1.5) for family in FAMILIES.values()), (FAMILIES["logistic"], 256, 2, 6)],
)
def test_a_large_scale_is_calibrated_quickly(
    family: Family, sensitivity: int, cells: int, seconds: float
) -> None:
    started = time.process_time()
    table = calibrate_lattice(family, 0.2, 2e-7, sensitivity, cells)
    assert time.process_time() - started < seconds
    assert certified_delta(table, 0.2) <= 2e-7


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epsilon": 0}, "epsilon_range"),
        ({"epsilon": -1.0}, "epsilon_range"),
        ({"epsilon": math.nan}, "epsilon_range"),
        ({"epsilon": math.inf}, "epsilon_range"),
        ({"delta": 0}, "delta_range"),
        ({"delta": -1e-6}, "delta_range"),
        ({"delta": 1.0}, "delta_range"),
        ({"delta": 1 - Fraction(1, 10**30)}, "delta_range"),
        ({"delta": math.nan}, "delta_range"),
        ({"sensitivity": 0}, "sensitivity_range"),
        ({"sensitivity": 1.5}, "sensitivity_range"),
        ({"sensitivity": True}, "sensitivity_range"),
        ({"max_groups": 0}, "max_groups_range"),
        ({"max_groups": 2.0}, "max_groups_range"),
        ({"epsilon": 0.001, "sensitivity": 10**6}, "noise_table_size"),
        ({"epsilon": 1e-12, "delta": 1e-12}, "noise_table_size"),
        ({"epsilon": 80.0, "delta": 1e-20}, "noise_resolution"),
    ],
)
@pytest.mark.parametrize(
    "calibrate", [least_variance_noise, lambda **demand: calibrate_lattice(Laplace(), **demand)]
)
def test_what_cannot_be_met_is_refused(calibrate: object, change: dict[str, object], code: str) -> None:
    demand = {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1, "max_groups": 1, **change}
    with pytest.raises(PlanRefused) as refused:
        calibrate(**demand)
    assert refused.value.code == code
    assert refused.value.way_out


def test_refusal_of_pure_epsilon_says_what_to_do() -> None:
    with pytest.raises(PlanRefused, match=r"delta = 0 .*pure epsilon.*\n.*pure_epsilon_table"):
        least_variance_noise(1.0, 0, 1, 1)
