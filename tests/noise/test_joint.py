"""Joint calibration and the choice of family: certified, tight, and what the design's table says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.integrate import quad

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.composition import Slot, composed_delta, google_composed_delta
from dp_spark.noise.families import Family, Gaussian, Laplace, Subbotin
from dp_spark.noise.freezing import freeze
from dp_spark.noise.hyperbolic import Hyperbolic
from dp_spark.noise.joint import (
    Part,
    calibrate_jointly,
    expected_std,
    least_variance_jointly,
)
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.neighbours import case_slots, worst_cases, worst_delta
from dp_spark.noise.one_scale import searched
from dp_spark.noise.request import Shape, checked

WANTED = PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))
PURE = PrivacyGuarantee(Fraction(1), Fraction(0))
LOUD = PrivacyGuarantee(Fraction(89), Fraction(1, 9))
FIVE = [Part(64, 3), Part(50, 3), Part(7, 3), Part(32, 3, weight=2.0), Part(1, 3)]


def spent(tables: tuple[NoiseTable, ...], parts: list[Part], epsilon: Fraction, horizon: int = 1) -> float:
    slots = [Slot(table, part.cells, horizon) for table, part in zip(tables, parts, strict=True)]
    return composed_delta(slots, epsilon)


TABLE = [
    (1, {"1": 2.0, "5/4": 4.03, "3/2": 7.26, "7/4": 11.8, "2": 17.85}),
    (4, {"1": 32.0, "5/4": 38.5, "3/2": 47.9, "7/4": 58.8, "2": 71.39}),
    (8, {"1": 127.9, "13/10": 117.2, "3/2": 120.1, "7/4": 129.0, "2": 142.78}),
    (12, {"1": 285.7, "13/10": 209.6, "3/2": 198.1, "8/5": 197.7, "2": 214.18}),
    (16, {"1": 460.4, "5/4": 312.1, "3/2": 276.5, "7/4": 273.5, "2": 285.57}),
    (32, {"1": 1024, "5/4": 690, "3/2": 589.7, "7/4": 563.9, "2": 571.13}),
]


@pytest.mark.parametrize(
    ("cells", "p", "variance"), [(l0, p, v) for l0, row in TABLE for p, v in row.items()]
)
def test_variance_per_cell_is_that_of_the_design_within_a_percent(
    cells: int, p: str, variance: float
) -> None:
    family: Family = Gaussian() if p == "2" else Laplace() if p == "1" else Subbotin(Fraction(p))
    found = searched(Shape(family), checked([Part(1000, cells)], WANTED, 1))
    assert found.variance == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize(
    ("cells", "best"), [(1, 2.0), (4, 32.0), (8, 117.2), (12, 197.7), (16, 273.5), (32, 563.9)]
)
def test_the_choice_is_never_above_the_best_of_the_design(cells: int, best: float) -> None:
    part = Part(20, cells)
    choice = least_variance_jointly([part], WANTED)
    assert choice.tables[0].variance / 20**2 <= best * 1.002
    assert choice.ratio >= 1
    assert choice.runner_up != choice.family
    delta = spent(choice.tables, [part], WANTED.epsilon)
    assert 1e-6 * (1 - 1e-3) <= delta <= 1e-6


@pytest.mark.parametrize("cells", [8, 12, 16, 32])
def test_the_choice_beats_laplace_and_gaussian_where_the_design_says_so(cells: int) -> None:
    part = Part(8, cells)
    laplace, gaussian = (calibrate_jointly(f, [part], WANTED)[0].variance for f in (Laplace(), Gaussian()))
    assert least_variance_jointly([part], WANTED).tables[0].variance < 0.99 * min(laplace, gaussian)


KINDS = (Laplace(), Gaussian(), Subbotin(1.5), Hyperbolic(4))


@pytest.mark.parametrize(
    ("family", "epsilon", "delta", "horizon"),
    [
        *((family, "1", "1e-6", 1) for family in KINDS),
        (Laplace(), "0.3", "1e-9", 1),
        (Gaussian(), "4", "1e-5", 30),
        (Hyperbolic(4), "4", "1e-5", 30),
    ],
)
def test_five_totals_meet_the_guarantee_within_a_thousandth(
    family: Family, epsilon: str, delta: str, horizon: int
) -> None:
    guarantee = PrivacyGuarantee(Fraction(epsilon), Fraction(delta))
    tables = calibrate_jointly(family, FIVE, guarantee, horizon=horizon)
    got = spent(tables, FIVE, guarantee.epsilon, horizon)
    assert float(delta) * (1 - 1e-3) <= got <= float(delta)
    scales = [
        float(1 / table.step) * part.weight / part.sensitivity
        for table, part in zip(tables, FIVE, strict=True)
    ]
    assert scales == pytest.approx([scales[0]] * 5, rel=1e-9)


def test_one_lambda_is_better_than_equal_shares() -> None:
    joint = least_variance_jointly(FIVE, WANTED)
    shared = [least_variance_jointly([part], WANTED.share(5)).tables[0] for part in FIVE]
    ratios = [alone.variance / table.variance for alone, table in zip(shared, joint.tables, strict=True)]
    assert min(ratios) > 1.15


def test_over_a_year_gaussian_noise_wins_and_is_not_below_the_theory() -> None:
    """365 nights of 15 cells: Gaussian differential privacy gives the variance in closed form."""
    parts = [Part(1, 3), Part(2, 3), Part(1, 3), Part(3, 3), Part(2, 3)]
    choice = least_variance_jointly(parts, WANTED, horizon=365)
    assert choice.family == "gaussian"
    assert choice.tables[0].variance == pytest.approx(17.8479 * 15 * 365, rel=1e-3)
    assert 1e-6 * (1 - 1e-3) <= spent(choice.tables, parts, WANTED.epsilon, 365) <= 1e-6


MEAN = [Part(40, 3, overlap=80), Part(4, 3, overlap=4)]


@pytest.mark.parametrize(
    "parts",
    [
        [Part(4, 3, overlap=3), Part(1, 3, overlap=0)],
        [Part(50, 3, overlap=100)],
        MEAN,
        [*MEAN, Part(60, 3, overlap=75), Part(11, 1)],
        [Part(30, 40, overlap=45), Part(2, 40, overlap=1)],
    ],
    ids=["one-signed", "two-signed", "mean", "with cells of its own", "many cells"],
)
def test_replacing_a_unit_meets_the_guarantee_in_every_case_and_wastes_little(parts: list[Part]) -> None:
    """For all numbers of kept cells, by the other accountant too, and tight in the worst of them."""
    tables = least_variance_jointly(parts, WANTED).tables
    worst = worst_delta(tables, parts, WANTED.epsilon)
    cases = [case_slots(case, tables) for case in worst_cases(parts)]
    theirs = max(google_composed_delta(case, WANTED.epsilon).lower for case in cases)
    assert 1e-6 * (1 - 2e-3) <= worst <= 1e-6
    assert theirs <= 1e-6


def test_noise_for_neighbours_that_come_or_go_does_not_do_where_units_are_replaced() -> None:
    tables = least_variance_jointly([Part(part.sensitivity, 3) for part in MEAN], WANTED).tables
    assert worst_delta(tables, MEAN, WANTED.epsilon) > 1e-4


def test_a_large_delta_is_better_spent_on_a_cut() -> None:
    """At (1, 0.01) truncated Laplace noise has variance 1.66 in the continuum, Laplace 1.92."""
    choice = least_variance_jointly([Part(200, 1)], PrivacyGuarantee(Fraction(1), Fraction(1, 100)))
    assert choice.family.startswith("truncated laplace")
    assert choice.tables[0].variance / 200**2 == pytest.approx(1.664, rel=0.01)


@pytest.mark.parametrize(("cells", "totals", "horizon"), [(12, 1, 1), (3, 5, 100)])
def test_the_expected_std_is_good_to_a_factor_of_two(cells: int, totals: int, horizon: int) -> None:
    parts = [Part(2, cells)] * totals
    std = least_variance_jointly(parts, WANTED, horizon=horizon).tables[0].std / 2
    assert 0.5 < std / expected_std(parts, WANTED, horizon=horizon) < 2


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (lambda: Part(0, 1), "sensitivity_range"),
        (lambda: Part(1, True), "cells_range"),
        (lambda: Part(1, 1, weight=0.0), "weight_range"),
        (lambda: Part(2, 1, overlap=5), "overlap_range"),
        (lambda: Part(2, 1, overlap=-1), "overlap_range"),
        (
            lambda: least_variance_jointly([Part(2, 1, overlap=1), Part(2, 3, overlap=1)], WANTED),
            "cells_differ",
        ),
        (lambda: least_variance_jointly([], WANTED), "parts_missing"),
        (lambda: least_variance_jointly([Part(1, 1)], WANTED, horizon=0), "horizon_range"),
        (
            lambda: least_variance_jointly([Part(1, 1)], PrivacyGuarantee(Fraction(1), Fraction(0))),
            "delta_range",
        ),
        (
            lambda: least_variance_jointly([Part(1, 1)], PrivacyGuarantee(Fraction(89), Fraction(1, 9))),
            "epsilon_range",
        ),
        (lambda: least_variance_jointly([Part(10**7, 3)], WANTED), "noise_table_size"),
    ],
)
def test_what_cannot_be_planned_is_refused(refused: object, code: str) -> None:
    with pytest.raises(PlanRefused) as refusal:
        refused()
    assert refusal.value.code == code
    assert refusal.value.way_out


@pytest.mark.parametrize("bend", [Fraction(1, 2), Fraction(5), Fraction(40)])
def test_hyperbolic_noise_is_a_family(bend: Fraction) -> None:
    family = Hyperbolic(bend)

    def density(x: float) -> float:
        return math.exp(family.log_density(np.array([x]))[0])

    end = 60 + 8 * math.sqrt(float(bend))
    assert 2 * quad(density, 0, end, epsabs=0, epsrel=1e-10, limit=200)[0] == pytest.approx(1, rel=1e-8)
    assert 2 * quad(lambda x: x * x * density(x), 0, end, limit=200)[0] == pytest.approx(
        family.variance, rel=1e-7
    )
    for x in (0.0, 0.7, 3.0, 20.0):
        tail = quad(density, x, x + end, epsabs=0, epsrel=1e-10, limit=200)[0]
        assert family.log_cdf(np.array([-x]))[0] == pytest.approx(math.log(tail), abs=1e-8)
        assert math.exp(family.log_cdf(np.array([x]))[0]) == pytest.approx(1 - tail, rel=1e-8)
        assert arb(family.psi(np.array([x]))[0]).overlaps(family.psi(arb(x)) + arb(0, 1e-12))
    grid = family.psi(np.linspace(-30, 30, 601))
    assert (np.diff(grid, 2) > 0).all()
    assert np.abs(np.diff(grid)).max() < 0.1 * family.slope
    assert freeze(family, Fraction(1, 8), 200, sensitivity=1, max_groups=1).family == family.name


@pytest.mark.parametrize("bend", [Fraction(0), Fraction(-1), Fraction(2000)])
def test_a_bend_out_of_range_is_refused(bend: Fraction) -> None:
    with pytest.raises(PlanRefused, match="bend"):
        Hyperbolic(bend)
