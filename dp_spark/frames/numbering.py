"""Groups as numbers: the index of each row's group among those that are released."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_spark.frames.text import normal_texts

GROUP, CELL, TEXT = "group", "cell", "text"
NO_GROUP = -1
_NULL = -1  # as the index of a text: the last of them, if one more is added


class GroupNumbers:
    """Finds the number of a group among `keys`, which are in code point order; travels to workers.

    Keys are compared as texts in NFC. A key that is not listed has no number or, with `other`, that of the
    last of `keys`, which then is no text that rows have. A key that holds a NULL has no number.

    Attributes:
        groups: how many there are.
        columns: of how many columns their keys are.
    """

    def __init__(self, keys: Sequence[tuple[str, ...]], *, other: bool = False) -> None:
        columns = [normal_texts(pa.array(column, pa.string())) for column in zip(*keys, strict=True)]
        self._listed = [pc.unique(column) for column in columns]
        self._prefixes: list[NDArray[np.int64] | None] = []  # None: every combination is listed
        number = np.zeros(len(keys), dtype=np.int64)
        for column, listed in zip(columns, self._listed, strict=True):
            place = pc.index_in(column, value_set=listed).to_numpy()
            combinations = (number.max() + 1) * len(listed)
            prefixes, number = np.unique(number * len(listed) + place, return_inverse=True)
            self._prefixes.append(None if len(prefixes) == combinations else prefixes)
        self.groups, self.columns = len(keys), len(columns)
        self._order = np.empty(self.groups, dtype=np.int32)
        self._order[number] = np.arange(self.groups, dtype=np.int32)
        self._unlisted = np.int32(self.groups - 1 if other else NO_GROUP)

    def of(self, columns: Sequence["pa.Array[Any]"]) -> NDArray[np.int32]:
        """The number of each row's group, or NO_GROUP, shape (rows,); one column of texts for each part."""
        distinct, rows = zip(*map(_distinct, columns), strict=True)
        places = [_places(texts, listed) for texts, listed in zip(distinct, self._listed, strict=True)]
        if len(columns) == 1:  # only texts that differ are looked up
            of_text: NDArray[np.int32] = np.append(self._found(places), np.int32(NO_GROUP))[rows[0]]
            return of_text
        found = self._found([np.append(place, -1)[row] for place, row in zip(places, rows, strict=True)])
        if self._unlisted != NO_GROUP:
            for row in rows:
                found[row == _NULL] = NO_GROUP
        return found

    def _found(self, places: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
        """The number of each group, (rows,) places of its parts among the listed texts, -1 for none."""
        number = np.zeros(len(places[0]), dtype=np.int64)
        known = np.ones(len(number), dtype=bool)
        for place, listed, prefixes in zip(places, self._listed, self._prefixes, strict=True):
            known &= place >= 0
            number = number * len(listed) + place
            if prefixes is not None:
                code, number = number, np.minimum(np.searchsorted(prefixes, number), len(prefixes) - 1)
                known &= prefixes[number] == code
        number[~known] = 0
        return np.where(known, self._order[number], self._unlisted)


def numbered(
    batches: Iterator[pa.RecordBatch], *, numbers: GroupNumbers, listed: Mapping[int, GroupNumbers]
) -> Iterator[pa.RecordBatch]:
    """The sums of released groups, with GROUP in place of its texts and the cell of a listed text found.

    `listed` is by the cell of the first of its texts. Texts that are not listed fall away.
    """
    for batch in batches:
        group = numbers.of(batch.columns[: numbers.columns]).astype(np.int64)
        names = batch.schema.names[numbers.columns :]
        rest: dict[str, Any] = dict(zip(names, batch.columns[numbers.columns :], strict=True))
        cell = rest.pop(CELL).to_numpy().astype(np.int64)
        text = rest.pop(TEXT, None)
        for start, texts in listed.items():
            here = cell == start
            at, number = np.flatnonzero(here), texts.of([text.filter(pa.array(here))])
            cell[at] += number
            group[at[number == NO_GROUP]] = NO_GROUP
        columns: list[Any] = [pa.array(group), pa.array(cell), *rest.values()]
        whole = pa.RecordBatch.from_arrays(columns, names=[GROUP, CELL, *rest])
        yield whole.filter(pa.array(group != NO_GROUP))


def _distinct(column: "pa.Array[Any]") -> "tuple[pa.Array[Any], NDArray[np.int32]]":
    """The texts that differ, and which of them each row has, _NULL for none."""
    coded: Any = column.dictionary_encode()
    return coded.dictionary, coded.indices.fill_null(_NULL).to_numpy()


def _places(texts: "pa.Array[Any]", listed: "pa.Array[Any]") -> NDArray[np.int64]:
    """Where each text stands among `listed`, -1 for none."""
    found: Any = pc.index_in(normal_texts(texts), value_set=listed)
    return found.fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
