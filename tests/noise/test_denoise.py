"""Estimates from released values: what they do exactly, and that they help where theory says so."""

import math

import numpy as np
import pytest

from dp_spark.noise.denoise import consistent_sums, james_stein, non_negative, soft_threshold

SHRINKERS = pytest.mark.parametrize("shrink", [james_stein, soft_threshold])


def test_james_stein_shrinks_by_the_factor_of_theory() -> None:
    released = np.array([3.0, -4.0, 0.0, 12.0])
    np.testing.assert_allclose(james_stein(released, 2.0).values, (1 - 2 * 4 / 169) * released)


def test_james_stein_never_turns_signs() -> None:
    assert not james_stein(np.array([0.5, -0.5, 0.1]), 1.0).values.any()
    assert not james_stein(np.zeros(5), 1.0).values.any()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_values_are_left_alone(n: int) -> None:
    released = np.arange(1.0, n + 1)
    found = james_stein(released, 1.0)
    np.testing.assert_array_equal(found.values, released)
    assert not found.biased


def test_soft_threshold_moves_values_to_zero() -> None:
    threshold = 0.5 * math.sqrt(2 * math.log(4))
    found = soft_threshold(np.array([2.0, -3.0, 0.1, -threshold]), 0.5).values
    np.testing.assert_allclose(found, [2 - threshold, threshold - 3, 0, 0])


@SHRINKERS
def test_without_noise_nothing_changes(shrink: object) -> None:
    released = np.array([1.0, -2.0, 3.0, 0.0])
    np.testing.assert_array_equal(shrink(released, 0.0).values, released)


@SHRINKERS
def test_estimates_scale_with_the_unit(shrink: object) -> None:
    released = np.array([1.0, -2.0, 3.0, 0.3, 5.0])
    np.testing.assert_allclose(shrink(7 * released, 7 * 0.8).values, 7 * shrink(released, 0.8).values)


def test_what_is_biased_says_so() -> None:
    released = np.array([1.0, -2.0, 3.0])
    assert james_stein(released, 1.0).biased
    assert soft_threshold(released, 1.0).biased
    assert non_negative(released).biased
    assert not consistent_sums(released, np.ones(3), np.array([[1.0, -1.0, -1.0]])).biased


def test_non_negative_is_never_farther_from_a_truth_without_signs() -> None:
    noise = np.random.default_rng(1).normal(0, 3, 1000)
    truth = np.abs(np.random.default_rng(2).normal(0, 2, 1000))
    found = non_negative(truth + noise).values
    assert np.all(np.abs(found - truth) <= np.abs(noise) + 1e-12)
    assert found.sum() > (truth + noise).sum()


@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize("size", [0.0, 0.5, 1.0, 3.0])
def test_james_stein_lowers_the_total_error(noise: str, size: float) -> None:
    """Mean total squared error over 4,000 vectors of 50 at std 1, against what Stein's lemma bounds it by.

    risk <= n - (n - 2)^2 / (n - 2 + sum of squares of the truth). The mean of 4,000 totals has a standard
    error below 0.5, 6 of them are 3: false alarms below 1e-8. A factor with n in place of n - 2, or no
    shrinkage at size 0, is 2 or 48 off: see the last line, which must fail the bound.
    """
    n, runs = 50, 4000
    rng = np.random.default_rng(5)
    truth = np.full(n, size)
    draws = truth + getattr(rng, noise)(0, 1 if noise == "normal" else math.sqrt(0.5), (runs, n))
    bound = n - (n - 2) ** 2 / (n - 2 + truth @ truth)
    error = np.mean([np.sum((james_stein(row, 1.0).values - truth) ** 2) for row in draws])
    assert error < bound + 3
    assert np.mean(np.sum((draws - truth) ** 2, axis=1)) > bound + 3 or size == 3.0


def test_soft_threshold_finds_the_few_cells_that_are_not_empty() -> None:
    truth = np.zeros(1000)
    truth[:5] = 50
    released = truth + np.random.default_rng(3).normal(0, 1, 1000)
    found = soft_threshold(released, 1.0).values
    assert np.sum((found - truth) ** 2) < 0.2 * np.sum((released - truth) ** 2)
    assert np.count_nonzero(found) < 20


@pytest.mark.parametrize("dense", [False, True])
def test_sums_become_consistent_and_stay_unbiased(dense: bool) -> None:
    """Total = a + b and a = c + d, unlike variances: the map keeps the truth, lowers variances."""
    constraints = np.array([[1.0, -1, -1, 0, 0], [0, 1, 0, -1, -1]])
    variances = np.array([4.0, 1, 9, 2, 2])
    covariance = np.diag(variances)
    if dense:
        covariance += 0.5
    given = covariance if dense else variances
    truth = np.array([10.0, 6, 4, 5, 1])
    np.testing.assert_allclose(consistent_sums(truth, given, constraints).values, truth)
    matrix = np.stack([consistent_sums(unit, given, constraints).values for unit in np.eye(5)], axis=1)
    np.testing.assert_allclose(constraints @ matrix, 0, atol=1e-12)
    np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-12)
    after = matrix @ covariance @ matrix.T
    assert np.all(np.diag(after) < np.diag(covariance))
    assert np.linalg.eigvalsh(covariance - after).min() > -1e-12


def test_sums_are_the_textbook_average() -> None:
    """One number measured twice: weights go as 1 / variance."""
    found = consistent_sums(np.array([1.0, 4.0]), np.array([1.0, 2.0]), np.array([[1.0, -1.0]]))
    np.testing.assert_allclose(found.values, [2, 2])


@pytest.mark.parametrize(
    ("released", "covariance", "constraints"),
    [
        (np.array([1.0, np.nan]), np.ones(2), np.ones((1, 2))),
        (np.ones((2, 2)), np.ones(2), np.ones((1, 2))),
        (np.ones(2), np.zeros(2), np.ones((1, 2))),
        (np.ones(2), np.array([[1.0, 2], [2, 1]]), np.ones((1, 2))),
        (np.ones(2), np.ones(3), np.ones((1, 2))),
        (np.ones(2), np.ones(2), np.ones((1, 3))),
        (np.ones(2), np.ones(2), np.ones((2, 2))),
    ],
)
def test_sums_that_make_no_sense_are_refused(
    released: np.ndarray, covariance: np.ndarray, constraints: np.ndarray
) -> None:
    with pytest.raises(ValueError, match=r"."):
        consistent_sums(released, covariance, constraints)


@SHRINKERS
@pytest.mark.parametrize("std", [-1.0, math.nan, math.inf])
def test_an_impossible_std_is_refused(shrink: object, std: float) -> None:
    with pytest.raises(ValueError, match="std"):
        shrink(np.ones(4), std)
