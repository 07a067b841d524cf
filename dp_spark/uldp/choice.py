"""Which designs uBD uses: of those whose reports are few enough to be counted, the most efficient.

Where the limit takes singletons and pairs, all subsets are few, or v is a prime or a power of one, the limit
is reached exactly. Else blocks of about the wanted size come from the least prime and the least prime power
that have enough points, or from a Hadamard matrix; each is judged by its Fisher information against the
limit, exact where `efficiency` is, unless a bound of it is already too low.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb

from dp_spark.uldp.affine import Affine
from dp_spark.uldp.blocks import Component
from dp_spark.uldp.complete import Complete
from dp_spark.uldp.designs import Design
from dp_spark.uldp.efficiency import Efficiency, efficiency, least_mse
from dp_spark.uldp.field import Field
from dp_spark.uldp.hadamard import Hadamard
from dp_spark.uldp.limit import limit
from dp_spark.uldp.primes import is_prime, least_prime, least_prime_power
from dp_spark.uldp.ranges import LARGEST_NUMBER
from dp_spark.uldp.trivial import Trivial

MOST_BLOCKS = 1_000_000  # what one grouping of the reports collects at ease
MOST_LINES = 2**24  # of a field; of more, estimates would take the people times the categories
LEAST_EFFICIENCY = 0.995  # below it all subsets are taken, however many, if a report can number them
AS_GOOD = 0.001  # of the efficiency is given away for fewer blocks


@dataclass(frozen=True, slots=True)
class Chosen:
    """Designs with their weights, and what they reach.

    Attributes:
        components: as a mechanism takes them.
        efficiency: against the limit; 1 where it is reached.
    """

    components: tuple[Component, ...]
    efficiency: Efficiency


@cache
def best_designs(n_categories: int, n_sensitive: int, epsilon: Fraction) -> Chosen:
    """The designs of uBD, and their efficiency.

    Raises:
        PlanRefused: a number is out of range.
    """
    weights = limit(n_categories, n_sensitive, epsilon).block_weights
    total = sum(map(Fraction, weights.values()))
    components = tuple(
        Component(Fraction(weight) / total, _of_size(n_categories, n_sensitive, size, epsilon))
        for size, weight in weights.items()
    )
    return Chosen(components, _judged(n_categories, components, epsilon))


@cache
def _judged(w: int, components: tuple[Component, ...], epsilon: Fraction) -> Efficiency:
    return efficiency(w, components, epsilon)


def _of_size(w: int, v: int, size: int, epsilon: Fraction) -> Design:
    """A design with blocks of this size, exactly or about."""
    if size in (1, v):
        return Trivial(v, size)
    exact = [design for design in _exact(v, size) if size == 2 or design.n_blocks <= MOST_BLOCKS]
    return min(exact, key=lambda design: design.n_blocks) if exact else _nearest(w, v, size, epsilon)


def _exact(v: int, size: int) -> Iterator[Design]:
    """Designs whose blocks all have this size."""
    if _subsets_have_numbers(v, size):
        yield Complete(v, size)
    if v in _orders(v):
        yield _kind(v)(v, v, size)
    hadamard = Hadamard(v, first=False)
    if hadamard.order == v + 1 == 2 * (size + 1):
        yield hadamard


def _nearest(w: int, v: int, size: int, epsilon: Fraction) -> Design:
    """The design with blocks of about this size that is most efficient, or nearly so with fewer blocks."""
    lines = (_lines(w, v, q, size, epsilon) for q in _orders(v) if q**2 <= 2 * MOST_LINES)
    best, *others = (*lines, Hadamard(v, first=False))
    for other in others:
        if _wins(w, other, best, epsilon):
            best = other
    if _judged(w, _only(best), epsilon).value < LEAST_EFFICIENCY and _subsets_have_numbers(v, size):
        return Complete(v, size)
    return best


def _wins(w: int, other: Design, best: Design, epsilon: Fraction) -> bool:
    """Whether the other tells more by AS_GOOD, or has fewer blocks and does not tell less by that."""
    margin = -AS_GOOD if other.n_blocks < best.n_blocks else AS_GOOD
    needed = _judged(w, _only(best), epsilon).value + margin
    most = limit(w, best.n_points, epsilon).mse / least_mse(w, _only(other), epsilon)
    return most >= needed and _judged(w, _only(other), epsilon).value >= needed


def _lines(w: int, v: int, q: int, size: int, epsilon: Fraction) -> Design:
    """The design over q elements that has blocks of about this size among v points."""
    near = round(size * q / v)
    tried = (_kind(q)(v, q, number) for number in range(near - 1, near + 2) if 1 < number < q)
    return min(tried, key=lambda design: least_mse(w, _only(design), epsilon))


def _orders(v: int) -> list[int]:
    """Of the fields to take v points from: the least prime, and the least of all if it has few lines."""
    prime, least = least_prime(v), least_prime_power(v)
    return [prime, least] if least < prime and least**2 <= MOST_BLOCKS else [prime]


def _subsets_have_numbers(v: int, size: int) -> bool:
    """Whether a report can number them; of 62 points and more, and as many others, there are too many."""
    return comb(v, min(size, v - size, 62)) < LARGEST_NUMBER


def _kind(q: int) -> type[Affine] | type[Field]:
    return Affine if is_prime(q) else Field


def _only(design: Design) -> tuple[Component, ...]:
    return (Component(Fraction(1), design),)
