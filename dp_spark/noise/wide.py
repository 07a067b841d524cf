"""Unsigned 128-bit integers as rows (high, low) of a uint64 array of shape (n, 2)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 128
BYTES_PER_ROW = 16

Wide = NDArray[np.uint64]

_BLOCK = 2**14
_LIMB = np.uint64(32)
_LIMB_MASK = np.uint64(2**32 - 1)


def from_bytes(data: bytes | NDArray[np.uint8]) -> Wide:
    """The rows of `data`, 16 big-endian bytes each."""
    return np.frombuffer(data, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def to_bytes(rows: Wide) -> bytes:
    """The rows as 16 big-endian bytes each."""
    return rows.astype(">u8").tobytes()


def from_ints(values: Iterable[int]) -> Wide:
    """The integers as rows.

    Raises:
        OverflowError: a value is negative or needs more than 128 bits.
    """
    return from_bytes(b"".join(value.to_bytes(BYTES_PER_ROW, "big") for value in values))


def to_ints(rows: Wide) -> NDArray[Any]:
    """The rows as an object array of Python integers, shape (n,)."""
    integers: NDArray[Any] = rows[:, 0].astype(object) * 2**64 + rows[:, 1].astype(object)
    return integers


def to_floats(rows: Wide) -> NDArray[np.float64]:
    """The rows divided by 2^128, each within a relative 2^-51."""
    return np.ldexp(rows[:, 0].astype(np.float64), -64) + np.ldexp(rows[:, 1].astype(np.float64), -128)


def total(rows: Wide) -> int:
    """The exact sum, not reduced; at most 2^32 rows."""
    return sum(int(limb.sum()) << (32 * place) for place, limb in enumerate(_limbs(rows)))


def running_sums(rows: Wide) -> Wide:
    """Sums of the first 1, 2, ..., n rows modulo 2^128; at most 2^31 rows."""
    carried, carry = [], np.zeros(len(rows), dtype=np.uint64)
    for limb in _limbs(rows):
        sums = np.cumsum(limb) + carry
        carried.append(sums & _LIMB_MASK)
        carry = sums >> _LIMB
    return np.stack([carried[2] | carried[3] << _LIMB, carried[0] | carried[1] << _LIMB], axis=1)


def count_at_most(ascending: Wide, rows: Wide) -> NDArray[np.int64]:
    """For every row, how many entries of `ascending` are less than or equal to it, shape (n,).

    A bisection with the same number of steps for every row, both words compared at each step; in blocks
    that stay in the cache. Entries are filled up to a full tree with the largest word.
    """
    depth = len(ascending).bit_length()
    tree = np.full((2, 2**depth), np.iinfo(np.uint64).max)
    tree[:, : len(ascending)] = ascending.T
    found = np.zeros(len(rows), dtype=np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].T.copy()
        found[start : start + _BLOCK] = _descend(tree, depth, block)
    return np.minimum(found, len(ascending))


def _descend(tree: Wide, depth: int, block: Wide) -> NDArray[np.int64]:
    (high, low), (row_high, row_low) = tree, block
    found = np.zeros(block.shape[1], dtype=np.int64)
    for level in reversed(range(depth)):
        last = found + ((1 << level) - 1)
        probe = high[last]
        at_most = (probe < row_high) | ((probe == row_high) & (low[last] <= row_low))
        found += at_most.astype(np.int64) << level
    return found


def _limbs(rows: Wide) -> list[Wide]:
    high, low = rows[:, 0], rows[:, 1]
    return [low & _LIMB_MASK, low >> _LIMB, high & _LIMB_MASK, high >> _LIMB]
