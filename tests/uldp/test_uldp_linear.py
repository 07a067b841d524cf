"""Linear estimators against explicit channels: means and covariances are computed, not sampled."""

import math

import numpy as np
import pytest
from uldp_dense import affine, bit_world, block_world, columns, complete, hashing, subset_world

from dp_spark.errors import PlanRefused
from dp_spark.uldp.estimate import Consistency, Method
from dp_spark.uldp.linear import adaptive_estimate, block_scores, linear_estimate
from dp_spark.uldp.published import balanced_scores, rappor_scores, subset_scores, unary_scores
from dp_spark.uldp.scores import moments

SEED = 20240607


def mixture(w, v, epsilon, weights):
    return block_world(w, v, epsilon, [(t, complete(v, k)) for k, t in weights.items()])


def oue(w, v, epsilon):
    e = math.exp(epsilon)
    return bit_world(w, v, epsilon, 1 / 2, 1 / (e + 1), (e - 1) / (2 * e))


def rap(w, v, epsilon):
    e = math.exp(epsilon / 2)
    return bit_world(w, v, epsilon, e / (e + 1), 1 / (e + 1), 1 - 1 / e)


def blocks_at(mass):
    return lambda world: block_scores(world.one(0), mass)


def balanced(world):
    return balanced_scores(world.components[0][1], world.epsilon)


BEST = {
    "mixture": (mixture(10, 5, 1.0, {1: 0.6717, 2: 0.3283}), blocks_at(0.8461)),
    "mixture, another mass": (mixture(10, 5, 1.0, {1: 0.6717, 2: 0.3283}), blocks_at(0.1)),
    "mixture, no mass": (mixture(10, 5, 1.0, {1: 0.5, 2: 0.5}), blocks_at(0.0)),
    "mixture, mass 1": (mixture(7, 4, 0.3, {1: 0.1, 2: 0.5, 3: 0.2, 4: 0.2}), blocks_at(1.0)),
    "all sensitive": (mixture(5, 5, 0.7, {1: 0.4, 2: 0.6}), blocks_at(1.0)),
    "one other": (mixture(5, 4, 2.0, {1: 0.4, 2: 0.6}), blocks_at(0.5)),
    "one sensitive": (mixture(4, 1, 1.0, {1: 1.0}), blocks_at(0.5)),
    "affine, some points": (
        block_world(9, 5, 1.0, [(0.7, affine(5, 7, 3)), (0.3, complete(5, 1))]),
        blocks_at(0.4),
    ),
    "affine, all points": (block_world(9, 7, 0.2, [(1.0, affine(7, 7, 3))]), blocks_at(1.0)),
    "hadamard, best": (block_world(9, 6, 0.5, [(1.0, columns(6))]), blocks_at(0.4)),
    "subsets, best": (subset_world(8, 5, 0.5, 2), blocks_at(0.4)),
    "epsilon 0.0001": (mixture(8, 4, 1e-4, {2: 1.0}), blocks_at(1.0)),
    "epsilon 20": (mixture(8, 4, 20.0, {1: 0.9, 2: 0.1}), blocks_at(0.2)),
}
PUBLISHED = {
    "urr": (block_world(8, 5, 1.0, [(1.0, complete(5, 1))]), balanced),
    "urr, one sensitive": (block_world(4, 1, 1.0, [(1.0, complete(1, 1))]), balanced),
    "uhr": (block_world(9, 6, 0.5, [(1.0, columns(6))]), balanced),
    "uhr, one sensitive": (block_world(3, 1, 0.5, [(1.0, columns(1))]), balanced),
    "uolh": (block_world(8, 4, 1.0, [(1.0, hashing(4, 5, 4))]), balanced),
    "uolh, more cells than points": (block_world(8, 4, 2.5, [(1.0, hashing(4, 5, 13))]), balanced),
    "uss": (subset_world(8, 5, 0.5, 2), lambda _: subset_scores(complete(5, 2), 0.5)),
    "uss, all sensitive": (subset_world(5, 5, 0.5, 2), lambda _: subset_scores(complete(5, 2), 0.5)),
    "uss, one sensitive": (
        block_world(3, 1, 0.5, [(1.0, complete(1, 1))]),
        lambda _: subset_scores(complete(1, 1), 0.5),
    ),
    "uoue": (oue(6, 4, 0.8), lambda _: unary_scores(0.8)),
    "uoue, all sensitive": (oue(4, 4, 0.8), lambda _: unary_scores(0.8)),
    "urap": (rap(6, 3, 1.3), lambda _: rappor_scores(1.3)),
}
DECODED = BEST | PUBLISHED
decoded = pytest.mark.parametrize(("world", "scores_of"), DECODED.values(), ids=DECODED.keys())


def matrix_of(world, scores):
    """The score of every report for every category, (w, m): the shares that the report alone would give."""
    return np.array([moments(world.one(i), scores).shares for i in range(world.matrix.shape[1])]).T


