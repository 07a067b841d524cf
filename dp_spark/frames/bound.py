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

    kept = _chosen(pair, row_word, bounds.most_rows_in_group)
    kept &= _chosen(unit_of_pair, pair_word, bounds.most_groups)[pair]
    return order[kept], _starts(pair[kept])


def _starts(sorted_values: Integers) -> NDArray[np.bool_]:
    """Where a run of equal values begins."""
    starts = np.ones(len(sorted_values), dtype=bool)
    starts[1:] = sorted_values[1:] != sorted_values[:-1]
    return starts


def _chosen(segment: Integers, word: NDArray[np.uint64], limit: int) -> NDArray[np.bool_]:
    """Whether each element is among the `limit` of its segment with the least words; segments are sorted.

    Equal words keep the order they came in, which is that of the content.
    """
    sizes = np.bincount(segment)
    contested = np.flatnonzero((sizes > limit)[segment])
    by_word = contested[np.lexsort((word[contested], segment[contested]))]
    crowds = sizes[sizes > limit]
    rank = np.arange(len(by_word)) - np.repeat(np.cumsum(crowds) - crowds, crowds)
    chosen = np.ones(len(segment), dtype=bool)
    chosen[by_word[rank >= limit]] = False
    return chosen


def _blocks(high: NDArray[np.generic], low: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Pairs of 64-bit integers as 16-byte blocks, shape (n, 16)."""
    pairs = np.stack([high.astype(np.uint64), low.astype(np.uint64)], axis=1).astype(">u8")
    return pairs.view(np.uint8).reshape(-1, 16)
