"""Intervals and flags of linear estimates. Coverage is sampled, with what the sample can tell."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from uldp_dense import bit_world, block_world, columns, complete, subset_world

from dp_spark.uldp.estimate import Consistency
from dp_spark.uldp.intervals import binomial_interval, reaches
from dp_spark.uldp.linear import block_scores, linear_estimate
from dp_spark.uldp.published import balanced_scores, subset_scores, unary_scores
from dp_spark.uldp.scores import moments

MIXED = block_world(10, 5, 1.0, [(0.6717, complete(5, 1)), (0.3283, complete(5, 2))])


def at(mass):
    return lambda world: block_scores(world.one(0), mass)


def zipf(w, power, seed):
    shares = 1 / np.arange(1, w + 1) ** power
    return np.random.default_rng(seed).permutation(shares / shares.sum())


def oue(w, v, epsilon):
    e = math.exp(epsilon)
    return bit_world(w, v, epsilon, 1 / 2, 1 / (e + 1), (e - 1) / (2 * e))


CASES = {
    "mixture, even": (MIXED, at(0.8461), np.full(10, 0.1)),
    "mixture, zipf": (MIXED, at(0.8461), zipf(10, 1.2, 1)),
    "mixture, steep": (MIXED, at(0.8461), zipf(10, 2.0, 2)),
    "(30, 7, 2), zipf": (
        block_world(30, 7, 2.0, [(0.7943, complete(7, 1)), (0.2057, complete(7, 2))]),
        at(0.4706),
        zipf(30, 1.0, 3),
    ),
    "all sensitive, steep": (block_world(6, 6, 1.0, [(1.0, complete(6, 2))]), at(1.0), zipf(6, 3.0, 4)),
    "urr, epsilon 5": (
        block_world(20, 8, 5.0, [(1.0, complete(8, 1))]),
        lambda _: balanced_scores(complete(8, 1), 5.0),
        zipf(20, 1.0, 5),
    ),
    "uhr, steep": (
        block_world(9, 6, 0.5, [(1.0, columns(6))]),
        lambda _: balanced_scores(columns(6), 0.5),
        zipf(9, 2.0, 6),
    ),
    "uss, zipf": (subset_world(8, 5, 0.5, 2), lambda _: subset_scores(complete(5, 2), 0.5), zipf(8, 1.0, 7)),
    "uoue, zipf": (oue(6, 4, 0.8), lambda _: unary_scores(0.8), zipf(6, 1.5, 8)),
}
N_REPORTS, TRIALS = 5000, 800


def covered(world, scores, truth, stretch=(1.0,)):
    """How often intervals hold the truth, mean over cells and trials, for each factor of their length."""
    chance = truth @ world.matrix
    draws = np.random.default_rng(len(truth)).multinomial(N_REPORTS, chance / chance.sum(), size=TRIALS)
    hits = np.zeros(len(stretch))
    for counts in draws:
        found = linear_estimate(world.observed(counts), scores)
        below, above = found.shares - found.low, found.high - found.shares
        inside = [
            ((found.shares - s * below <= truth) & (truth <= found.shares + s * above)).mean()
            for s in stretch
        ]
        hits += inside
    return hits / TRIALS


@pytest.mark.parametrize(("world", "scores_of", "truth"), CASES.values(), ids=CASES.keys())
def test_intervals_hold_the_truth_95_times_in_100(world, scores_of, truth):
    """800 trials of 5,000 reports; over seeds the mean over cells has a std of at most .004.

    Its expectation is .952 to .958 in all cases (12 seeds each), above .95 where few reports favour a cell:
    five std from .93 and .97 at least, so a false alarm in less than 1 of 10^6 seeds. Lengths wrong by a
    fifth give .883 or .981 where intervals are normal, three std or more outside: the next test shows it.
    """
    (right,) = covered(world, scores_of(world), truth)
    assert 0.93 <= right <= 0.97


@pytest.mark.parametrize("case", ["mixture, even", "uss, zipf", "all sensitive, steep"])
def test_the_sample_would_show_intervals_wrong_by_a_fifth(case):
    world, scores_of, truth = CASES[case]
    short, long = covered(world, scores_of(world), truth, stretch=(0.8, 1.2))
    assert short < 0.93
    assert long > 0.97


@pytest.mark.parametrize(
    ("trials", "seen"), [(1, 0), (1, 1), (20, 0), (20, 3), (20, 20), (10**6, 17), (10**9, 5 * 10**8)]
)
def test_ends_of_binomial_intervals_leave_a_fortieth_outside(trials, seen):
    (low,), (high,) = binomial_interval(np.array([float(seen)]), trials)
    assert low == 0 if seen == 0 else binom.sf(seen - 1, trials, low) == pytest.approx(0.025, rel=1e-6)
    assert high == 1 if seen == trials else binom.cdf(seen, trials, high) == pytest.approx(0.025, rel=1e-6)


def test_an_answer_that_nobody_gave_has_an_interval():
    """Its plug-in error is 0; 3.69 / n is the exact end for 0 of n."""
    counts = np.rint(1000 * (np.full(10, 0.1) @ MIXED.matrix)).astype(np.int64)
    counts[-1] = 0
    observed = MIXED.observed(counts)
    found = linear_estimate(observed, block_scores(observed, 1.0))
    assert found.shares[-1] == pytest.approx(0, abs=1e-12)
    assert found.stds[-1] == pytest.approx(0, abs=1e-9)
    assert found.high[-1] == pytest.approx(3.689 / observed.n / observed.answer_rate, rel=3e-3)
    assert found.boundary[-1]


def test_a_sensitive_answer_that_nobody_gave_has_an_interval():
    world = block_world(5, 3, 12.0, [(1.0, complete(3, 1))])
    counts = np.array([0, 40, 60, 50, 50])
    found = linear_estimate(world.observed(counts), balanced_scores(complete(3, 1), 12.0))
    assert found.stds[0] == 0
    assert found.low[0] <= 0 < found.high[0]
    assert found.high[0] == pytest.approx(3.689 / 200, rel=0.02)


def test_intervals_of_many_reports_are_normal():
    counts = np.rint(10**9 * (np.full(10, 0.1) @ MIXED.matrix)).astype(np.int64)
    observed = MIXED.observed(counts)
    found = moments(observed, block_scores(observed, 0.8461))
    for reach in reaches(found):
        assert np.allclose(reach, 1.959964 * np.sqrt(found.variances), rtol=1e-3)


@pytest.mark.parametrize("consistency", [Consistency.CLIP, Consistency.SIMPLEX])
def test_consistent_intervals_are_the_linear_ones_within_0_and_1(consistency):
    chance = zipf(10, 2.0, 2) @ MIXED.matrix
    observed = MIXED.observed(np.random.default_rng(3).multinomial(300, chance))
    scores = block_scores(observed, 0.8461)
    plain, found = (linear_estimate(observed, scores, consistency=c) for c in (Consistency.NONE, consistency))
    assert (plain.shares < 0).any()
    moved = found.shares - plain.shares
    assert (found.stds == plain.stds).all()
    assert np.allclose(found.low, np.minimum(np.clip(plain.low, 0, 1), found.shares))
    assert np.allclose(found.high, np.maximum(np.clip(plain.high, 0, 1), found.shares))
    assert ((found.low <= found.shares) & (found.shares <= found.high)).all()
    assert (found.biased == (moved != 0)).all()
    assert found.boundary[found.shares == 0].all()
    assert not plain.biased.any()


@pytest.mark.parametrize("consistency", Consistency)
def test_nothing_is_biased_where_nothing_was_clipped(consistency):
    counts = np.rint(10**6 * (np.full(8, 1 / 8) @ CASES["uss, zipf"][0].matrix)).astype(np.int64)
    observed = CASES["uss, zipf"][0].observed(counts)
    found = linear_estimate(observed, subset_scores(complete(5, 2), 0.5), consistency=consistency)
    assert not found.biased.any()
    assert not found.boundary.any()
