"""Contribution bounds: which rows of a unit count, chosen by a keyed order that nothing else can sway.

The choice is a function of the unit's own rows and the key alone: not of other units, of the order rows
arrive in, of partitions or batches. So one unit more or less changes nothing for the others, and every
evaluation keeps the same rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_spark.frames.identity import Ids
from dp_spark.noise import encode_label, words
from dp_spark.queries import Bounds

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_PAIR, _ROW, _UNIT_ROW = (encode_label("bound", what) for what in ("pair", "row", "row of unit"))
# When rows are sorted, 36 of 64 bits tell units apart, and the others order the groups of a unit.
_PAIR_BITS, _UNIT_BITS = np.uint64(28), np.uint64(36)


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows that count; those of a unit, and of it in a group, stand together.

    Attributes:
        rows: their indices, shape (kept,).
        first: whether each is the first of its unit in its group, shape (kept,).
    """

    rows: Integers
    first: Flags


def kept_rows(
    ids: Ids, group: NDArray[Any], values: Sequence[NDArray[Any]], *, key: bytes, bounds: Bounds
) -> Kept:
    """The rows that count: at most as many groups, rows in each and rows in all of a unit as `bounds` say.

    Args:
        ids: identities of the rows' units, shape (rows, 2).
        group: numbers of their groups, shape (rows,).
        values: what else tells rows of a unit and group apart, unsigned integers, each of shape (rows,);
            rows alike in all are interchangeable.
        key: decides which.
        bounds: how many.
    """
    rows = _Pairs(ids, group, key)
    chosen = np.ones(len(rows.first), dtype=bool)
    if bounds.max_groups is not None:
        chosen = rows.rank < bounds.max_groups
    kept = np.repeat(chosen, rows.sizes)
    if bounds.max_rows_per_group is not None:
        crowded = chosen & (rows.sizes > bounds.max_rows_per_group)
        _keep_least(kept, crowded, rows, values, (key, _ROW), rows.pair, bounds.max_rows_per_group)
    if bounds.max_rows is not None:
        unit = rows.unit_of_pair[rows.pair]
        crowded = (np.bincount(unit[kept], minlength=rows.units) > bounds.max_rows)[rows.unit_of_pair]
        _keep_least(kept, crowded, rows, values, (key, _UNIT_ROW), unit, bounds.max_rows)
    return Kept(rows.order[kept], starts_of_runs(rows.pair[kept]))


def excess(ids: Ids, group: NDArray[Any], bounds: Bounds) -> int:
    """How many units, and units in a group, have more than `bounds` allow: counted anew, 0 if all is well.

    `ids` and `group` are of the rows that count, in the order of `Kept`.
    """
    unit_starts = id_starts(ids)
    pair_starts = unit_starts | starts_of_runs(group)
    found = (
        (bounds.max_groups, np.bincount(np.cumsum(unit_starts[pair_starts]))),
        (bounds.max_rows_per_group, np.bincount(np.cumsum(pair_starts))),
        (bounds.max_rows, np.bincount(np.cumsum(unit_starts))),
    )
    return sum(int((counts > limit).sum()) for limit, counts in found if limit is not None)


