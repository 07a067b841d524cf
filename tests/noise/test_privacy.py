"""The one-coordinate theorem: closed forms, the generic route, balls and brute force say the same."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from dp_spark.errors import PlanRefused
from dp_spark.noise.custom import Custom
from dp_spark.noise.families import (
    Family,
    Gaussian,
    Laplace,
    Logistic,
    Subbotin,
    TruncatedLaplace,
)
from dp_spark.noise.laws import cdf_ball
from dp_spark.noise.names import FAMILIES, family_named
from dp_spark.noise.privacy import (
    generic_log_delta,
    largest_shift,
    least_scale,
    log_privacy_delta,
    privacy_delta,
    privacy_epsilon,
    searched_shift,
)

EPSILONS = [1e-3, 0.03, 0.5, 1.0, 4.0, 20.0]
DELTAS = [1e-15, 1e-12, 1e-6, 1e-3, 0.1]
SUBBOTIN = list(map(Subbotin, (1, 1.05, 1.18, 1.5, 2, 3, 7.5)))
HUBER = Custom("huber", lambda x: np.where(np.abs(x) <= 1, x * x / 2, np.abs(x) - 0.5), slope=1.0)


def tent(x: np.ndarray) -> np.ndarray:
    """The density 1 - abs(x) on [-1, 1]."""
    with np.errstate(divide="ignore"):
        return -np.log(np.maximum(1 - np.abs(x), 0.0))


every_demand = pytest.mark.parametrize(
    ("epsilon", "delta"), [(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS]
)


def optimal_cut(epsilon: float, delta: float) -> TruncatedLaplace:
    """The truncated Laplace of which the cut alone spends delta, at scale sensitivity / epsilon."""
    return TruncatedLaplace(math.log1p(math.expm1(epsilon) / (2 * delta)))


def families(epsilon: float, delta: float) -> list[Family]:
    return [*FAMILIES.values(), *SUBBOTIN, optimal_cut(epsilon, delta), TruncatedLaplace(3)]


def delta_in_balls(family: Family, shift: float, epsilon: float) -> float:
    """F(t) - e^epsilon F(t - shift) at 400 bits, t by bisection of the ball of the loss."""
    with ctx.workprec(400):
        d, e = arb(shift), arb(epsilon)
        end = arb(fmpq(*family.cut.as_integer_ratio())) if isinstance(family, TruncatedLaplace) else None
        low, high = (d - end if end is not None else arb(-(2**13))), d / 2
        if not low < high:
            return float(cdf_ball(family, low))
        for _ in range(300):
            middle = ((low + high) / 2).mid()
            loss = family.psi(middle - d) - family.psi(middle)
            low, high = (middle, high) if loss >= e else (low, middle)
        return float(cdf_ball(family, low) - e.exp() * cdf_ball(family, low - d))


@every_demand
def test_delta_of_the_least_scale_has_six_digits(epsilon: float, delta: float) -> None:
    """Measured: off by at most 3e-9, at epsilon = 1e-3 and delta = 1e-15."""
    for family in families(epsilon, delta):
        shift = largest_shift(family, epsilon, delta)
        if family.slope == 1 and shift - epsilon < 1e-9 * shift:
            continue  # the float nearest to the shift already changes delta: the next test takes them
        exact = delta_in_balls(family, shift, epsilon)
        assert privacy_delta(family, shift, epsilon) == pytest.approx(exact, rel=1e-8, abs=0), family.name
        assert exact == pytest.approx(delta, rel=1e-6, abs=0), family.name


@pytest.mark.parametrize("family", [Laplace(), Logistic(), Subbotin(1)], ids=lambda family: family.name)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("excess", [1e-14, 1e-10, 1e-6])
def test_a_delta_next_to_none_has_six_digits(family: Family, epsilon: float, excess: float) -> None:
    shift = epsilon + excess
    assert privacy_delta(family, shift, epsilon) == pytest.approx(
        delta_in_balls(family, shift, epsilon), rel=1e-7, abs=0
    )


@every_demand
def test_closed_forms_and_the_generic_route_agree(epsilon: float, delta: float) -> None:
    """On the least scale, to 1e-9; measured 3e-12."""
    for family in [*FAMILIES.values(), optimal_cut(epsilon, delta), TruncatedLaplace(3)]:
        closed = largest_shift(family, epsilon, delta)
        searched = searched_shift(family, epsilon, delta, generic_log_delta)
        assert closed == pytest.approx(searched, rel=1e-9, abs=0), family.name


@pytest.mark.parametrize("shift", [0.01, 0.2, 1.0, 3.0, 9.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 2.0])
def test_closed_and_generic_deltas_agree(shift: float, epsilon: float) -> None:
    for family in [*FAMILIES.values(), *map(TruncatedLaplace, (0.5, 2, 8, 40))]:
        closed = log_privacy_delta(family, shift, epsilon)
        assert math.exp(closed) == pytest.approx(
            math.exp(generic_log_delta(family, shift, epsilon)), rel=1e-9, abs=0
        )


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_delta_is_the_excess_mass(shift: float, epsilon: float) -> None:
    """By brute force: the integral of (f(x) - e^epsilon f(x - shift))+ on a grid of midpoints."""
    x = (np.arange(-400_000, 400_000) + 0.5) * 1e-4
    for family in [*FAMILIES.values(), *SUBBOTIN, TruncatedLaplace(2), HUBER]:
        own, neighbour = np.exp(-family.psi(x)), np.exp(-family.psi(x - shift))
        excess = np.maximum(own - math.exp(epsilon) * neighbour, 0).sum() / own.sum()
        assert privacy_delta(family, shift, epsilon) == pytest.approx(excess, rel=1e-6, abs=1e-9)


def assert_inverse(family: Family, epsilon: float, delta: float, *, digits: float) -> None:
    scale = least_scale(family, epsilon, delta, 1.0)
    assert privacy_delta(family, 1 / scale, epsilon) <= delta * (1 + digits)
    assert privacy_delta(family, (1 + 1e-9) / scale, epsilon) > delta
    back = privacy_epsilon(family, 1 / scale, delta)
    assert privacy_delta(family, 1 / scale, back) <= delta * (1 + digits)
    assert back <= epsilon * (1 + 1e-6)
    if not isinstance(family, TruncatedLaplace):  # whose delta may not depend on epsilon at all
        assert back == pytest.approx(epsilon, rel=1e-6, abs=0)


@every_demand
def test_epsilon_delta_and_scale_are_inverse(epsilon: float, delta: float) -> None:
    tiny = 1e-9 if epsilon < 0.1 else 0  # what the float delta itself is off by; measured 2e-10
    for family in [*FAMILIES.values(), Subbotin(1.18), Subbotin(3), optimal_cut(epsilon, delta)]:
        assert_inverse(family, epsilon, delta, digits=tiny)


def test_an_own_family_is_calibrated_like_the_others() -> None:
    assert_inverse(HUBER, 0.5, 1e-6, digits=1e-8)
    assert_inverse(Custom("tent", tent), 0.5, 0.01, digits=1e-8)


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_delta_increases_with_the_shift_and_falls_with_epsilon(epsilon: float) -> None:
    for family in [*FAMILIES.values(), *SUBBOTIN, TruncatedLaplace(3), HUBER]:
        rising = [privacy_delta(family, shift, epsilon) for shift in np.geomspace(1e-3, 20, 25)]
        falling = [privacy_delta(family, epsilon, e) for e in np.linspace(0, 4, 25)]
        assert rising == sorted(rising)
        assert falling == sorted(falling, reverse=True)
        assert rising[-1] > 0.99


def test_scale_is_linear_in_the_sensitivity() -> None:
    for family in families(0.7, 1e-6):
        one = least_scale(family, 0.7, 1e-6, 1)
        for sensitivity in (1e-9, Fraction(1, 3), 1000, 2**60):
            assert least_scale(family, 0.7, 1e-6, sensitivity) == pytest.approx(
                one * float(sensitivity), rel=1e-15, abs=0
            )


TABLE = [
    (0.05, 1e-3, "739.6165", "754.0098", "900.6198", "529.4751", 1.18, "644.93"),
    (0.1, 1e-6, "199.992", "324.952", "1318.031", "199.734", 1, "199.992"),
    (1, 1e-6, "1.999992", "3.27942", "17.84791", "1.99975", 1, "1.999992"),
    (1, 1e-2, "1.92196", "2.38883", "3.52642", "1.66402", 1.06, "1.85685"),
    (0.5, 0.05, "5.50796", "4.30300", "4.13395", "3.01829", 1.58, "3.94502"),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}, {row[1]}")
def test_variances_are_those_of_the_design_to_all_digits(row: tuple) -> None:
    epsilon, delta, *printed, p, subbotin = row
    members = [*(FAMILIES[name] for name in ("laplace", "logistic", "gaussian")), optimal_cut(epsilon, delta)]
    for family, text in zip([*members, Subbotin(p)], [*printed, subbotin], strict=True):
        variance = least_scale(family, epsilon, delta, 1) ** 2 * family.variance
        unit = 10.0 ** -len(text.partition(".")[2])
        assert variance == pytest.approx(float(text), abs=0.50001 * unit), family.name


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}, {row[1]}")
def test_the_subbotin_of_the_design_is_the_best_within_its_rounding(row: tuple) -> None:
    epsilon, delta, p = row[0], row[1], row[6]
    at = {
        q: least_scale(Subbotin(q), epsilon, delta, 1) ** 2 * Subbotin(q).variance
        for q in (max(1, round(p - 0.01, 2)), p, round(p + 0.01, 2))
    }
    assert min(at, key=at.__getitem__) == p


@every_demand
def test_the_cut_alone_spends_delta_at_the_optimal_truncation(epsilon: float, delta: float) -> None:
    """Scale D / epsilon and cut log(1 + (e^epsilon - 1) / (2 delta)) scales, in one line."""
    assert privacy_delta(optimal_cut(epsilon, delta), epsilon, epsilon) == pytest.approx(
        delta, rel=1e-9, abs=0
    )


@pytest.mark.parametrize(
    "family", [Laplace(), Logistic(), Subbotin(1), HUBER], ids=lambda family: family.name
)
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
def test_bounded_ratios_reach_pure_epsilon_at_a_finite_scale(family: Family, epsilon: float) -> None:
    scale = least_scale(family, epsilon, 0, 3)
    assert scale == pytest.approx(3 / epsilon, rel=1e-11, abs=0)
    assert privacy_delta(family, 3 / scale, epsilon) == 0
    assert privacy_epsilon(family, 3 / scale, 0) == pytest.approx(epsilon, rel=1e-11, abs=0)
    assert privacy_delta(family, 3 / scale * (1 + 1e-3), epsilon) > 0
    assert least_scale(family, epsilon, 1e-300, 3) == pytest.approx(scale, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("family", "why"),
    [
        (Gaussian(), "no bound.*Theorem 6"),
        (Subbotin(1.01), "no bound.*Theorem 6"),
        (TruncatedLaplace(9), "never draw"),
        (Custom("quartic", lambda x: x**4), "no bound"),
    ],
    ids=lambda item: item if isinstance(item, str) else item.name,
)
def test_the_others_say_why_not(family: Family, why: str) -> None:
    with pytest.raises(PlanRefused, match=why + r"(.|\n)*way out: .*laplace or logistic") as refused:
        least_scale(family, 1.0, 0, 1)
    assert refused.value.code == "delta_range"
    assert privacy_epsilon(family, 0.5, 0) == math.inf
    assert privacy_delta(family, 0.5, 1.0) > 0
    assert privacy_delta(family, 1e-3, 80.0) > 0  # below all positive floats, and yet not 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("family", ["gaussian", "subbotin(1.5)", "subbotin(3)"])
def test_utility_separation(family: str, epsilon: float) -> None:
    """As delta -> 0 the least scale of an unbounded family passes every bound, Laplace's stays below one.

    Gaussian: t = d / 2 - epsilon / d must go to -inf, so the scale follows sqrt(2 log(1 / delta)) / epsilon.
    """
    deltas = [10.0**-k for k in (2, 5, 10, 20, 50, 100, 200, 300)]
    scales = [least_scale(family_named(family), epsilon, delta, 1) for delta in deltas]
    bounded = [least_scale(Laplace(), epsilon, delta, 1) for delta in deltas]
    assert np.all(np.diff(scales) > 0)
    assert max(bounded) <= least_scale(Laplace(), epsilon, 0, 1)
    ratio = np.array(scales) / bounded
    assert np.all(np.diff(ratio) > 0)
    assert ratio[-1] > 5
    if family == "gaussian":
        growth = np.array(scales[4:]) * epsilon / np.sqrt(-2 * np.log(deltas[4:]))
        assert np.all(np.abs(growth - 1) < 0.2)
        assert np.all(np.diff(np.abs(growth - 1)) < 0)


def test_mass_that_a_neighbour_never_draws_has_no_epsilon() -> None:
    family = TruncatedLaplace(3)
    atom = math.expm1(0.5) / (2 * math.expm1(3))
    assert privacy_epsilon(family, 0.5, atom * 0.999) == math.inf
    assert privacy_epsilon(family, 0.5, atom * 1.001) <= 0.5
    assert privacy_delta(family, 0.5, 50.0) == pytest.approx(atom, rel=1e-12, abs=0)
    assert privacy_delta(family, 6.0, 50.0) == pytest.approx(1, abs=0)


def test_no_shift_costs_nothing() -> None:
    for family in families(1.0, 1e-6):
        assert privacy_delta(family, 0, 0) == 0
        assert privacy_epsilon(family, 0, 0) == 0
        assert privacy_epsilon(family, 0, 0.1) == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epsilon": -1}, "epsilon_range"),
        ({"epsilon": math.nan}, "epsilon_range"),
        ({"epsilon": math.inf}, "epsilon_range"),
        ({"delta": 1}, "delta_range"),
        ({"delta": -1e-9}, "delta_range"),
        ({"delta": math.nan}, "delta_range"),
        ({"sensitivity": 0}, "sensitivity_range"),
        ({"sensitivity": math.inf}, "sensitivity_range"),
        ({"epsilon": 0, "delta": 0}, "delta_range"),
    ],
)
def test_what_is_out_of_range_is_refused(change: dict[str, float], code: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        least_scale(Laplace(), **{"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0, **change})
    assert refused.value.code == code
    assert refused.value.way_out
