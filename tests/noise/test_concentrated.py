"""Conversions from zCDP and composition with a pair, against dp-accounting and closed forms."""

import math
from fractions import Fraction

import pytest
from scipy.stats import norm

from dp_spark.errors import PlanRefused
from dp_spark.noise.concentrated import largest_rho, zcdp_delta
from dp_spark.noise.pairs import beside_pair

CASES = [("0.01", "1"), ("0.5", "4"), ("0.0001", "0.1"), ("2", "3"), ("0.02", "1")]


@pytest.mark.parametrize(("rho", "epsilon"), CASES)
def test_zcdp_is_converted_as_the_formula_says_at_its_best_order(rho: str, epsilon: str) -> None:
    found = zcdp_delta(Fraction(rho), Fraction(epsilon))
    orders = [1 + math.exp(x / 200) for x in range(-2000, 2000)]
    best = min(
        (a - 1) * (a * float(rho) - float(epsilon)) - math.log(a - 1) + a * math.log1p(-1 / a) for a in orders
    )
    assert float(found) == pytest.approx(min(1.0, math.exp(best)), rel=1e-3, abs=0)


@pytest.mark.parametrize(("rho", "epsilon"), CASES)
def test_zcdp_is_above_gaussian_noise_of_that_rho(rho: str, epsilon: str) -> None:
    mu, e = math.sqrt(2 * float(rho)), float(epsilon)
    gaussian = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
    assert gaussian <= zcdp_delta(Fraction(rho), Fraction(epsilon)) <= max(10 * gaussian, 1e-300)


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_the_largest_rho_is_the_inverse(epsilon: str, delta: str) -> None:
    rho = largest_rho(Fraction(epsilon), Fraction(delta))
    assert zcdp_delta(rho, Fraction(epsilon)) <= Fraction(delta)
    assert zcdp_delta(rho * Fraction(1_000_001, 1_000_000), Fraction(epsilon)) > Fraction(delta) * (
        1 - Fraction(1, 10**5)
    )


def test_nothing_costs_nothing_and_no_delta_is_refused() -> None:
    assert zcdp_delta(Fraction(0), Fraction(1)) == 0
    with pytest.raises(PlanRefused, match="delta"):
        largest_rho(Fraction(1), Fraction(0))


def gaussian_profile(mu: float):  # type: ignore[no-untyped-def]
    return lambda epsilon: Fraction(
        norm.cdf(mu / 2 - float(epsilon) / mu)
        - math.exp(float(epsilon)) * norm.cdf(-mu / 2 - float(epsilon) / mu)
    )


@pytest.mark.parametrize("pair", [("0.5", "1e-3"), ("2", "0"), ("0.1", "0.05")])
@pytest.mark.parametrize("epsilon", ["0.3", "1", "3"])
def test_a_profile_beside_a_pair_is_what_dp_accounting_composes(pair: tuple[str, str], epsilon: str) -> None:
    """Also where the pair alone has more epsilon than is asked: the profile at a negative one counts."""
    from dp_accounting.pld import common, privacy_loss_distribution

    lost, rare = map(Fraction, pair)
    known = privacy_loss_distribution.from_gaussian_mechanism(1.25, value_discretization_interval=1e-4)
    other = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(float(lost), float(rare)), value_discretization_interval=1e-4
    )
    theirs = known.compose(other).get_delta_for_epsilon(float(epsilon))
    ours = beside_pair(gaussian_profile(0.8), (lost, rare), Fraction(epsilon))
    assert float(ours) == pytest.approx(theirs, rel=1e-3, abs=0)


def test_nothing_beside_a_pair_is_the_pair() -> None:
    pair = Fraction(1, 3), Fraction(1, 10**7)
    assert beside_pair(lambda epsilon: Fraction(0), pair, pair[0]) == pair[1]
    less = beside_pair(lambda epsilon: Fraction(0), pair, Fraction(1, 4))
    assert pair[1] < less < 1
    assert float(less) == pytest.approx(
        1e-7 + (1 - 1e-7) * (math.exp(1 / 3) - math.exp(1 / 4)) / (1 + math.exp(1 / 3)), rel=1e-9
    )


def test_a_pair_that_is_left_out_would_be_missed() -> None:
    profile, pair = gaussian_profile(0.8), (Fraction(1, 2), Fraction(1, 10**6))
    assert beside_pair(profile, pair, Fraction(1)) > 1.5 * (profile(Fraction(1)) + pair[1])