def covariance(world, scores, truth):
    """Of the shares, times n: A (diag(P) - P P^T) A^T."""
    each, chance = matrix_of(world, scores), truth @ world.matrix
    middle = each - (each @ chance)[:, None]
    return (middle * chance) @ middle.T


def truths(w, n=3):
    return np.random.default_rng(SEED).dirichlet(np.full(w, 0.5), size=n)


@decoded
def test_the_channel_is_one(world, scores_of):
    assert np.allclose(world.matrix.sum(axis=1), 1, atol=1e-13)
    protected = world.matrix[:, world.answer < 0]
    worst = (protected.max(axis=0) / protected.min(axis=0)).max()
    assert worst <= math.exp(world.epsilon) * (1 + 1e-9)


@decoded
def test_shares_are_unbiased_at_every_truth(world, scores_of):
    scores = matrix_of(world, scores_of(world))
    precision = 1e-12 * max(1.0, np.abs(scores).max())
    assert np.abs(world.matrix @ scores.T - np.eye(world.w)).max() < precision


@decoded
def test_counts_give_the_mean_of_the_scores_of_their_reports(world, scores_of):
    scores = scores_of(world)
    each = matrix_of(world, scores)
    counts = np.random.default_rng(SEED).integers(0, 4, world.matrix.shape[1])
    found = moments(world.observed(counts), scores)
    weights = counts / counts.sum()
    assert np.allclose(found.shares, each @ weights, rtol=1e-11, atol=1e-11 * np.abs(each).max())
    variance = (each**2 @ weights - (each @ weights) ** 2) / counts.sum()
    assert np.allclose(found.variances, variance, rtol=1e-9, atol=1e-13 * (each**2).max())


@decoded
def test_standard_errors_are_those_of_the_exact_covariance(world, scores_of):
    scores, n = scores_of(world), 10**9
    for truth in truths(world.w):
        counts = np.rint(n * (truth @ world.matrix)).astype(np.int64)
        found = linear_estimate(world.observed(counts), scores)
        exact = np.diag(covariance(world, scores, truth)) / n
        assert np.allclose(found.stds**2, exact, rtol=1e-5, atol=1e-6 * exact.max())


@pytest.mark.parametrize("name", BEST)
def test_shares_of_block_scores_sum_to_1_for_all_reports(name):
    world, scores_of = BEST[name]
    each = matrix_of(world, scores_of(world))
    assert np.allclose(each.sum(axis=0), 1, atol=1e-12 * max(1.0, np.abs(each).max()))


def limit_mse(w, v, epsilon, weights, mass):
    """M(alpha, t) of the paper, from its three terms."""
    g = math.expm1(epsilon)
    first = sum(t * k * (v - k) / ((v + k * g) * (v + k * g * mass)) for k, t in weights.items())
    inside = (v - 1) ** 2 / (g**2 * v * first) if v > 1 else 0.0
    if v == w:
        return inside
    tau = sum(t * k * g / (v + k * g) for k, t in weights.items())
    total = sum(t * k * g / (v + k * g * mass) for k, t in weights.items())
    outside = (w - v - 1) * (1 - mass) / ((w - v) * tau)
    return inside + outside + w * (1 - mass) / (v * (w - v) * total)


LIMITS = [
    (10, 5, 0.5, {2: 1.0}, 1.0, 50.258657),
    (10, 5, 1.0, {1: 0.6717, 2: 0.3283}, 0.8461, 12.440493),
    (7, 4, 0.3, {1: 0.1, 2: 0.5, 3: 0.2, 4: 0.2}, 0.3, None),
    (20, 8, 1.0, {2: 1.0}, 1.0, 22.611384),
    (30, 7, 2.0, {1: 0.7943, 2: 0.2057}, 0.4706, 4.020381),
    (5, 5, 0.7, {1: 0.4, 2: 0.6}, 1.0, None),
    (4, 1, 1.0, {1: 1.0}, 0.6, None),
]


def even(w, v, mass):
    """Uniform among the sensitive, which have that mass, and among the others."""
    return np.concatenate([np.full(v, mass / v), np.full(w - v, (1 - mass) / max(w - v, 1))])


@pytest.mark.parametrize(("w", "v", "epsilon", "weights", "mass", "value"), LIMITS)
def test_the_error_at_the_least_favourable_truth_is_the_limit(w, v, epsilon, weights, mass, value):
    world, truth = mixture(w, v, epsilon, weights), even(w, v, mass)
    trace = np.trace(covariance(world, block_scores(world.one(0), mass), truth))
    limit = limit_mse(w, v, epsilon, weights, mass)
    assert trace == pytest.approx(limit, rel=1e-10)
    if value is not None:
        assert limit == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("wrong", [0.65, 0.95])
def test_weights_for_another_mass_lose_on_both_sides(wrong):
    world, truth = mixture(10, 5, 1.0, {1: 0.6717, 2: 0.3283}), even(10, 5, 0.8461)
    best = np.trace(covariance(world, block_scores(world.one(0), 0.8461), truth))
    assert np.trace(covariance(world, block_scores(world.one(0), wrong), truth)) > best * (1 + 1e-6)


