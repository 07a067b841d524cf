"""What a worker does behind the shuffle: bound each unit's rows and add them up by group."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.bound import excess, id_starts, kept_rows
from dp_spark.frames.layout import Layout
from dp_spark.frames.packing import BUCKET, UNIT, Packing, unpacked
from dp_spark.frames.summing import CountedRows, PartitionSums
from dp_spark.frames.text import layout
from dp_spark.frames.wide import is_wide, packed_sums
from dp_spark.queries import Bounds

_ROWS_AT_ONCE = 2**17  # what fits a cache sorts twice as fast


def partition_totals(
    batches: Iterator[pa.RecordBatch], *, packing: Packing, layout: Layout, key: bytes, bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    """Bounded sums of the buckets of one partition: a row for each place, or bytes where they are wide."""
    buckets = Buckets(packing)
    for batch in batches:
        buckets.add(batch)
    sums = PartitionSums(layout, packing.values)
    for columns in buckets.portions(max(_ROWS_AT_ONCE, packing.numbers.groups // 4)):
        ids, group, *codes = columns
        ids = ids.view(np.uint64).reshape(-1, 2)
        kept = kept_rows(ids, group, codes, key=key, bounds=bounds)
        ids, group = np.take(ids, kept.rows, axis=0), group[kept.rows]
        rows = CountedRows(group, kept.first, id_starts(ids), [code[kept.rows] for code in codes])
        sums.add(rows, excess(ids, group, bounds))
    yield from packed_sums(sums.batches(), layout=layout) if is_wide(layout) else sums.batches()


@dataclass(slots=True)
class Buckets:
    """Packed rows by bucket, as they came, until all have."""

    packing: Packing
    parts: dict[int, list[list[NDArray[Any]]]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep the pieces of a batch, without a copy."""
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
