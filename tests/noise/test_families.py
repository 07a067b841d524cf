"""The contract that every family meets; a new one joins MEMBERS by one line."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.integrate import quad

from dp_spark.errors import PlanRefused
from dp_spark.noise.custom import Custom
from dp_spark.noise.families import (
    Family,
    Gaussian,
    HasTailBall,
    Laplace,
    Logistic,
    Subbotin,
    TruncatedLaplace,
)
from dp_spark.noise.hyperbolic import Hyperbolic
from dp_spark.noise.laws import cdf_ball, log_cdf, log_mass, log_sf, quantile
from dp_spark.noise.names import FAMILIES, family_named


def huber(x: np.ndarray) -> np.ndarray:
    """x^2 / 2 up to 1, straight beyond: a kink in the second derivative, bounded likelihood ratios."""
    return np.where(np.abs(x) <= 1, x * x / 2, np.abs(x) - 0.5)


def tent(x: np.ndarray) -> np.ndarray:
    """The density 1 - abs(x) on [-1, 1]."""
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(1 - np.abs(x), 0.0))


OWN = [Custom("huber", huber, slope=1.0), Custom("tent", tent), Custom("own_gaussian", lambda x: x * x / 2)]
MEMBERS: list[Family] = [
    *FAMILIES.values(),
    *map(Subbotin, (1, 1.18, Fraction(3, 2), 2, Fraction(10, 3), 7.5)),
    *map(TruncatedLaplace, (Fraction(1, 2), 3, 13.5, 100)),
    *map(Hyperbolic, (0.5, Fraction(5, 3), 40)),
    *OWN,
]
IN_BALLS = [family for family in MEMBERS if isinstance(family, HasTailBall)]

every_family = pytest.mark.parametrize("family", MEMBERS, ids=lambda family: family.name)


def reach(family: Family) -> float:
    """As far as the density is at least e^-60 of its peak, or the support."""
    far = 1.0
    while far < family.end and family.psi(np.array([far]))[0] - family.psi(np.zeros(1))[0] < 60:
        far *= 1.25
    return min(far, family.end)


def density(family: Family, x: float) -> float:
    return math.exp(family.log_density(np.array([x]))[0])


@every_family
def test_psi_is_even_convex_and_least_at_zero(family: Family) -> None:
    grid = np.linspace(0, reach(family) * (1 - 1e-9), 400)
    psi = family.psi(grid)
    np.testing.assert_array_equal(psi, family.psi(-grid))
    assert np.all(np.diff(psi, 2) >= -1e-12 * (1 + psi[1:-1]))
    assert psi.argmin() == 0


@every_family
def test_density_is_exp_of_minus_psi_and_has_mass_one(family: Family) -> None:
    grid = np.linspace(0, reach(family) * (1 - 1e-9), 50)
    np.testing.assert_allclose(np.ptp(family.log_density(grid) + family.psi(grid)), 0, atol=1e-12)
    half = quad(lambda x: density(family, x), 0, reach(family), epsabs=0, epsrel=1e-11, limit=400)[0]
    assert half == pytest.approx(0.5, rel=1e-9)


@every_family
@pytest.mark.parametrize(("start", "stop"), [(0.0, 0.1), (0.05, 0.3), (0.3, 0.5), (0.6, 0.9)])
def test_cdf_integrates_the_density(family: Family, start: float, stop: float) -> None:
    low, high = start * reach(family), stop * reach(family)
    peak = density(family, low)
    mass = peak * quad(lambda x: density(family, x) / peak, low, high, epsabs=0, epsrel=1e-11, limit=400)[0]
    assert log_mass(family, -high, -low) == pytest.approx(math.log(mass), abs=1e-9)
    assert log_mass(family, low, high) == log_mass(family, -high, -low)


@every_family
def test_an_interval_around_the_centre_is_the_rest_of_the_tails(family: Family) -> None:
    low, high = -0.02 * reach(family), 0.05 * reach(family)
    outside = math.exp(log_cdf(family, low)) + math.exp(log_cdf(family, -high))
    assert math.exp(log_mass(family, low, high)) == pytest.approx(1 - outside, rel=1e-9)


@every_family
def test_the_law_is_symmetric(family: Family) -> None:
    grid = np.linspace(-0.9, 0.9, 19) * min(reach(family), 12)
    np.testing.assert_allclose(np.exp(family.log_cdf(grid)) + np.exp(family.log_cdf(-grid)), 1, rtol=1e-12)
    np.testing.assert_allclose(log_sf(family, grid), family.log_cdf(-grid), rtol=0)
    assert log_cdf(family, 0.0) == pytest.approx(math.log(0.5), abs=1e-12)


@every_family
@pytest.mark.parametrize("shift", [0.01, 0.3, 2.0])
def test_likelihood_ratio_is_monotone_and_no_steeper_than_the_slope(family: Family, shift: float) -> None:
    inside = reach(family) * (1 - 1e-9)
    shift = min(shift, family.end)
    grid = np.linspace(shift - inside, inside, 400)
    loss = family.psi(grid - shift) - family.psi(grid)
    assert np.all(np.diff(loss) <= 1e-12 * (1 + family.psi(grid[1:])))
    assert np.all(np.abs(loss) <= family.slope * shift + 1e-10)


@every_family
def test_variance_is_that_of_the_density(family: Family) -> None:
    half = quad(lambda x: x * x * density(family, x), 0, reach(family), epsabs=0, epsrel=1e-11, limit=400)[0]
    assert family.variance == pytest.approx(2 * half, rel=1e-9)


@every_family
@pytest.mark.parametrize("q", [1e-30, 1e-9, 0.01, 0.4, 0.5])
def test_quantile_inverts_the_cdf(family: Family, q: float) -> None:
    x = quantile(family, q)
    assert log_cdf(family, x) == pytest.approx(math.log(q), abs=1e-9) or x == pytest.approx(-family.end)
    assert quantile(family, 1 - Fraction(q)) == -x


@every_family
def test_the_support_ends_where_it_says(family: Family) -> None:
    if family.end < math.inf:
        beyond = np.array([family.end * 1.000001, -family.end * 1.000001])
        assert np.all(family.psi(beyond) == np.inf)
        np.testing.assert_array_equal(np.exp(family.log_cdf(beyond)), [1, 0])
    else:
        assert np.all(np.isfinite(family.log_cdf(np.array([-40.0, 40.0]))))


@pytest.mark.parametrize("family", IN_BALLS, ids=lambda family: family.name)
@pytest.mark.parametrize("share", [1e-6, 0.01, 0.2, 0.5, 0.9])
def test_floats_agree_with_balls(family: Family, share: float) -> None:
    with ctx.workprec(256):
        for x in (share * reach(family), -share * reach(family)):
            ball = arb(x)
            psi = float(family.psi(np.array([x]))[0])
            assert float(family.psi(ball)) == pytest.approx(psi, rel=1e-13, abs=0)
            exact = float(cdf_ball(family, ball).log())
            assert log_cdf(family, x) == pytest.approx(exact, rel=1e-13, abs=1e-13 if x < 0 else 1e-300)


@pytest.mark.parametrize("family", IN_BALLS, ids=lambda family: family.name)
def test_balls_around_zero_hold_what_they_must(family: Family) -> None:
    wide = arb(0, 1e-3)
    assert family.psi(arb(0)) >= 0
    assert family.psi(arb(0)).is_finite()
    for x in (-1e-3, 0.0, 1e-3):
        assert family.psi(wide).contains(family.psi(arb(x)).mid())
        assert cdf_ball(family, wide).contains(cdf_ball(family, arb(x)).mid())


@pytest.mark.parametrize("p", [1, 1.18, 1.5, 2, 7.5])
@pytest.mark.parametrize("size", [499.0, 500.0, 501.0, 700.0, 5000.0])
def test_far_tails_keep_their_digits(p: float, size: float) -> None:
    """Around the switch to the series, and beyond the least positive float."""
    x = -(size ** (1 / p))
    with ctx.workprec(256):
        exact = float(cdf_ball(Subbotin(p), arb(x)).log())
    assert log_cdf(Subbotin(p), x) == pytest.approx(exact, rel=3e-15, abs=0)


@pytest.mark.parametrize("family", [f for f in MEMBERS if f not in OWN], ids=lambda family: family.name)
def test_families_are_found_by_their_own_name(family: Family) -> None:
    assert family_named(family.name) == family
    assert " " not in family.name


def test_names_are_canonical() -> None:
    assert dict(FAMILIES) == {"laplace": Laplace(), "logistic": Logistic(), "gaussian": Gaussian()}
    assert Subbotin(1.18) == Subbotin(Fraction("1.18")) == family_named("subbotin(1.180)")
    names = [
        Subbotin(Fraction(10, 3)),
        Subbotin(1.18),
        Subbotin(2.0),
        TruncatedLaplace(0.05),
        Hyperbolic(0.1),
    ]
    assert [f.name for f in names] == [
        "subbotin(10/3)", "subbotin(1.18)", "subbotin(2)", "truncated_laplace(0.05)", "hyperbolic(0.1)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "Laplace", "subbotin", "subbotin()", "subbotin(0.9)", "subbotin(65)", "subbotin(1/0)", "laplace(2)",
     "truncated_laplace(0)", "truncated_laplace(-1)", "hyperbolic(0)", "hyperbolic(1025)",
     "subbotin(1e1)", "subbotin(2) ", "cauchy"],
)  # fmt: skip
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        family_named(text)
    assert refused.value.way_out


@pytest.mark.parametrize("number", [math.nan, math.inf, 0.99])
def test_parameters_out_of_range_are_refused(number: float) -> None:
    with pytest.raises(PlanRefused):
        Subbotin(number)
    with pytest.raises(PlanRefused):
        TruncatedLaplace(-number)


@pytest.mark.parametrize(
    ("psi", "slope", "why"),
    [
        (lambda x: np.abs(x) + x / 10, math.inf, "even"),
        (lambda x: np.sqrt(np.abs(x)) * 40, math.inf, "convex"),
        (lambda x: 3 * np.log1p(x * x), math.inf, "grow"),
        (lambda x: np.abs(x) + 0.1 * np.cos(4 * x), math.inf, "convex"),
        (lambda x: -np.abs(x) * 0, math.inf, "grow"),
        (lambda x: np.abs(x) / 0.99, 1.0, "steeper"),
        (lambda x: x * x, 5.0, "steeper"),
        (lambda x: np.abs(x) * np.nan, math.inf, "finite"),
    ],
)
def test_an_own_psi_that_is_not_log_concave_is_refused(psi: object, slope: float, why: str) -> None:
    with pytest.raises(PlanRefused, match=why):
        Custom("wrong", psi, slope=slope)


@pytest.mark.parametrize("name", ["laplace", "Has Space", "", "a(b)", "9lives"])
def test_an_own_name_is_new_and_plain(name: str) -> None:
    with pytest.raises(PlanRefused, match="name"):
        Custom(name, huber)


def test_own_families_repeat_what_is_known() -> None:
    own, known = OWN[2], Gaussian()
    grid = np.array([-20.0, -3.0, -0.1, 0.0, 2.0])
    np.testing.assert_allclose(own.log_cdf(grid), known.log_cdf(grid), rtol=1e-11, atol=1e-12)
    assert OWN[1].end == pytest.approx(1, abs=1e-12)
    assert OWN[1].variance == pytest.approx(1 / 6, rel=1e-10)
