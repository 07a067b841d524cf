"""The limit of local privacy: published values, certificates, and the Fisher information of channels."""

import importlib
import itertools
import math
import pickle
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dp_spark.errors import PlanRefused
from dp_spark.uldp import limit, mixture_mse

MODULE = importlib.import_module("dp_spark.uldp.limit")  # which bears the name of its function
CATEGORIES = (2, 3, 5, 9, 20, 277, 1000)
SENSITIVE = (1, 2, 3, 4, 5, 8, 19, 35, 253, 999)
EPSILONS = (0.0001, 0.05, 0.5, 1, 1.5, 2, 3, 4.7, 6, 9, 20)
SCAN = [
    (w, v, epsilon) for w in CATEGORIES for v in sorted({*SENSITIVE, w}) for epsilon in EPSILONS if v <= w
]
SMALL = [
    (4, 2, 0.3),
    (4, 1, 0.5),
    (5, 3, 1),
    (6, 3, 2),
    (7, 5, 1),
    (5, 4, 3),
    (5, 5, 0.7),
    (6, 5, 8.0),
]


def fisher_trace(w: int, v: int, epsilon: float, alpha: float, weights: dict[int, float]) -> float:
    """The trace of the inverse Fisher information of the explicit channel, along the simplex."""
    growth, rows = math.expm1(epsilon), []
    for size, weight in weights.items():
        blocks = list(itertools.combinations(range(v), size))
        replication = len(blocks) * size / v
        c = 1 / (replication * growth + len(blocks))
        for block in blocks:
            row = np.full(w, c * weight)
            row[list(block)] *= 1 + growth
            rows.append(row)
    for x in range(v, w):
        answer = np.zeros(w)
        answer[x] = sum(weight * size * growth / (v + size * growth) for size, weight in weights.items())
        rows.append(answer)
    channel = np.array(rows)
    np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=1e-13)
    p = np.concatenate([np.full(v, alpha / v), np.full(w - v, (1 - alpha) / max(w - v, 1))])
    tangent = np.linalg.svd(np.ones((1, w)))[2][1:]
    seen = channel @ p
    slopes = channel @ tangent.T
    kept = seen > 0
    information = slopes[kept].T @ (slopes[kept] / seen[kept, None])
    return float(np.trace(np.linalg.inv(information)))


@pytest.mark.parametrize(
    ("case", "mse", "alpha", "weights"),
    [
        ((10, 5, 0.5), 50.258657, 1, {2: 1}),
        ((10, 5, 1), 12.440493, 0.8461, {1: 0.6717, 2: 0.3283}),
        ((10, 3, 1), 6.200594, None, None),
        ((30, 7, 2), 4.020381, 0.4706, {1: 0.7943, 2: 0.2057}),
        ((20, 8, 1), 22.611384, 1, {2: 1}),
    ],
)
def test_it_has_the_published_values(case, mse, alpha, weights) -> None:
    found = limit(*case)
    assert found.mse == pytest.approx(mse, abs=1e-6)
    if weights is not None:
        assert found.alpha == pytest.approx(alpha, abs=5.1e-5)
        assert found.block_weights == pytest.approx(weights, abs=5.1e-5)


def test_the_bounds_meet_everywhere() -> None:
    for case in SCAN:
        found = limit(*case)
        assert found.lower <= found.mse <= found.upper <= found.lower * (1 + 1e-11), case
        assert sum(found.block_weights.values()) == pytest.approx(1, abs=1e-13)
        assert min(found.block_weights.values()) > 0
        assert mixture_mse(*case, alpha=found.alpha, block_weights=found.block_weights) == pytest.approx(
            found.mse, rel=1e-13
        )