def test_weights_of_one_component_know_no_mass():
    world = block_world(9, 5, 1.0, [(1.0, affine(5, 7, 3))])
    low, high = (matrix_of(world, block_scores(world.one(0), mass)) for mass in (0.1, 0.9))
    assert np.allclose(low, high, atol=1e-12)


def test_pairs_say_no_more_than_their_answer():
    """The best decoder of uSS forgets the blocks beside answers, and so reaches the limit of its size."""
    world, mass = subset_world(8, 5, 0.5, 2), 0.4
    truth = even(8, 5, mass)
    best = np.trace(covariance(world, block_scores(world.one(0), mass), truth))
    assert best == pytest.approx(limit_mse(8, 5, 0.5, {2: 1.0}, mass), rel=1e-10)
    assert np.trace(covariance(world, subset_scores(complete(5, 2), 0.5), truth)) > best * 1.01


def test_published_constants_are_those_of_the_papers():
    """Written here as math papers print them, at epsilon = 1 and v = 5."""
    e = math.e
    singles = balanced_scores(complete(5, 1), 1)
    own, other = e / (e + 4), 1 / (e + 4)
    assert singles.slope[0] == pytest.approx(1 / (own - other))
    assert singles.invertible == pytest.approx(-other / (own - other))
    hadamard = balanced_scores(columns(5), 1)
    assert hadamard.slope[0] == pytest.approx(2 * (e + 1) / (e - 1))
    assert hadamard.protected[0] == pytest.approx(-(e + 1) / (e - 1))
    assert hadamard.invertible == pytest.approx(0, abs=1e-15)
    own, other = 2 * e / (2 * e + 3), 2 * (2 * e + 3 - e) / ((2 * e + 3) * 4)
    subsets = subset_scores(complete(5, 2), 1)
    assert subsets.slope[0] == pytest.approx(1 / (own - other))
    assert subsets.invertible == pytest.approx(-other / (own - other))
    assert subsets.answer == pytest.approx((2 * (e - 1) + 5) / (2 * (e - 1)))


def test_the_adaptive_estimate_is_the_linear_one_at_the_mass_that_reports_show():
    world = mixture(10, 5, 1.0, {1: 0.6717, 2: 0.3283})
    counts = np.rint(10**9 * (even(10, 5, 0.3) @ world.matrix)).astype(np.int64)
    observed = world.observed(counts)
    adapted = adaptive_estimate(observed, 0.8461)
    assert adapted.method is Method.ADAPTIVE
    assert np.allclose(adapted.shares, even(10, 5, 0.3), atol=1e-7)
    at_truth = linear_estimate(observed, block_scores(observed, 0.3))
    assert np.allclose(adapted.stds, at_truth.stds, rtol=1e-6)
    trace = 10**9 * (adapted.stds**2).sum()
    assert trace == pytest.approx(limit_mse(10, 5, 1.0, {1: 0.6717, 2: 0.3283}, 0.3), rel=1e-6)


@pytest.mark.parametrize("report", [0, -1])
def test_a_mass_that_noise_brings_out_of_range_is_cut(report):
    world = mixture(10, 5, 0.5, {1: 0.5, 2: 0.5})
    counts = np.zeros(world.matrix.shape[1])
    counts[report] = 50
    assert np.isfinite(adaptive_estimate(world.observed(counts), 1.0).shares).all()


@pytest.mark.parametrize("mass", [-0.1, 1.1, math.nan])
def test_a_mass_out_of_range_is_refused(mass):
    with pytest.raises(PlanRefused, match="sensitive mass") as refused:
        block_scores(mixture(5, 3, 1.0, {1: 1.0}).one(0), mass)
    assert refused.value.code == "mass_out_of_range"


def test_blocks_that_tell_nothing_apart_are_refused():
    with pytest.raises(PlanRefused, match="tells two categories apart"):
        block_scores(mixture(5, 3, 1.0, {3: 1.0}).one(0), 1.0)


def test_bitmaps_have_no_weights_at_a_mass():
    with pytest.raises(PlanRefused, match="arbitrary sets"):
        adaptive_estimate(oue(6, 4, 0.8).one(0), 1.0)


def test_no_reports_are_refused():
    world = mixture(5, 3, 1.0, {1: 1.0})
    nothing = world.observed(np.zeros(world.matrix.shape[1]))
    with pytest.raises(PlanRefused, match="n = 0"):
        linear_estimate(nothing, block_scores(nothing, 1.0))


def test_shares_and_intervals_of_one_report_are_finite():
    world = mixture(5, 3, 1.0, {1: 0.5, 2: 0.5})
    for report in range(world.matrix.shape[1]):
        for consistency in Consistency:
            found = linear_estimate(
                world.one(report), block_scores(world.one(0), 1.0), consistency=consistency
            )
            assert np.isfinite([found.shares, found.stds, found.low, found.high]).all()
