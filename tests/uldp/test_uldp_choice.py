"""The designs of uBD: near the limit for every number of sensitive categories, few blocks, quickly found."""

import importlib
import itertools
from fractions import Fraction

import pytest

from dp_spark.uldp import Affine, Complete, Field, Hadamard, Trivial, efficiency, limit
from dp_spark.uldp.blocks import Component
from dp_spark.uldp.choice import AS_GOOD, best_designs

MODULE = importlib.import_module("dp_spark.uldp.choice")

EPSILONS = [Fraction(text) for text in ("0.1", "0.5", "1", "2", "3", "5", "8")]
# Primes, powers of primes, one below and one above, and the far ends of gaps between primes.
POINTS = [1, 2, 3, 4, 5, 7, 8, 9, 14, 20, 24, 26, 31, 32, 50, 54, 62, 63, 68, 85, 90]


@pytest.mark.parametrize("v", POINTS)
def test_every_choice_is_within_half_a_percent_of_the_limit(v) -> None:
    for epsilon, w in itertools.product(EPSILONS, {max(v, 2), v + 24}):
        chosen = best_designs(w, v, epsilon)
        assert chosen.efficiency.exact
        assert 0.995 <= chosen.efficiency.value <= 1


def test_the_components_have_the_weights_and_the_sizes_of_the_limit() -> None:
    for v, epsilon, extra in itertools.product((1, 3, 6, 20, 50), EPSILONS[::2], (0, 5)):
        w = max(v + extra, 2)
        chosen, best = best_designs(w, v, epsilon), limit(w, v, epsilon)
        assert sum(weight for weight, _ in chosen.components) == 1
        for (weight, design), (size, wanted) in zip(
            chosen.components, best.block_weights.items(), strict=True
        ):
            assert float(weight) == pytest.approx(wanted, rel=1e-12)
            assert design.n_points == v
            assert v * design.replication / design.n_blocks == pytest.approx(size, abs=max(0.5, size / 20))


@pytest.mark.parametrize("v", [2, 7, 11, 16, 25, 32, 53, 64, 81, 97])
def test_primes_and_their_powers_and_few_subsets_reach_the_limit(v) -> None:
    for epsilon in EPSILONS:
        assert best_designs(v + 24, v, epsilon).efficiency.value == pytest.approx(1, abs=1e-12)


def test_singletons_and_pairs_reach_the_limit_at_every_v() -> None:
    mixed = 0
    for v, epsilon, extra in itertools.product((5, 20, 68, 300), (4, 5, 8), (0, 200)):
        sizes = set(limit(v + extra, v, epsilon).block_weights)
        if sizes <= {1, 2}:
            chosen = best_designs(v + extra, v, Fraction(epsilon))
            assert chosen.efficiency.value == pytest.approx(1, abs=1e-12)
            mixed += len(sizes) == 2
    assert mixed > 1


@pytest.mark.parametrize(
    ("v", "epsilon", "design"),
    [
        (15, "0.1", Hadamard(15, first=False)),
        (16, "1", Field(16, 16, 4)),
        (17, "1", Affine(17, 17, 5)),
        (14, "1", Complete(14, 4)),
        (5, "8", Trivial.singletons(5)),
    ],
)
def test_of_the_designs_that_reach_the_limit_it_takes_the_one_of_fewest_blocks(v, epsilon, design) -> None:
    assert best_designs(v, v, Fraction(epsilon)).components == (Component(Fraction(1), design),)


def test_for_few_points_no_size_of_any_kind_is_better() -> None:
    """Neither alone nor in mixtures."""
    for v, w, epsilon in [(3, 8, 0.7), (5, 10, 1.0), (7, 30, 2.0)]:
        chosen = best_designs(w, v, Fraction(str(epsilon)))
        subsets = [Complete(v, size) for size in range(1, v)]
        others = [Affine(v, 11, size) for size in range(2, 11)] + [Hadamard(v, first=False)]
        single = [efficiency(w, [(1, design)], epsilon).value for design in subsets + others]
        mixed = [
            efficiency(w, [(share, one), (1 - share, other)], epsilon).value
            for one, other in itertools.pairwise(subsets)
            for share in (0.25, 0.5, 0.75)
        ]
        assert chosen.efficiency.value >= max(single + mixed) - 1e-12


def test_a_design_of_more_blocks_has_to_be_better_and_one_of_fewer_may_be_a_little_worse() -> None:
    prime, power = Affine(26, 29, 8), Field(26, 27, 7)
    epsilon = Fraction(1)
    values = [efficiency(50, [(1, design)], epsilon).value for design in (prime, power)]
    assert MODULE._wins(50, power, prime, epsilon) == (values[1] >= values[0] + AS_GOOD)
    assert MODULE._wins(50, prime, power, epsilon) == (values[0] >= values[1] - AS_GOOD)


def test_a_design_whose_bound_is_too_low_is_not_looked_at(monkeypatch) -> None:
    best, hopeless = Affine(26, 29, 8), Hadamard(26, first=False)
    MODULE._judged(50, (Component(Fraction(1), best),), Fraction(3, 2))
    looked_at = []
    monkeypatch.setattr(MODULE, "efficiency", lambda *given: looked_at.append(given))
    assert not MODULE._wins(50, hopeless, best, Fraction(3, 2))
    assert looked_at == []


def test_below_the_least_efficiency_all_subsets_are_taken(monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "LEAST_EFFICIENCY", 1.0)
    assert MODULE._nearest(40, 30, 9, Fraction(1)) == Complete(30, 9)
    assert isinstance(MODULE._nearest(224, 200, 60, Fraction(1)), Affine)  # a report has no number for these


@pytest.mark.parametrize(
    ("v", "least"), [(600, 0.999), (5_040, 0.999), (8_192, 0.75), (100_000, 0.75), (1_000_000, 0.75)]
)
def test_many_points_are_judged_by_a_bound(v, least) -> None:
    """5040 and 8192 are next to, and at, powers of primes for which there is no table.

    Lines of more than some 5,800 points are too many: there the blocks of a Hadamard matrix are left.
    """
    for epsilon in (Fraction(1, 10), Fraction(1)):
        chosen = best_designs(v, v, epsilon)
        assert not chosen.efficiency.exact
        assert chosen.efficiency.value >= least
        assert chosen.components[0].design.n_blocks <= MODULE.MOST_LINES


def test_the_choice_does_not_depend_on_what_was_asked_before() -> None:
    asked = [(50, 26, Fraction(1)), (78, 54, Fraction(2)), (40, 15, Fraction(1, 2))]
    first = [best_designs(*each) for each in asked]
    best_designs.cache_clear()
    MODULE._judged.cache_clear()
    assert [best_designs(*each) for each in reversed(asked)] == first[::-1]
