"""The floor by linear program, and the table that reaches it at sensitivity 1."""

import math

import pytest

from dp_spark.errors import PlanRefused
from dp_spark.noise import Laplace, calibrate_lattice, tightest_table, variance_floor, wide

GRID = [(epsilon, delta) for epsilon in (0.1, 0.5, 1, 2, 4) for delta in (1e-9, 1e-6, 1e-3, 1e-2)]


@pytest.mark.parametrize(
    ("epsilon", "delta", "variance"), [(1, 1e-6, 1.8411), (0.5, 0.01, 5.48608), (0.1, 1e-3, 154.571)]
)
def test_floors_are_those_of_the_design(epsilon: float, delta: float, variance: float) -> None:
    assert variance_floor(epsilon, delta, 1) == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize(("epsilon", "ratio"), [(1, 1.04), (2, 1.18), (4, 1.85)])
def test_the_staircase_beats_laplace_at_ten_steps_as_the_design_says(epsilon: float, ratio: float) -> None:
    laplace = calibrate_lattice(Laplace(), epsilon, 1e-6, 10, 1).variance
    assert laplace / variance_floor(epsilon, 1e-6, 10) == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_tightest_table_reaches_the_floor_and_keeps_the_promise(epsilon: float, delta: float) -> None:
    table = tightest_table(epsilon, delta)
    assert table.variance == pytest.approx(variance_floor(epsilon, delta, 1), rel=1e-6)
    assert (1 - 1e-6) * delta <= table.privacy_delta(epsilon) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), GRID[::3])
def test_the_tightest_table_is_log_concave(epsilon: float, delta: float) -> None:
    weights = [int(weight) for weight in wide.to_ints(tightest_table(epsilon, delta).weights)]
    for before, middle, after in zip(weights, weights[1:], weights[2:], strict=False):
        assert (middle + 1) ** 2 >= max(before - 1, 0) * max(after - 1, 0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.01), (1, 1e-6), (2.0, 0.2)])
def test_no_calibrated_family_is_below_the_floor(epsilon: float, delta: float) -> None:
    for sensitivity in (1, 2, 5):
        least = variance_floor(epsilon, delta, sensitivity)
        assert calibrate_lattice(Laplace(), epsilon, delta, sensitivity, 1).variance >= least * (1 - 1e-6)


def test_the_bound_of_large_sensitivities_is_valid_and_near() -> None:
    """D = 8 bounded from D = 2 lies below D = 8 solved; 1,000 steps stay within 10 % of Laplace."""
    assert 16 * (variance_floor(1, 1e-3, 2) - 0.25) <= variance_floor(1, 1e-3, 8) * (1 + 1e-6)
    assert 0.9 * 2e6 < variance_floor(1, 1e-6, 1000) < 2e6


def test_a_table_that_spends_more_epsilon_than_two_levels_is_still_found() -> None:
    table = tightest_table(8, 0.3)
    assert table.privacy_delta(8) <= 0.3
    assert table.variance == pytest.approx(variance_floor(8, 0.3, 1), rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(0, 1e-6, 1), (1, 0, 1), (1, 1, 1), (1, 1e-6, 0), (math.nan, 0.1, 1)],
)
def test_what_has_no_floor_is_refused(epsilon: float, delta: float, sensitivity: int) -> None:
    with pytest.raises(PlanRefused, match="way out"):
        variance_floor(epsilon, delta, sensitivity)
