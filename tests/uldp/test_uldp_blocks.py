"""The blocks of each construction against its definition, in whole numbers of any size; and refusals."""

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np
import pytest
from flint import fq_default_ctx
from scipy.linalg import hadamard

from dp_spark.errors import PlanRefused
from dp_spark.uldp import arcs
from dp_spark.uldp.affine import Affine
from dp_spark.uldp.complete import Complete
from dp_spark.uldp.designs import Design
from dp_spark.uldp.field import Field
from dp_spark.uldp.galois import galois
from dp_spark.uldp.hadamard import Hadamard, Transformed, transform
from dp_spark.uldp.hashing import Hashing
from dp_spark.uldp.incidence import Explicit
from dp_spark.uldp.primes import is_prime, least_prime, least_prime_power, prime_power
from dp_spark.uldp.trivial import Trivial


def numbers_of(design: Design) -> list[int]:
    """Some block numbers, among them the first and the last."""
    some = np.random.default_rng(3).integers(0, design.n_blocks, 30).tolist()
    return [0, design.n_blocks - 1, *some]


def points_of(design: Design) -> list[int]:
    some = np.random.default_rng(4).integers(0, design.n_points, 30).tolist()
    return [0, design.n_points - 1, *some]


@pytest.mark.parametrize("n_points", [300, 46_021])
@pytest.mark.parametrize("prime", [46_021, 65_537, 2**31 - 1])
def test_a_line_is_exact_up_to_the_largest_prime(n_points: int, prime: int) -> None:
    design = Affine(n_points, prime, prime // 3)
    points = points_of(design)
    members = design.members(np.array(numbers_of(design)))
    for number, row in zip(numbers_of(design), members, strict=True):
        a, b = number // prime + 1, number % prime
        assert row[points].tolist() == [(a * x + b) % prime < design.size for x in points]
    first = design.containing(np.array(points), np.full(len(points), design.replication - 1))
    assert first.tolist() == [
        (prime - 1) // 2 * prime - prime + (design.size - 1 - (prime - 1) // 2 * x) % prime for x in points
    ]


@pytest.mark.parametrize("size", range(1, 11))
def test_the_other_half_of_the_multipliers_repeats_the_blocks(size: int) -> None:
    def block(a: int, b: int) -> set[int]:
        return {x for x in range(11) if (a * x + b) % 11 < size}

    design = Affine(11, 11, size)
    members = design.members(np.arange(design.n_blocks))
    for a in range(1, 6):
        for b in range(11):
            assert set(np.flatnonzero(members[(a - 1) * 11 + b])) == block(a, b) == block(-a, size - 1 - b)


@pytest.mark.parametrize(
    "design",
    [Hashing(8, 11, 3), Hashing(300, 46_021, 1000), Hashing(300, 2**20 + 7, 8_000_000), Hashing(5, 5, 2**40)],
)
def test_a_hash_is_exact_up_to_the_largest_numbers(design: Hashing) -> None:
    points, q = points_of(design), design.prime
    hashes = [0, design.n_hashes - 1, *np.random.default_rng(5).integers(0, design.n_hashes, 20).tolist()]
    for number in hashes:
        a, b = number // q + 1, number % q
        cells = [(a * x + b) % q * design.cells // q for x in points]
        found = design.containing(np.array(points), np.full(len(points), number))
        assert found.tolist() == [number * design.cells + cell for cell in cells]


def colex(v: int, k: int) -> list[tuple[int, ...]]:
    return sorted(combinations(range(v), k), key=lambda block: block[::-1])


@pytest.mark.parametrize(("v", "k"), [(v, k) for v in range(1, 8) for k in range(1, v + 1)])
def test_subsets_are_numbered_in_colexicographic_order(v: int, k: int) -> None:
    members = Complete(v, k).members(np.arange(comb(v, k)))
    assert [tuple(np.flatnonzero(row)) for row in members] == colex(v, k)


@pytest.mark.parametrize(("v", "k"), [(65, 32), (65, 33), (253, 9), (2**20, 3), (3000, 2998), (62, 10)])
def test_ranks_are_exact_up_to_the_largest(v: int, k: int) -> None:
    design = Complete(v, k)
    for number, row in zip(numbers_of(design), design.members(np.array(numbers_of(design))), strict=True):
        block = np.flatnonzero(row).tolist()
        assert len(block) == k
        assert sum(comb(point, place + 1) for place, point in enumerate(block)) == number


@pytest.mark.parametrize("n_points", [1, 2, 3, 7, 8, 20, 31])
@pytest.mark.parametrize("first", [True, False])
def test_blocks_are_columns_of_the_hadamard_matrix(n_points: int, first: bool) -> None:
    if n_points == 1 and not first:
        return
    design = Hadamard(n_points, first)
    columns = hadamard(design.order)[1 : n_points + 1, 0 if first else 1 :]
    assert np.array_equal(design.members(np.arange(design.n_blocks)).T, columns == 1)


@pytest.mark.parametrize("order", [1, 2, 4, 64])
def test_the_transform_is_the_product_with_the_matrix(order: int) -> None:
    values = np.random.default_rng(1).normal(size=order)
    assert np.allclose(transform(values), hadamard(order) @ values, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("p", "m"), [(2, 2), (2, 3), (3, 2), (5, 2), (3, 3), (2, 5)])
def test_tables_are_the_arithmetic_of_the_field(p: int, m: int) -> None:
    field, order = fq_default_ctx(p, m), p**m
    elements = [field([number // p**place % p for place in range(m)]) for number in range(order)]
    number_of = {str(element): number for number, element in enumerate(elements)}
    tables, every = galois(p, m), np.arange(order)
    products, differences, sums = (
        operation(every[:, None], every) for operation in (tables.product, tables.difference, tables.sum)
    )
    for i, x in enumerate(elements):
        for j, y in enumerate(elements):
            assert products[i, j] == number_of[str(x * y)]
            assert differences[i, j] == number_of[str(x - y)]
            assert sums[i, j] == number_of[str(x + y)]


def test_numbers_of_elements_stay_what_they_are() -> None:
    """A stored report names a block by them. By hand, from x^2 + x + 1, x^3 + x + 1 and x^2 + 2 x + 2."""
    squares = {q: galois(*prime_power(q)).product(np.arange(q), np.arange(q)).tolist() for q in (4, 8, 9)}
    assert squares == {4: [0, 1, 3, 2], 8: [0, 1, 4, 5, 6, 7, 2, 3], 9: [0, 1, 1, 4, 2, 8, 4, 8, 2]}


def test_every_field_of_the_tables_has_a_primitive_element() -> None:
    for order in range(4, 4097):
        p, m = prime_power(order) or (0, 0)
        if m > 1:
            assert sorted(galois(p, m).powers[: order - 1]) == list(range(1, order))


@pytest.mark.parametrize("at_once", [1, 40, 200])
@pytest.mark.parametrize("design", [Affine(17, 19, 7), Hashing(17, 19, 2)])
def test_circles_may_be_worked_on_in_parts(
    design: Affine | Hashing, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arcs, "_CHUNK", at_once)
    rng = np.random.default_rng(2)
    blocks = rng.permutation(np.repeat(np.arange(design.n_blocks), 4))
    members, incidence = design.members(blocks), design.incidence(blocks)
    shares, weights = rng.random(17), rng.random(blocks.size)
    assert isinstance(incidence, arcs.Arcs)
    assert len(incidence.parts) == {1: 9, 40: 5, 200: 1}[at_once]
    assert np.allclose(incidence.sums(shares), members @ shares, rtol=1e-12)
    assert np.allclose(incidence.supports(weights), weights @ members, rtol=1e-12)


def test_few_blocks_are_a_matrix_and_many_are_not() -> None:
    few = np.arange(20)
    quick: dict[Design, type] = {
        Affine(253, 257, 100): arcs.Arcs,
        Hashing(253, 257, 4): arcs.Arcs,
        Hadamard(1000, True): Transformed,
    }
    for design, form in quick.items():
        assert isinstance(design.incidence(few), Explicit)
        assert isinstance(design.incidence(np.arange(design.n_blocks)), form)


def test_hashing_takes_the_least_prime() -> None:
    assert Hashing.of(1, 3) == Hashing(1, 2, 3)
    assert Hashing.of(253, 3) == Hashing(253, 257, 3)


def test_primes_are_the_least() -> None:
    sieve = [n for n in range(2, 400) if all(n % d for d in range(2, n))]
    powers = sorted({p**m for p in sieve for m in range(1, 10) if p**m < 400})
    for number in range(-2, 390):
        assert is_prime(number) == (number in sieve)
        assert least_prime(number) == min(p for p in sieve if p >= number)
        assert least_prime_power(number) == min(q for q in powers if q >= number)
        assert (prime_power(number) is not None) == (number in powers)
    assert prime_power(243) == (3, 5)


REFUSED: list[tuple[Callable[[], Design], str]] = [
    (lambda: Trivial.singletons(0), "design_out_of_range"),
    (lambda: Trivial.whole(-1), "design_out_of_range"),
    (lambda: Trivial(5, 2), "design_out_of_range"),
    (lambda: Complete(0, 1), "design_out_of_range"),
    (lambda: Complete(5, 0), "design_out_of_range"),
    (lambda: Complete(5, 6), "design_out_of_range"),
    (lambda: Complete(66, 33), "too_many_blocks"),
    (lambda: Complete(253, 125), "too_many_blocks"),
    (lambda: Complete(2**22 + 1, 1), "design_out_of_range"),
    (lambda: Affine(0, 5, 1), "design_out_of_range"),
    (lambda: Affine(6, 5, 1), "design_out_of_range"),
    (lambda: Affine(5, 9, 1), "not_a_prime"),
    (lambda: Affine(5, 2**31 + 11, 1), "design_out_of_range"),
    (lambda: Affine(5, 5, 0), "design_out_of_range"),
    (lambda: Affine(5, 5, 5), "design_out_of_range"),
    (lambda: Field(0, 4, 1), "design_out_of_range"),
    (lambda: Field(5, 4, 1), "design_out_of_range"),
    (lambda: Field(5, 7, 1), "not_a_prime_power"),
    (lambda: Field(5, 6, 1), "not_a_prime_power"),
    (lambda: Field(5, 8192, 1), "design_out_of_range"),
    (lambda: Field(5, 8, 8), "design_out_of_range"),
    (lambda: Hadamard(0, True), "design_out_of_range"),
    (lambda: Hadamard(1, False), "design_out_of_range"),
    (lambda: Hashing(5, 5, 1), "design_out_of_range"),
    (lambda: Hashing(5, 6, 2), "not_a_prime"),
    (lambda: Hashing(5, 2**31 - 1, 4), "too_many_blocks"),
]


@pytest.mark.parametrize(("made", "code"), REFUSED)
def test_parameters_out_of_range_are_refused(made: Callable[[], Design], code: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        made()
    assert refused.value.code == code
    assert "way out: " in str(refused.value)
