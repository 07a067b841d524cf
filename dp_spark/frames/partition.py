"""What a worker does behind the shuffle: bound each unit's rows and add them up by group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.bound import Integers, excess, kept_rows
from dp_spark.frames.numbering import GROUP
from dp_spark.frames.packing import BUCKET, UNIT, Coding, Packing, unpacked
from dp_spark.frames.text import layout
from dp_spark.queries import Bounds

ROWS, UNITS, EXCESS = "rows", "units", "excess"
_ROWS_AT_ONCE = 2**17  # what fits a cache sorts twice as fast
# Sums of so many codes below 2^32 are exact in floats.
_EXACT_ROWS = 2**21


def partial_names(columns: int) -> list[str]:
    """The sums that a partition gives for each group, of so many value columns."""
    return [ROWS, UNITS, *(f"{part}_{i}" for i in range(columns) for part in ("count", "sum")), EXCESS]


def partial_schema(columns: int) -> str:
    """The schema of what `partition_totals` yields, as Spark reads it."""
    return f"{GROUP} int, " + ", ".join(f"{name} long" for name in partial_names(columns))


def partition_totals(
    batches: Iterator[pa.RecordBatch], *, packing: Packing, key: bytes, bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    """Bounded totals of the buckets of one partition: a row for each group that has any."""
    buckets = _Buckets(packing)
    for batch in batches:
        buckets.add(batch)
    sums = _Sums(packing)
    for columns in buckets.portions(max(_ROWS_AT_ONCE, packing.numbers.groups // 4)):
        ids, group, *values = columns
        ids = ids.view(np.uint64).reshape(-1, 2)
        kept = kept_rows(ids, group, values, key=key, bounds=bounds)
        group = group[kept.rows]
        over = excess(np.take(ids, kept.rows, axis=0), group, bounds)
        sums.add(group, kept.first, [value[kept.rows] for value in values], over)
    yield sums.as_batch()


@dataclass(slots=True)
class _Buckets:
    """Packed rows by bucket, as they came, until all have."""

    packing: Packing
    parts: dict[int, list[list[NDArray[Any]]]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        columns = unpacked(batch, self.packing)
        limits = layout(batch[UNIT])[0] // columns[0].itemsize
        buckets = batch[BUCKET].to_numpy().tolist()
        for bucket, start, end in zip(buckets, limits[:-1], limits[1:], strict=True):
            self.parts.setdefault(bucket, []).append([column[start:end] for column in columns])

    def portions(self, rows: int) -> Iterator[list[NDArray[Any]]]:
        """Whole buckets, together at least so many rows but for the last."""
        waiting: list[list[NDArray[Any]]] = []
        size = 0
        for bucket in sorted(self.parts):
            parts = self.parts.pop(bucket)
            waiting += parts
            size += sum(len(part[0]) for part in parts)
            if size >= rows:
                yield [np.concatenate(column) for column in zip(*waiting, strict=True)]
                waiting, size = [], 0
        if waiting:
            yield [np.concatenate(column) for column in zip(*waiting, strict=True)]


class _Sums:
    """Sums by group, in 64 bits, as the planner proved them to fit."""

    def __init__(self, packing: Packing) -> None:
        self.values = packing.values
        names = partial_names(len(packing.values))
        self.of = {name: np.zeros(packing.numbers.groups, dtype=np.int64) for name in names}

    def add(
        self, group: NDArray[Any], first: NDArray[np.bool_], values: Sequence[NDArray[Any]], over: int
    ) -> None:
        """Add the rows that count, in the order of unit and group."""
        self.of[EXCESS][0] += over
        self.of[ROWS] += self._counted(group)
        self.of[UNITS] += self._counted(group[first])
        for i, (coding, codes) in enumerate(zip(self.values, values, strict=True)):
            counts = codes != coding.missing
            where, above, base = group[counts], codes[counts], coding.least
            self.of[f"count_{i}"] += self._counted(where)
            if coding.of.per_unit:
                where, above, base = _unit_values(group, first, codes, coding)
            self.of[f"sum_{i}"] += base * self._counted(where)
            for start in range(0, len(where), _EXACT_ROWS):
                part = slice(start, start + _EXACT_ROWS)
                self.of[f"sum_{i}"] += self._counted(where[part], above[part]).astype(np.int64)

    def as_batch(self) -> pa.RecordBatch:
        """A row for each group that has any."""
        present = np.flatnonzero(self.of[ROWS] + self.of[EXCESS])
        columns = [pa.array(sums[present]) for sums in self.of.values()]
        return pa.RecordBatch.from_arrays(
            [pa.array(present.astype(np.int32)), *columns], names=[GROUP, *self.of]
        )

    def _counted(self, group: NDArray[Any], weight: NDArray[Any] | None = None) -> NDArray[Any]:
        return np.bincount(group, weight, minlength=len(self.of[ROWS]))


def _unit_values(
    group: NDArray[Any], first: NDArray[np.bool_], codes: NDArray[Any], coding: Coding
) -> tuple[NDArray[Any], Integers, int]:
    """Where and by how many steps above a base each unit's clamped total counts."""
    starts = np.flatnonzero(first)
    if not len(starts):
        return group, np.zeros(0, dtype=np.int64), 0
    counts = codes != coding.missing
    steps = np.where(counts, codes, 0).astype(np.int64) + np.where(counts, coding.least, 0)
    clamped = np.clip(np.add.reduceat(steps, starts), coding.of.lower_steps, coding.of.upper_steps)
    some = np.add.reduceat(counts, starts, dtype=np.int64) > 0
    return group[starts][some], clamped[some] - coding.of.lower_steps, coding.of.lower_steps
