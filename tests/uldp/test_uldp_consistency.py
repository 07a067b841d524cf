"""Clipping and projecting shares: against conditions that only the nearest point meets, and a solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from dp_spark.uldp.consistency import clipped, consistent, projected
from dp_spark.uldp.estimate import Consistency

some_shares = arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3, width=32))


@given(some_shares)
def test_projected_shares_meet_the_conditions_of_the_nearest_point(shares):
    found = projected(shares)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1, abs=1e-12)
    moved = shares - found
    shift = moved[np.argmax(found)]
    assert np.allclose(moved[found > 0], shift, atol=1e-12)
    assert (moved[found == 0] <= shift + 1e-12).all()


@pytest.mark.parametrize("seed", range(5))
def test_projected_shares_are_those_of_a_general_solver(seed):
    shares = np.random.default_rng(seed).normal(0.2, 0.4, 6)
    solved = minimize(
        lambda p: ((p - shares) ** 2).sum(),
        np.full(6, 1 / 6),
        jac=lambda p: 2 * (p - shares),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-14},
    )
    assert np.allclose(projected(shares), solved.x, atol=1e-6)


@given(some_shares)
def test_clipped_shares_keep_the_proportions_of_the_positive_ones(shares):
    found = clipped(shares)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    positive = np.maximum(shares, 0)
    if positive.any():
        assert np.allclose(found * positive.sum(), positive, atol=1e-12)
    else:
        assert (found == 1 / len(shares)).all()


@pytest.mark.parametrize("consistency", Consistency)
def test_shares_that_are_consistent_stay(consistency):
    shares = np.array([0.5, 0.25, 0.25, 0.0])
    assert (consistent(shares, consistency) == shares).all()


def test_none_leaves_all_shares():
    shares = np.array([-0.5, 0.7])
    assert consistent(shares, Consistency.NONE) is shares
