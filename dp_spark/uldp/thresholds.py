"""Integer thresholds on a word of 64 bits, rounded so that no ratio of probabilities exceeds e^epsilon.

What is proved is what is drawn: every probability is an integer over 2^64 times that of a uniform number,
whose own rounding is part of the bound.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, floor

from flint import ctx

from dp_spark.errors import PlanRefused
from dp_spark.rationals import ball
from dp_spark.uldp.words import WORD, least_and_largest

_BITS = 128


@cache
def largest_ratio(epsilon: Fraction) -> Fraction:
    """A rational number below e^epsilon, by less than 2^-128."""
    with ctx.workprec(4 * _BITS):
        scaled = ball(epsilon).exp() * 2**_BITS
        return Fraction(int((scaled - 1).floor().unique_fmpz()), 2**_BITS)


@dataclass(frozen=True, slots=True)
class BlockThresholds:
    """How many of the words that choose a component lead where.

    Attributes:
        inside: for a sensitive input, to a block that contains it.
        outside: for a sensitive input, to a block without it.
        protected: for another input, to any block.
    """

    inside: int
    outside: int
    protected: int


def block_thresholds(
    words: int, replication: int, n_blocks: int, epsilon: Fraction, *, index_words: int
) -> BlockThresholds:
    """The thresholds of one component that is chosen by `words` of 2^64 words.

    The most is put inside, then the least on blocks for inputs that are not sensitive: of the channels within
    the ratio the one that says most.

    Raises:
        PlanRefused: epsilon is so small that the rounding of numbers alone exceeds the ratio.
    """
    ratio = largest_ratio(epsilon)
    inside_least, inside_most = least_and_largest(replication, index_words)
    any_least, any_most = least_and_largest(n_blocks, index_words)
    inside, outside_least, outside_most = words, Fraction(0), Fraction(0)
    if n_blocks > replication:
        outside_least, outside_most = least_and_largest(n_blocks - replication, index_words)
        inside = floor(words * ratio * outside_least / (inside_most + ratio * outside_least))
    outside = words - inside
    protected = ceil(inside * inside_most / (ratio * any_least))
    chances = [(inside * inside_least, inside * inside_most), (protected * any_least, protected * any_most)]
    if n_blocks > replication:
        chances.append((outside * outside_least, outside * outside_most))
    least, most = min(low for low, _ in chances), max(high for _, high in chances)
    if protected > words or not 0 < most <= ratio * least:
        raise PlanRefused(
            "local_epsilon",
            f"epsilon = {float(epsilon):g} is too small for words of 64 bits",
            way_out="take an epsilon of at least 0.0001",
        )
    return BlockThresholds(inside, outside, protected)


@dataclass(frozen=True, slots=True)
class BitThresholds:
    """How many of 2^64 words set a bit.

    Attributes:
        own: of the sensitive category that is the input.
        other: of any other sensitive category.
        answer: of the category that is the input, where it is not sensitive.
    """

    own: int
    other: int
    answer: int


def bit_thresholds(own: Fraction, other: Fraction, epsilon: Fraction) -> BitThresholds:
    """Thresholds near `own` and `other`, whose odds have a ratio of about e^epsilon, and never more.

    `other` is moved up until the ratio holds; then `answer` is the largest for which a protected report of an
    input that is not sensitive stays within the ratio of all others.
    """
    ratio = largest_ratio(epsilon)
    own_words = floor(own * WORD)
    own_odds = Fraction(own_words, WORD - own_words)
    other_words = max(ceil(other * WORD), ceil(WORD * own_odds / (own_odds + ratio)))
    silent = ceil(WORD * Fraction(own_words, other_words) / ratio)
    return BitThresholds(own_words, other_words, WORD - silent)


def split(weights: tuple[Fraction, ...]) -> tuple[int, ...]:
    """The words that choose each component: in proportion to the weights, 2^64 together."""
    shares = [floor(weight * WORD / sum(weights)) for weight in weights]
    shares[0] += WORD - sum(shares)
    return tuple(shares)
