"""Many sums a place on their way to the driver: as bytes side by side, added up by workers.

Spark's own sums of hundreds of columns take longer to compile than rows take to read. So a partition's sums
become one row of bytes for each bucket of places, and who gets a bucket adds it up in NumPy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.bound import Integers
from dp_spark.frames.layout import EXCESS, PLACE, Layout
from dp_spark.frames.text import layout as bytes_of

BUCKET_OF_PLACES, PLACES, SUMS = "bucket", "places", "sums"
PACKED_SCHEMA = f"{BUCKET_OF_PLACES} int, {EXCESS} long, {PLACES} binary, {SUMS} binary"
_BUCKETS = 32
_MOST_COLUMNS = 32  # that Spark adds up by itself


def is_wide(layout: Layout) -> bool:
    """Whether sums travel as bytes."""
    return layout.width > _MOST_COLUMNS


def packed_sums(batches: Iterator[pa.RecordBatch], *, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Rows of PACKED_SCHEMA of rows of `Layout.schema`."""
    for batch in batches:
        places = batch[PLACE].to_numpy()
        sums = np.stack([batch[name].to_numpy() for name in layout.names], axis=1)
        excess = int(batch[EXCESS].to_numpy().sum())
        yield _batch(_Sums(places, sums), excess)


def added_sums(batches: Iterator[pa.RecordBatch], *, layout: Layout, most: int) -> Iterator[pa.RecordBatch]:
    """Rows of PACKED_SCHEMA with the sums of whole buckets, within plus and minus `most`."""
    parts: list[_Sums] = []
    excess = 0
    for batch in batches:
        excess += int(batch[EXCESS].to_numpy().sum())
        parts += _parts(batch, layout)
    if parts:
        yield _batch(_added(parts, most), excess)


def unpacked_sums(found: pa.Table, layout: Layout) -> tuple[Integers, list[Integers]]:
    """Places and, for each of `Layout.names`, their sums."""
    parts = [part for batch in found.to_batches() for part in _parts(batch, layout)]
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, [nothing] * layout.width
    sums = np.concatenate([part.sums for part in parts])
    return np.concatenate([part.places for part in parts]), list(sums.T)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of shape (places, width) at places."""

    places: Integers
    sums: NDArray[np.int64]


def _added(parts: Sequence[_Sums], most: int) -> _Sums:
    """One sum for each place; added in halves of 32 bits, nothing overflows on the way."""
    places, of_row = np.unique(np.concatenate([part.places for part in parts]), return_inverse=True)
    high, low = np.zeros((2, len(places), parts[0].sums.shape[1]), dtype=np.int64)
    start = 0
    for part in parts:
        rows = of_row[start : start + len(part.places)]
        start += len(part.places)
        np.add.at(high, rows, part.sums >> 32)
        np.add.at(low, rows, part.sums & (2**32 - 1))
    high += low >> 32
    high = np.clip(high, -(most >> 32) - 1, most >> 32)
    return _Sums(places, np.clip((high << 32) + (low & (2**32 - 1)), -most, most))


def _parts(batch: pa.RecordBatch, layout: Layout) -> Iterator[_Sums]:
    """The places and sums of each row."""
    limits, places = bytes_of(batch[PLACES])
    _, sums = bytes_of(batch[SUMS])
    ends = limits // np.dtype(np.int64).itemsize
    of_all, table = places.view(np.int64), sums.view(np.int64).reshape(-1, layout.width)
    for start, end in pairwise(ends.tolist()):
        yield _Sums(of_all[start:end], table[start:end])


def _batch(sums: _Sums, excess: int) -> pa.RecordBatch:
    """A row for each bucket that has places; the excess stands in the first."""
    bucket = sums.places % _BUCKETS
    order = np.argsort(bucket, kind="stable")
    numbers, starts = np.unique(bucket[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    parts = [order[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    over = np.zeros(len(numbers), dtype=np.int64)
    over[:1] = excess
    columns: list[pa.Array[Any]] = [
        pa.array(numbers.astype(np.int32)),
        pa.array(over),
        pa.array([sums.places[part].tobytes() for part in parts], pa.binary()),
        pa.array([sums.sums[part].tobytes() for part in parts], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[BUCKET_OF_PLACES, EXCESS, PLACES, SUMS])
