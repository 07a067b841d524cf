"""Keyed identities: each unit as a word of 128 bits that only the key can tell from random.

A unit is one or several values, each a text or a 64-bit integer. Its identity is a CBC-MAC of them, with
AES-256 and a key of its own for every column and number of blocks: on inputs of one length a secure PRF.
Two of n units share an identity with probability below n^2 / 2^128 (3e-21 for a billion), whoever chose
their names; the guarantee is computational in the same sense as the noise.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dp_spark.frames.text import layout, normal_texts
from dp_spark.noise import encode_label, words

Ids: TypeAlias = NDArray[np.uint64]
_BLOCK = 16
# By how many bytes of a text are still to come, up to a block, and one entry in front for none: the bits
# that are the text's, and the bit that ends it.
_KEPT, _ENDING = (np.zeros((_BLOCK + 2, _BLOCK), dtype=np.uint8) for _ in range(2))
for _left in range(_BLOCK + 1):
    _KEPT[_left + 1, :_left] = 0xFF
    _ENDING[_left + 1, _left : _left + 1] = 0x80
_KEPT, _ENDING = _KEPT.view(np.uint64), _ENDING.view(np.uint64)


def identities(columns: Sequence["pa.Array[Any]"], key: bytes) -> Ids:
    """The identity of each row's unit, shape (rows, 2); no column holds a NULL."""
    chained: Ids | None = None
    for place, column in enumerate(columns):
        is_text = pa.types.is_string(column.type)
        own = _of_texts(column, key, place) if is_text else _of_integers(column, key, place)
        chained = own if chained is None else _encrypted(chained, key, "then", place) ^ own
    assert chained is not None  # a unit has a column
    return chained if len(columns) == 1 else _encrypted(chained, key, "last", 0)


def _of_integers(column: "pa.Array[Any]", key: bytes, place: int) -> Ids:
    blocks = np.zeros((len(column), 2), dtype=np.uint64)
    blocks[:, 0] = column.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    return _encrypted(blocks, key, "integer", place)


def _of_texts(column: "pa.Array[Any]", key: bytes, place: int) -> Ids:
    """CBC-MAC of each text in NFC; texts of equal number of blocks share a key."""
    limits, body = layout(normal_texts(column))
    starts, sizes = limits[:-1].astype(np.int64), np.diff(limits).astype(np.int64)
    padding = np.zeros(_BLOCK, dtype=np.uint8)
    # The 16 bytes that begin at each position.
    content = sliding_window_view(np.concatenate([body, padding]), _BLOCK).view(f"V{_BLOCK}")[:, 0]
    needed = sizes // _BLOCK + 1  # the ending takes a bit
    ids = np.empty((len(column), 2), dtype=np.uint64)
    for blocks in np.flatnonzero(np.bincount(needed)).tolist():
        alike = needed == blocks
        rows = slice(None) if alike.all() else np.flatnonzero(alike)
        state: Any = np.uint64(0)
        for block in range(blocks):
            state = state ^ _padded(content, starts[rows], sizes[rows], block)
            state = _encrypted(state, key, f"text {blocks}", place)
        ids[rows] = state
    return ids


def _padded(
    content: NDArray[np.void], starts: NDArray[np.int64], sizes: NDArray[np.int64], block: int
) -> Ids:
    """One block of each text: its bytes, then a single bit, then zeros, shape (rows, 2)."""
    done = _BLOCK * block
    left = np.clip(sizes - done, -1, _BLOCK) + 1
    raw = content[np.minimum(starts + done, len(content) - 1)].view(np.uint64).reshape(-1, 2)
    raw &= np.take(_KEPT, left, axis=0)
    raw |= np.take(_ENDING, left, axis=0)
    return raw


def _encrypted(blocks: Ids, key: bytes, purpose: str, place: int) -> Ids:
    return words(key, encode_label("unit", purpose, place), blocks)
