"""Contribution bounds: which rows of a unit count, chosen by a keyed order that nothing else can sway.

The choice is a function of the unit's own rows and the key alone: not of other units, of the order rows
arrive in, of partitions or batches. So one unit more or less changes nothing for the others, and every
evaluation keeps the same rows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_spark.noise import encode_label, words
from dp_spark.queries import Bounds

Integers = NDArray[np.int64]
_PAIR, _ROW = encode_label("bound", "pair"), encode_label("bound", "row")


def kept_rows(
    *,
    unit: Integers,
    unit_hash: Integers,
    group: Integers,
    values: Sequence[Integers],
    key: bytes,
    bounds: Bounds,
) -> tuple[Integers, NDArray[np.bool_]]:
    """Indices of the rows that count, and for each whether it is the first of its (unit, group).

    All arrays have shape (rows,). At most `bounds.max_rows_per_group` rows of a unit are kept in each of
    at most `bounds.max_groups` groups. `unit` tells units apart exactly (any numbering); `unit_hash` only
    seeds the order, so a collision costs no privacy.
    """
    order = np.lexsort((*reversed(values), group, unit))
    unit, group = unit[order], group[order]
    starts_pair = _starts(unit) | _starts(group)
    first = np.flatnonzero(starts_pair)
    pair = np.cumsum(starts_pair) - 1
    position = np.arange(len(order)) - first[pair]

    pair_word = words(key, _PAIR, _blocks(unit_hash[order][first], group[first]))[:, 0]
    row_word = words(key, _ROW, _blocks(pair_word[pair], position))[:, 0]
    unit_of_pair = np.cumsum(_starts(unit)[first]) - 1

    row_rank = _rank(pair, row_word)
    kept = (row_rank < bounds.max_rows_per_group) & (_rank(unit_of_pair, pair_word) < bounds.max_groups)[pair]
    return order[kept], (row_rank == 0)[kept]


def _starts(sorted_values: Integers) -> NDArray[np.bool_]:
    """Where a run of equal values begins."""
    starts = np.ones(len(sorted_values), dtype=bool)
    starts[1:] = sorted_values[1:] != sorted_values[:-1]
    return starts


def _rank(segment: Integers, word: NDArray[np.uint64]) -> Integers:
    """Place of each element within its segment by word; `segment` is sorted and dense.

    Equal words keep the order they came in, which is that of the content.
    """
    sizes = np.bincount(segment)
    rank = np.empty(len(segment), dtype=np.int64)
    rank[np.lexsort((word, segment))] = np.arange(len(segment)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank


def _blocks(high: NDArray[np.generic], low: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Pairs of 64-bit integers as 16-byte blocks, shape (n, 16)."""
    pairs = np.stack([high.astype(np.uint64), low.astype(np.uint64)], axis=1).astype(">u8")
    return pairs.view(np.uint8).reshape(-1, 16)
