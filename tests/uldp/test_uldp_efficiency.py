"""Efficiency of designs: against explicit channels, published figures, and both ways to compute it."""

import importlib
import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dp_spark.errors import PlanRefused
from dp_spark.uldp import efficiency, limit, mixture_mse
from dp_spark.uldp.designs import Ids, Incidence

MODULE = importlib.import_module("dp_spark.uldp.efficiency")


@dataclass(frozen=True)
class Written:
    """A design that is written out: a row of `matrix` is a block. Only what efficiency asks is there."""

    matrix: NDArray[np.bool_]
    name: str = "written"

    @property
    def n_points(self) -> int:
        return self.matrix.shape[1]

    @property
    def n_blocks(self) -> int:
        return len(self.matrix)

    @property
    def replication(self) -> int:
        (count,) = set(self.matrix.sum(axis=0).tolist())
        return count

    @property
    def pairs(self) -> int:
        whole = self.matrix.astype(np.int64)
        together = (whole.T @ whole)[~np.eye(self.n_points, dtype=bool)]
        (count,) = set(together.tolist()) or {0}
        return count

    def members(self, blocks: Ids) -> NDArray[np.bool_]:
        return self.matrix[blocks]

    def containing(self, points: Ids, index: Ids) -> Ids:
        raise NotImplementedError

    def missing(self, points: Ids, index: Ids) -> Ids:
        raise NotImplementedError

    def incidence(self, blocks: Ids) -> Incidence:
        raise NotImplementedError


def complete(v: int, k: int) -> Written:
    rows = list(itertools.combinations(range(v), k))
    matrix = np.zeros((len(rows), v), dtype=bool)
    for number, row in enumerate(rows):
        matrix[number, list(row)] = True
    return Written(matrix)


def affine(v: int, q: int, size: int) -> Written:
    a, b, x = np.ogrid[1 : (q + 1) // 2, 0:q, 0:v]
    return Written(((a * x + b) % q < size).reshape(-1, v))


def fisher_trace(w: int, components: list[tuple[float, Written]], epsilon: float, alpha: float) -> float:
    """The trace of the inverse Fisher information of the explicit channel, along the simplex."""
    v, growth, rows = components[0][1].n_points, math.expm1(epsilon), []
    answered = 0.0
    for share, design in components:
        c = share / (design.replication * growth + design.n_blocks)
        inside = np.where(design.matrix, c * (1 + growth), c)
        rows.append(np.hstack([inside, np.full((design.n_blocks, w - v), c)]))
        answered += share - c * design.n_blocks
    rows.append(np.hstack([np.zeros((w - v, v)), answered * np.eye(w - v)]))
    channel = np.vstack(rows)
    np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=1e-12)
    p = np.concatenate([np.full(v, alpha / v), np.full(w - v, (1 - alpha) / max(w - v, 1))])
    tangent = np.linalg.svd(np.ones((1, w)))[2][1:]
    slopes = channel @ tangent.T
    information = slopes.T @ (slopes / (channel @ p)[:, None])
    return float(np.trace(np.linalg.inv(information)))