class _Pairs:
    """Rows in an order in which those of a unit stand together, its groups in a keyed random order.

    Attributes:
        order: indices of the rows in that order.
        ids: identities of their units.
        words: a word for each row's unit and group: a function of these and the key.
        first: where each pair of unit and group begins.
        sizes: rows of each pair.
        pair: number of each row's pair.
        unit_of_pair: number of each pair's unit.
        rank: place of each pair among those of its unit.
    """

    def __init__(self, ids: Ids, group: NDArray[Any], key: bytes) -> None:
        blocks = ids.copy()
        blocks[:, 1] ^= group
        pair_words = words(key, _PAIR, blocks)
        # Not of ids[:, 0]: its leading bits are the bucket's.
        packed = (ids[:, 1] >> _PAIR_BITS << _PAIR_BITS) | (pair_words[:, 0] >> _UNIT_BITS)
        self.order: Integers = np.argsort(packed)
        packed = packed[self.order]
        self.ids, in_order = np.take(ids, self.order, axis=0), group[self.order]
        unit_starts = id_starts(self.ids)
        pair_starts = unit_starts | starts_of_runs(in_order)
        together = np.array_equal(pair_starts, starts_of_runs(packed)) and np.array_equal(
            unit_starts, starts_of_runs(packed >> _PAIR_BITS)
        )
        if not together:  # two units, or two groups of one, have the same leading bits
            self.order = np.lexsort((group, pair_words[:, 1], pair_words[:, 0], ids[:, 1], ids[:, 0]))
            self.ids, in_order = np.take(ids, self.order, axis=0), group[self.order]
            unit_starts = id_starts(self.ids)
            pair_starts = unit_starts | starts_of_runs(in_order)
        self.words = pair_words
        self.first = np.flatnonzero(pair_starts)
        self.sizes = np.diff(np.append(self.first, len(ids)))
        self.pair = np.cumsum(pair_starts) - 1
        begins_unit = unit_starts[self.first]
        self.unit_of_pair = np.cumsum(begins_unit) - 1
        self.units = int(begins_unit.sum())
        self.rank = np.arange(len(self.first)) - np.flatnonzero(begins_unit)[self.unit_of_pair]


def _keep_least(
    kept: Flags,
    crowded: Flags,
    rows: _Pairs,
    values: Sequence[NDArray[Any]],
    word: tuple[bytes, bytes],
    segment: Integers,
    limit: int,
) -> None:
    """Of the kept rows of crowded pairs, keep the `limit` of each segment whose words are least.

    A row's word is a function of its pair's and of its place by content among the pair's kept rows.
    """
    if not crowded.any():
        return
    at = np.flatnonzero(kept & np.repeat(crowded, rows.sizes))
    pair = rows.pair[at]
    at = at[_by_content(pair, [value[rows.order[at]] for value in values])]
    starts = np.flatnonzero(starts_of_runs(pair))
    place = np.arange(len(pair)) - np.repeat(starts, np.diff(np.append(starts, len(pair))))
    blocks = np.take(rows.words, rows.order[at], axis=0)
    blocks[:, 1] ^= place.astype(np.uint64)
    key, label = word
    kept[at] = _least(segment[at], words(key, label, blocks)[:, 0], limit)


def _by_content(pair: Integers, values: Sequence[NDArray[Any]]) -> Integers:
    """The order of pairs, and within them of values; `pair` is sorted."""
    number = np.cumsum(starts_of_runs(pair)) - 1
    if int(number[-1]).bit_length() + sum(8 * value.itemsize for value in values) > 64:
        return np.lexsort((*reversed(values), number))
    packed = number.astype(np.uint64)
    for value in values:
        packed = (packed << np.uint64(8 * value.itemsize)) | value
    return np.argsort(packed)


def _least(segment: Integers, word: NDArray[np.uint64], limit: int) -> Flags:
    """Whether each element is among the `limit` of its segment with the least words; segments are sorted.

    Equal words keep the order they came in.
    """
    number = (np.cumsum(starts_of_runs(segment)) - 1).astype(np.uint64)
    bits = np.uint64(max(int(number[-1]).bit_length(), 1))
    packed = (number << (np.uint64(64) - bits)) | (word >> bits)
    order = np.argsort(packed)
    in_order = packed[order]
    if (in_order[1:] == in_order[:-1]).any():
        order = np.lexsort((word, number))
    sizes = np.bincount(number.astype(np.int64))
    rank = np.arange(len(segment)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    least = np.zeros(len(segment), dtype=bool)
    least[order[rank < limit]] = True
    return least


def starts_of_runs(in_order: NDArray[Any]) -> Flags:
    """Where a run of equal elements begins."""
    starts = np.ones(len(in_order), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=starts[1:])
    return starts


def id_starts(ids: Ids) -> Flags:
    """Where a run of equal identities begins."""
    return starts_of_runs(ids[:, 0]) | starts_of_runs(ids[:, 1])
