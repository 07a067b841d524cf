"""Uniform words to uniform numbers 0..size-1, and the exact probability of each number.

A number is floor(word * size / 2^64), or the same of 128 bits. The words that give one number are 2^64 / size
of them, rounded down or up: nothing is rejected, every report takes the same work, and the error is exact.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Ids

WORD = 2**64
LARGEST_SIZE = 2**62  # a number is an int64

Words = NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def words_for(size: int) -> int:
    """How many words make a number below `size`, its probabilities equal within 2^-32 of them."""
    return 1 if size <= 2**32 else 2


def index_of(words: Words, size: int) -> Ids:
    """A number in 0..size-1 for each row of one or two words: (n, k) to (n,); `size` at most 2^62."""
    high = _high_product(words[:, 0], size)
    if words.shape[1] > 1:
        low = words[:, 0] * np.uint64(size)
        high += (low + _high_product(words[:, 1], size)) < low
    return high.view(np.int64)


def index_probability(index: int, size: int, n_words: int) -> Fraction:
    """The exact probability of a number."""
    span = WORD**n_words
    return Fraction(_first_word(index + 1, size, span) - _first_word(index, size, span), span)


def least_and_largest(size: int, n_words: int) -> tuple[Fraction, Fraction]:
    """Bounds of the probabilities of all numbers below `size`."""
    span = WORD**n_words
    return Fraction(span // size, span), Fraction(-(-span // size), span)


def _first_word(index: int, size: int, span: int) -> int:
    return -(-index * span // size)


def _high_product(words: Words, size: int) -> Words:
    """floor(word * size / 2^64)."""
    upper, lower = words >> _HALF, words & _LOW
    if size <= int(_LOW):
        factor = np.uint64(size)
        lower *= factor
        upper *= factor
        upper += lower >> _HALF
        upper >>= _HALF
        return upper
    size_upper, size_lower = np.uint64(size >> 32), np.uint64(size & int(_LOW))
    crossed = upper * size_lower + (lower * size_lower >> _HALF)
    middle = lower * size_upper + (crossed & _LOW)
    product: Words = upper * size_upper + (crossed >> _HALF) + (middle >> _HALF)
    return product