@pytest.mark.parametrize("case", SMALL)
def test_it_is_the_trace_of_the_inverse_fisher_information(case) -> None:
    w, v = case[:2]
    found = limit(*case)
    for weights in (found.block_weights, {1: 0.7, min(2, v): 0.3} if v > 1 else {1: 1.0}):
        for alpha in (0.3, 0.8) if v < w else (1.0,):
            said = mixture_mse(*case, alpha=alpha, block_weights=weights)
            assert said == pytest.approx(fisher_trace(*case, alpha, weights), rel=1e-11)
    if v < w:
        traces = minimize_scalar(
            lambda alpha: -fisher_trace(*case, alpha, found.block_weights),
            bounds=(1e-9, 1 - 1e-9),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert -traces.fun == pytest.approx(found.mse, rel=1e-7 if found.alpha in (0, 1) else 1e-9)


@pytest.mark.parametrize("case", [(10, 5, 1), (10, 3, 1), (30, 7, 2), (277, 35, 2), (20, 8, 1), (9, 2, 1)])
def test_neither_side_can_do_better_alone(case) -> None:
    found = limit(*case)
    for alpha in np.linspace(0, 1, 101):
        told = mixture_mse(*case, alpha=float(alpha), block_weights=found.block_weights)
        assert told <= found.mse * (1 + 1e-12)
    for size in range(1, case[1] + 1):
        for moved in (1e-3, 0.1):
            other = {k: (1 - moved) * weight for k, weight in found.block_weights.items()}
            other[size] = other.get(size, 0) + moved
            told = mixture_mse(*case, alpha=found.alpha, block_weights=other)
            assert told >= found.mse * (1 - 1e-12)


@pytest.mark.parametrize("v", range(4, 40, 5))
def test_one_size_is_best_while_everybody_may_be_sensitive(v) -> None:
    """Up to e^epsilon = sqrt((v-1)(v-2)/2), with alpha = 1, for every w."""
    epsilon = math.log((v - 1) * (v - 2) / 2) / 2
    growth = math.expm1(epsilon * 0.99)
    best = min(range(1, v), key=lambda k: (v + k * growth) ** 2 / (k * (v - k)))
    for w in (v, v + 1, 3 * v):
        found = limit(w, v, epsilon * 0.99)
        assert (found.alpha, found.block_weights) == (1, {best: 1})
    at_border = limit(3 * v, v, epsilon)
    assert (at_border.alpha, at_border.block_weights) == (1, {2: 1})


@pytest.mark.parametrize(("w", "v"), [(5, 3), (10, 5), (30, 7), (40, 39), (9, 1)])
def test_randomized_response_is_best_at_high_epsilon(w, v) -> None:
    """From e^epsilon = w - v + sqrt((w-1)(w-2)/2)."""
    border = math.log(w - v + math.sqrt((w - 1) * (w - 2) / 2))
    for epsilon in (border * 1.001, border + 1):
        assert limit(w, v, epsilon).block_weights == {1: 1}


@pytest.mark.parametrize("w", [3, 4, 5, 8, 20, 1000])
def test_of_two_sensitive_categories_blocks_of_both_help_only_between(w) -> None:
    """Randomized response is best at high epsilon, and where B g (2+g)/(1+g) + 2 C g <= 2 + g."""
    b, c = (w - 3) / (w - 2), w / (2 * (w - 2))
    for epsilon in np.arange(0.03, 8, 0.1):
        g = math.expm1(epsilon)
        low = b * g * (2 + g) / (1 + g) + 2 * c * g <= 2 + g
        high = 1 + g >= w - 2 + math.sqrt((w - 1) * (w - 2) / 2)
        assert (limit(w, 2, float(epsilon)).block_weights == {1: 1}) == (low or high)


@pytest.mark.parametrize(("v", "w"), [(6, 15), (9, 9), (5, 40), (2, 7)])
def test_it_is_continuous_and_falls_in_epsilon_across_all_cases(v, w) -> None:
    errors = np.array([limit(w, v, float(epsilon)).mse for epsilon in np.arange(0.5, 5, 0.03)])
    falls = -np.diff(np.log(errors))
    assert np.all(falls > 0)
    assert np.max(np.abs(np.diff(falls))) < 0.01  # a jump by 1 % would show


def test_more_categories_and_more_sensitive_ones_are_harder() -> None:
    for epsilon in (0.3, 1, 2.2, 5):
        table = np.array([[limit(w, v, epsilon).mse for v in range(1, 7)] for w in range(6, 14)])
        assert np.all(np.diff(table, axis=0) >= -1e-12 * table[1:])
        assert np.all(np.diff(table, axis=1) > 0)


@pytest.mark.parametrize("start", [1, 3, 7, 11])
@pytest.mark.parametrize("case", [(12, 12, 0.3), (40, 12, 2.5), (12, 11, 6), (100, 12, 1)])
def test_the_search_ends_at_the_limit_from_any_size(case, start, monkeypatch) -> None:
    found = limit(*case)
    monkeypatch.setattr(MODULE, "_best_alone", lambda setting, sizes: float(min(start, case[1] - 1)))
    again = limit(*case)
    assert again.upper <= again.lower * (1 + 1e-11)
    assert again.mse == pytest.approx(found.mse, rel=1e-11)
    assert again.block_weights == pytest.approx(found.block_weights, abs=1e-5)


def test_plain_local_privacy_has_its_known_error() -> None:
    """v = w: (v-1)^2 (v + k g)^2 / (g^2 v k (v-k)), everybody in S."""
    found = limit(12, 12, 1)
    growth = math.expm1(1)
    known = min(11**2 * (12 + k * growth) ** 2 / (growth**2 * 12 * k * (12 - k)) for k in range(1, 12))
    assert found.mse == pytest.approx(known, rel=1e-14)
    assert found.alpha == 1


@pytest.mark.parametrize("v", [1, 2, 50_000, 99_999, 100_000])
@pytest.mark.parametrize("epsilon", [0.0001, 11, 20])
def test_a_hundred_thousand_categories_take_no_time(v, epsilon) -> None:
    begun = time.perf_counter()
    found = limit(100_000, v, epsilon)
    assert time.perf_counter() - begun < 5  # a fifth of that on one core of our own
    assert math.isfinite(found.mse)
    assert found.upper <= found.lower * (1 + 1e-11)


def test_a_float_means_its_decimal_and_a_fraction_itself() -> None:
    assert limit(9, 4, 0.7) == limit(9, 4, Fraction(7, 10))
    assert pickle.loads(pickle.dumps(limit(9, 4, 1))) == limit(9, 4, 1)


def test_only_whole_blocks_tell_nothing_inside() -> None:
    assert mixture_mse(6, 3, 1, alpha=0.5, block_weights={3: 1}) == math.inf


@pytest.mark.parametrize(
    ("w", "v", "epsilon", "named"),
    [
        (5, 0, 1, "n_sensitive = 0"),
        (5, 6, 1, "n_sensitive = 6"),
        (1, 1, 1, "n_categories = 1"),
        (1_000_001, 1, 1, "n_categories = 1000001"),
        (5.0, 2, 1, "n_categories = 5.0"),
        (5, True, 1, "n_sensitive = True"),
        (5, 2, 0.00009, "epsilon"),
        (5, 2, Fraction(201, 10), "epsilon"),
        (5, 2, math.nan, "epsilon"),
        (5, 2, -1, "epsilon"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(w, v, epsilon, named) -> None:
    with pytest.raises(PlanRefused, match=named):
        limit(w, v, epsilon)


@pytest.mark.parametrize(
    ("alpha", "weights"),
    [
        (1.1, {1: 1}),
        (-0.1, {1: 1}),
        (math.nan, {1: 1}),
        (1, {}),
        (1, {4: 1}),
        (1, {1: 0.5}),
        (1, {1: -1, 2: 2}),
    ],
)
def test_no_error_is_told_of_what_is_no_mixture(alpha, weights) -> None:
    with pytest.raises(PlanRefused):
        mixture_mse(6, 3, 1, alpha=alpha, block_weights=weights)
