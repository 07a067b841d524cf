"""Whether numbers of exact types are multiples of a grid, without a float or a Python loop."""

from fractions import Fraction
from math import gcd
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_Words: TypeAlias = NDArray[np.uint64]
_WORD = 2**64
_DIGITS_OF_A_WORD = 19


def are_multiples(values: "pa.Array[Any]", grid: Fraction) -> NDArray[np.bool_]:
    """Which of `values` are integers times `grid`, shape (n,).

    An unscaled u of scale s is one if u grid.denominator is divisible by grid.numerator 10^s.

    Args:
        values: integers, or decimals of at most 19 digits; none NULL.
        grid: positive.

    Raises:
        TypeError: `values` are of another type.
    """
    scale = values.type.scale if pa.types.is_decimal128(values.type) else 0
    divisor = grid.numerator * 10**scale
    divisor //= gcd(divisor, grid.denominator)
    magnitudes = _magnitudes(values)
    remainders = magnitudes if divisor >= _WORD else magnitudes % np.uint64(divisor)
    return np.equal(remainders, 0)


def _magnitudes(values: "pa.Array[Any]") -> _Words:
    """Absolute unscaled values; all of them fit a word of 64 bits."""
    if pa.types.is_signed_integer(values.type):
        words = values.cast(pa.int64()).to_numpy().view(np.uint64)
        negative = words >> np.uint64(63) == 1
    elif pa.types.is_decimal128(values.type) and values.type.precision <= _DIGITS_OF_A_WORD:
        buffer = values.buffers()[1]
        pairs = np.frombuffer(memoryview(buffer or b""), np.uint64).reshape(-1, 2)
        words, high = pairs[values.offset : values.offset + len(values)].T
        negative = high != 0
    else:
        raise TypeError(f"{values.type} is no exact type of a released table")
    return np.where(negative, np.uint64(0) - words, words)
