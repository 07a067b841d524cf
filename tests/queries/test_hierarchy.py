"""Consistent histograms against dense linear algebra, and the branching that is chosen."""

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_spark.queries.hierarchy import branching_of, consistent, merged_bins, rank_variances

Floats = NDArray[np.float64]
SHAPES = [(1, 2), (2, 2), (7, 2), (9, 3), (10, 3), (23, 4), (5, 5), (6, 32)]


def design(bins: int, branching: int) -> Floats:
    """Which bins each cell of all levels adds up, shape (cells, bins)."""
    levels = [np.arange(bins) // merged for merged in merged_bins(bins, branching)]
    return np.vstack([level[None, :] == np.arange(level[-1] + 1)[:, None] for level in levels]).astype(float)


def variances(bins: int, branching: int, groups: int, rng: np.random.Generator) -> list[Floats]:
    return [rng.uniform(0.5, 2, (groups, -(-bins // merged))) for merged in merged_bins(bins, branching)]


def covariance(bins: int, branching: int, of_cells: Floats) -> Floats:
    """Of the generalised least squares estimate of the bins."""
    cells = design(bins, branching)
    return np.linalg.inv(cells.T @ np.diag(1 / of_cells) @ cells)


@pytest.mark.parametrize(("bins", "branching"), SHAPES)
@pytest.mark.parametrize("groups", [1, 3])
def test_counts_are_those_of_generalised_least_squares(bins: int, branching: int, groups: int) -> None:
    rng = np.random.default_rng(1)
    own, cells = variances(bins, branching, groups, rng), design(bins, branching)
    noisy = rng.normal(size=(3, len(cells)))
    ends = np.cumsum([each.shape[1] for each in own])[:-1]
    found = consistent(np.split(noisy, ends, axis=1), own, branching)
    for group in range(3):
        of_cells = np.concatenate([each[group % groups] for each in own])
        fit = covariance(bins, branching, of_cells) @ cells.T @ (noisy[group] / of_cells)
        assert found[group] == pytest.approx(fit)


@pytest.mark.parametrize(("bins", "branching"), SHAPES)
@pytest.mark.parametrize("groups", [1, 3])
def test_variances_are_those_of_generalised_least_squares(bins: int, branching: int, groups: int) -> None:
    own = variances(bins, branching, groups, np.random.default_rng(2))
    found = rank_variances(own, bins, branching)
    below = np.tril(np.ones((bins + 1, bins)), -1)
    for group in range(groups):
        of_bins = covariance(bins, branching, np.concatenate([each[group] for each in own]))
        assert found.of_bin[group] == pytest.approx(np.diag(of_bins))
        for share in (0.01, 0.5, 0.99):
            statistic = below - share
            assert found.of_rank(share)[group] == pytest.approx(
                np.diag(statistic @ of_bins @ statistic.T), abs=1e-12
            )


def test_one_variance_stands_for_all_cells_of_a_level() -> None:
    one, each = ([np.full(shape, 2.0) for shape in shapes] for shapes in ([(1, 1)] * 2, [(1, 9), (1, 3)]))
    for share in (0.1, 0.5):
        assert rank_variances(one, 9, 3).of_rank(share) == pytest.approx(
            rank_variances(each, 9, 3).of_rank(share)
        )


@pytest.mark.parametrize("bins", [2, 5, 42, 210, 1000])
def test_the_branching_is_the_best_of_all_and_found_at_once(bins: int) -> None:
    branching_of.cache_clear()
    start = time.process_time()
    chosen = branching_of(bins)
    assert time.process_time() - start < 0.2

    def median_variance(branching: int) -> float:
        levels = len(merged_bins(bins, branching))
        return float(
            rank_variances([np.full((1, 1), levels)] * levels, bins, branching).of_rank(0.5)[0, 1:-1].mean()
        )

    choices = [*range(2, min(bins, 32) + 1), bins]
    assert median_variance(chosen) == min(map(median_variance, choices))


def test_a_hierarchy_pays_where_there_are_many_bins() -> None:
    assert branching_of(3) == 3
    assert merged_bins(3, 3) == (1,)
    assert merged_bins(210, branching_of(210)) == (1, 3, 9, 27, 81)
    assert all(merged_bins(bins, branching_of(bins))[-1] < bins for bins in range(2, 1001, 7))
