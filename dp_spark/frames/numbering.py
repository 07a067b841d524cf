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
        places = [_places(texts, listed) for texts, listed in zip(columns, self._listed, strict=True)]
        found = self._found(places)
        if self._unlisted != NO_GROUP:
            for texts in columns:
                if texts.null_count:
                    found[texts.is_null().to_numpy(zero_copy_only=False)] = NO_GROUP
        return found

    def _found(self, places: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        """The number of each group, (rows,) places of its parts among the listed texts, -1 for none."""
        known = np.ones(len(places[0]), dtype=bool)
        number: NDArray[np.integer[Any]] = places[0]
        for i, (place, listed, prefixes) in enumerate(zip(places, self._listed, self._prefixes, strict=True)):
            known &= place >= 0
            number = number.astype(np.int64) * len(listed) + place if i else place
            if prefixes is not None:
                code, number = number, np.minimum(np.searchsorted(prefixes, number), len(prefixes) - 1)
                known &= prefixes[number] == code
        found: NDArray[np.int32] = self._order[number if known.all() else np.where(known, number, 0)]
        found[~known] = self._unlisted
        return found


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


def _places(texts: "pa.Array[Any]", listed: "pa.Array[Any]") -> NDArray[np.int32]:
    """Where each text stands among `listed`, which are in NFC, -1 for none."""
    found: Any = pc.index_in(texts, value_set=listed)
    if not found.null_count:
        return found.to_numpy()  # type: ignore[no-any-return]
    # Only texts that are not found as they stand can be listed in another spelling.
    absent = found.is_null()
    places: NDArray[np.int32] = found.fill_null(-1).to_numpy().copy()
    coded: Any = texts.filter(absent).dictionary_encode()
    again: Any = pc.index_in(normal_texts(coded.dictionary), value_set=listed)
    of_text = np.append(again.fill_null(-1).to_numpy(), np.int32(-1))
    places[absent.to_numpy(zero_copy_only=False)] = of_text[coded.indices.fill_null(-1).to_numpy()]
    return places