def largest_trace(w: int, components: list[tuple[float, Written]], epsilon: float) -> float:
    found = minimize_scalar(
        lambda alpha: -fisher_trace(w, components, epsilon, alpha),
        bounds=(1e-9, 1 - 1e-9),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return float(-found.fun)


MIXTURES = [
    (10, 1.0, [(1.0, affine(8, 11, 4))]),
    (9, 0.5, [(1.0, affine(8, 11, 4))]),
    (30, 2.0, [(1.0, affine(7, 11, 2))]),
    (12, 1.5, [(0.6, complete(7, 1)), (0.4, affine(7, 11, 5))]),
    (40, 1.0, [(0.3, affine(6, 7, 3)), (0.7, affine(6, 11, 4))]),
    (12, 1.0, [(0.6, complete(5, 1)), (0.3, complete(5, 2)), (0.1, complete(5, 5))]),
    (9, 3.0, [(1.0, complete(1, 1))]),
]


@pytest.mark.parametrize(("w", "epsilon", "components"), MIXTURES)
def test_it_is_the_limit_over_the_trace_of_the_channel(w, epsilon, components) -> None:
    found = efficiency(w, components, epsilon)
    assert found.exact
    expected = limit(w, components[0][1].n_points, epsilon).mse / largest_trace(w, components, epsilon)
    assert found.value == pytest.approx(expected, rel=1e-7)
    if 0.01 < found.alpha < 0.99:
        trace = fisher_trace(w, components, epsilon, found.alpha)
        assert limit(w, components[0][1].n_points, epsilon).mse / found.value == pytest.approx(
            trace, rel=1e-10
        )


@pytest.mark.parametrize("epsilon", [0.4, 1.2, 2.5])
def test_where_all_are_sensitive_too(epsilon) -> None:
    components = [(1.0, affine(8, 11, 4))]
    found = efficiency(8, components, epsilon)
    assert found.alpha == 1
    expected = limit(8, 8, epsilon).mse / fisher_trace(8, components, epsilon, 1.0)
    assert found.value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("v", "q", "published"),
    [
        (8, 11, (0.958, 0.950, 0.866)),
        (20, 23, (0.994, 0.993, 0.989)),
        (32, 37, (0.995, 0.995, 0.985)),
    ],
)
def test_affine_designs_have_the_published_efficiency(v, q, published) -> None:
    """At epsilon 0.5, 1 and 2, where all are sensitive, of the best interval."""
    values = []
    for epsilon in (0.5, 1.0, 2.0):
        found = [efficiency(v, [(1.0, affine(v, q, size))], epsilon) for size in range(1, q // 2 + 1)]
        assert all(each.exact for each in found)
        values.append(round(max(each.value for each in found), 3))
    assert values == pytest.approx(published, abs=1e-9)


def test_the_best_mixture_of_complete_designs_reaches_the_limit() -> None:
    for case in [(10, 5, 1.0), (20, 6, 1.5), (10, 5, 0.5), (7, 7, 0.5), (9, 2, 1.0)]:
        best = limit(*case)
        components = [(share, complete(case[1], size)) for size, share in best.block_weights.items()]
        found = efficiency(case[0], components, case[2])
        assert found.value == pytest.approx(1, rel=1e-12)
        assert found.value <= 1
        assert found.alpha == pytest.approx(best.alpha, abs=1e-5)


def test_one_size_of_blocks_follows_the_closed_formula() -> None:
    components = [(0.25, complete(6, 2)), (0.75, complete(6, 4))]
    found = efficiency(15, components, 1.0)
    error = mixture_mse(15, 6, 1.0, alpha=found.alpha, block_weights={2: 0.25, 4: 0.75})
    assert limit(15, 6, 1.0).mse / found.value == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize(("w", "epsilon", "components"), MIXTURES[:5])
def test_without_a_look_at_the_blocks_it_errs_upward_and_little(w, epsilon, components, monkeypatch) -> None:
    truth = efficiency(w, components, epsilon)
    monkeypatch.setattr(MODULE, "_MOST_WORK", 0)
    found = efficiency(w, components, epsilon)
    assert not found.exact
    assert truth.value <= found.value <= min(1, truth.value * 1.25)


def test_more_points_bring_the_bound_nearer(monkeypatch) -> None:
    components = [(1.0, affine(54, 59, 16))]
    truth = efficiency(100, components, 1.0)
    monkeypatch.setattr(MODULE, "_MOST_WORK", 0)
    assert efficiency(100, components, 1.0).value == pytest.approx(truth.value, abs=0.003)


def test_the_chunks_of_blocks_make_no_difference(monkeypatch) -> None:
    components = [(1.0, affine(8, 11, 4))]
    whole = efficiency(20, components, 1.0)
    monkeypatch.setattr(MODULE, "_CHUNK", 50)
    assert efficiency(20, components, 1.0).value == pytest.approx(whole.value, rel=1e-12)


@pytest.mark.parametrize("way", ["_explicit_error", "_mean_error"])
@pytest.mark.parametrize(("w", "epsilon", "components"), MIXTURES[:6])
def test_the_slope_is_the_errors_derivative(w, epsilon, components, way) -> None:
    setting = MODULE.Setting.of(w, components[0][1].n_points, epsilon)
    error = getattr(MODULE, way)(setting, components)
    for alpha in (0.1, 0.5, 0.9):
        difference = (error(alpha + 1e-5)[0] - error(alpha - 1e-5)[0]) / 2e-5
        assert error(alpha)[1] == pytest.approx(difference, rel=1e-6, abs=1e-6)


def test_blocks_that_hold_all_points_tell_nothing() -> None:
    assert efficiency(9, [(1, complete(4, 4))], 1.0).value == 0
    assert efficiency(9, [(Fraction(1, 2), complete(4, 4)), (Fraction(1, 2), complete(4, 1))], 1.0).value > 0


def test_a_block_of_no_points_only_costs() -> None:
    matrix = complete(4, 2).matrix
    padded = replace(complete(4, 2), matrix=np.vstack([matrix, np.zeros((1, 4), dtype=bool)]))
    assert 0 < efficiency(9, [(1, padded)], 1.0).value < efficiency(9, [(1, complete(4, 2))], 1.0).value


@pytest.mark.parametrize(
    "components",
    [
        [],
        [(1, complete(4, 2)), (0, complete(4, 1))],
        [(0.5, complete(4, 2))],
        [(0.5, complete(4, 2)), (0.5, complete(5, 2))],
    ],
)
def test_what_is_no_mixture_of_designs_is_refused(components) -> None:
    with pytest.raises(PlanRefused, match="components"):
        efficiency(9, components, 1.0)
