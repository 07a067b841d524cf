"""The contract of all designs, proven exhaustively on small ones and looked at in large ones."""

import pickle

import numpy as np
import pytest

from dp_spark.uldp.affine import Affine
from dp_spark.uldp.complete import Complete
from dp_spark.uldp.designs import Design, Ids
from dp_spark.uldp.field import Field
from dp_spark.uldp.hadamard import Hadamard
from dp_spark.uldp.hashing import Hashing
from dp_spark.uldp.trivial import Trivial

LINES = ((1, 2), (2, 2), (1, 3), (3, 3), (5, 5), (11, 11), (8, 11), (5, 13))
FIELDS = ((1, 4), (4, 4), (3, 8), (8, 8), (7, 9), (9, 9), (16, 16), (14, 16))
SMALL: list[Design] = [
    Trivial.singletons(1),
    Trivial.singletons(5),
    Trivial.whole(4),
    *(Complete(v, k) for v in (1, 2, 5, 8) for k in range(1, v + 1)),
    *(Affine(v, q, k) for v, q in LINES for k in range(1, q)),
    *(Field(v, q, k) for v, q in FIELDS for k in (1, 2, 3, q // 2, q - 1)),
    *(Hadamard(v, True) for v in (1, 2, 3, 4, 7, 8, 15)),
    *(Hadamard(v, False) for v in (2, 3, 4, 7, 8, 15)),
    *(Hashing(v, q, cells) for v, q in LINES for cells in (2, 3, 4, q + 1, 2 * q + 3)),
]
# Many blocks, and few of them: every form of an incidence occurs.
LARGE: list[Design] = [
    Trivial.singletons(1000),
    Complete(40, 3),
    Complete(14, 7),
    Complete(14, 11),
    Affine(100, 101, 33),
    Affine(70, 101, 33),
    Field(64, 64, 20),
    Field(50, 81, 20),
    Hadamard(300, True),
    Hadamard(1100, False),
    Hashing(53, 53, 3),
    Hashing(40, 53, 7),
    Hashing(40, 53, 90),
]
# Too many blocks to see them all.
VAST: list[Design] = [
    Trivial.singletons(10**6),
    Complete(253, 8),
    Complete(65, 32),
    Complete(65, 33),
    Complete(2**20, 3),
    Complete(3000, 2998),
    Affine(253, 257, 100),
    Affine(300, 307, 3),
    Affine(10_000, 10_007, 5000),
    Affine(300, 46_021, 23_000),
    Affine(300, 2**31 - 1, 2**30),
    Field(253, 256, 90),
    Field(1000, 4096, 90),
    Hadamard(5000, True),
    Hadamard(5000, False),
    Hashing(253, 257, 4),
    Hashing(253, 257, 485_165_196),
    Hashing(300, 46_021, 1000),
    Hashing(300, 1_048_583, 8_000_000),
]


def identity(design: Design) -> str:
    return f"v={design.n_points}-{design.name}"


def every(design: Design) -> Ids:
    return np.arange(design.n_blocks)


small = pytest.mark.parametrize("design", SMALL, ids=identity)


@small
def test_a_uniform_index_is_a_uniform_block_of_the_point(design: Design) -> None:
    members = design.members(every(design))
    for point in range(design.n_points):
        index = np.arange(design.replication)
        found = design.containing(np.full_like(index, point), index)
        assert np.array_equal(np.bincount(found, minlength=design.n_blocks), members[:, point])


@small
def test_a_uniform_index_is_a_uniform_block_without_the_point(design: Design) -> None:
    members = design.members(every(design))
    for point in range(design.n_points):
        index = np.arange(design.n_blocks - design.replication)
        found = design.missing(np.full_like(index, point), index)
        assert np.array_equal(np.bincount(found, minlength=design.n_blocks), ~members[:, point])


@small
def test_the_family_is_regular_and_balanced(design: Design) -> None:
    members = design.members(every(design)).astype(np.int64)
    together = np.full((design.n_points, design.n_points), design.pairs)
    np.fill_diagonal(together, design.replication)
    assert members.shape == (design.n_blocks, design.n_points)
    assert np.array_equal(members.T @ members, together)
    assert design.n_points > 1 or design.pairs == 0


@pytest.mark.parametrize("design", SMALL + LARGE + VAST, ids=identity)
def test_people_with_different_answers_are_served_together(design: Design) -> None:
    rng = np.random.default_rng(7)
    points = rng.integers(0, design.n_points, 200)
    draws = [
        (design.containing, design.replication, True),
        (design.missing, design.n_blocks - design.replication, False),
    ]
    for blocks_of, n_index, inside in draws:
        if n_index > 0:
            index = rng.integers(0, n_index, points.size)
            index[:4] = 0, 0, n_index - 1, n_index - 1
            points[:4] = 0, design.n_points - 1, 0, design.n_points - 1
            given = [points.copy(), index.copy()]
            found = blocks_of(points, index)
            alone = [blocks_of(points[[i]], index[[i]])[0] for i in range(20)]
            members = design.members(found)
            assert found.dtype == np.int64
            assert (found >= 0).all()
            assert (found < design.n_blocks).all()
            assert np.array_equal(members[np.arange(points.size), points], np.full(points.size, inside))
            assert np.array_equal(found[:20], alone)
            assert np.array_equal(given, [points, index])


@pytest.mark.parametrize("design", SMALL + LARGE, ids=identity)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
def test_the_incidence_is_the_matrix_of_members(design: Design, share: float) -> None:
    rng = np.random.default_rng(8)
    n_chosen = max(1, round(share * design.n_blocks))
    blocks = rng.permutation(design.n_blocks)[:n_chosen]
    members = design.members(blocks).astype(np.float64)
    incidence = design.incidence(blocks)
    shares, weights = rng.dirichlet(np.ones(design.n_points)), rng.dirichlet(np.ones(blocks.size))
    assert np.abs(incidence.sums(shares) - members @ shares).max() < 1e-12
    assert np.abs(incidence.supports(weights) - weights @ members).max() < 1e-12


@pytest.mark.parametrize("design", SMALL + LARGE + VAST, ids=identity)
def test_a_design_is_a_value(design: Design) -> None:
    copy = pickle.loads(pickle.dumps(design))
    assert copy == design
    assert hash(copy) == hash(design)
    assert copy.name == design.name
    assert len(pickle.dumps(design)) < 200
    assert not hasattr(design, "__dict__")


@pytest.mark.parametrize("design", [Affine(257, 257, 100), Field(256, 256, 90), Affine(307, 307, 3)])
def test_with_all_points_every_block_has_the_size(design: Affine | Field) -> None:
    blocks = np.random.default_rng(9).integers(0, design.n_blocks, 500)
    assert (design.members(blocks).sum(axis=1) == design.size).all()
