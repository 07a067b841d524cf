"""Rows to packed buckets: what workers do before the one shuffle.

A row becomes its unit's identity, its group's number and its values as integers; rows of a bucket of units
travel as one row of Spark with their bytes side by side. So a shuffle moves and sorts a thousandth of the
rows, and what is behind it reads them without a copy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.coding import AnyCoding, Source
from dp_spark.frames.identity import identities
from dp_spark.frames.numbering import GROUP, NO_GROUP
from dp_spark.frames.text import layout

BUCKET, UNIT = "bucket", "unit"
BUCKETS_AT_MOST = 2**14
_ROWS_AT_ONCE = 2**19
_ROWS_OF_A_PIECE = 2**12  # 16,384 pieces, all that a batch may have, are half of what Arrow can hold


class Numbers(Protocol):
    """What tells groups apart by a number of 64 bits or less."""

    @property
    def groups(self) -> int:
        """How many numbers there can be."""

    @property
    def columns(self) -> int:
        """Of how many columns a key is."""

    def of(self, columns: Sequence["pa.Array[Any]"]) -> NDArray[Any]:
        """The number of each row's group, shape (rows,), or NO_GROUP; one column of texts for each part."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What `packed` needs to know; travels to the workers.

    Attributes:
        units: number of columns that make a unit, each of texts or 64-bit integers.
        numbers: of the groups whose rows travel, of several columns of texts.
        values: what rows are read through, each as a code.
        buckets: into how many buckets units are divided; a power of two.
    """

    units: int
    numbers: Numbers
    values: Sequence[AnyCoding]
    buckets: int

    @property
    def sources(self) -> list[Source]:
        """What is read for the codes, each once."""
        return list(dict.fromkeys(each.source for each in self.values))

    @property
    def types(self) -> list[np.dtype[Any]]:
        """The types of a packed row: identity, group, values."""
        return [
            np.dtype("V16"),
            np.min_scalar_type(self.numbers.groups - 1),
            *(each.type for each in self.values),
        ]

    @property
    def names(self) -> list[str]:
        """The columns of bytes of a bucket."""
        return [UNIT, GROUP, *(f"value_{i}" for i in range(len(self.values)))]

    @property
    def schema(self) -> str:
        """The schema of a bucket, as Spark reads it."""
        return f"{BUCKET} int, " + ", ".join(f"{name} binary" for name in self.names)


def packed(batches: Iterator[pa.RecordBatch], *, packing: Packing, key: bytes) -> Iterator[pa.RecordBatch]:
    """Buckets of the rows that have a released group; columns come as units, groups, sources."""
    waiting: list[list[NDArray[Any]]] = []
    size = 0
    for batch in batches:
        columns = columns_of(batch, packing, key)
        if len(columns[0]):
            waiting.append(columns)
            size += len(columns[0])
        if size >= _ROWS_AT_ONCE:
            yield _buckets(waiting, packing)
            waiting, size = [], 0
    if waiting:
        yield _buckets(waiting, packing)


def unpacked(batch: pa.RecordBatch, packing: Packing) -> list[NDArray[Any]]:
    """The columns of all rows in a batch of buckets, in the order of `packing.types`, without a copy."""
    return [
        layout(batch[name])[1].view(kind) for name, kind in zip(packing.names, packing.types, strict=True)
    ]


def columns_of(batch: pa.RecordBatch, packing: Packing, key: bytes) -> list[NDArray[Any]]:
    """Of the rows that have a released group: identities, (rows, 2), numbers of groups, values as codes."""
    units, groups = packing.units, packing.units + packing.numbers.columns
    number = packing.numbers.of(batch.columns[units:groups])
    listed = number != NO_GROUP
    rows = batch if listed.all() else batch.filter(pa.array(listed))
    ids = identities(rows.columns[:units], key)
    read = dict(zip(packing.sources, rows.columns[groups:], strict=True))
    values = [coding.encoded(read[coding.source]) for coding in packing.values]
    return [ids, number[listed].astype(packing.types[1]), *values]


def _buckets(waiting: Sequence[Sequence[NDArray[Any]]], packing: Packing) -> pa.RecordBatch:
    """One batch of all buckets that have rows, in pieces of at most so many rows as any batch can hold."""
    columns = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
    shift = np.uint64(64 - (packing.buckets.bit_length() - 1))
    bucket = (columns[0][:, 0] >> shift).astype(np.uint16)
    order = np.argsort(bucket, kind="stable")  # a radix sort
    sizes = np.bincount(bucket, minlength=packing.buckets)
    pieces = -(-sizes // _ROWS_OF_A_PIECE)
    place = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begins = np.repeat(np.cumsum(sizes) - sizes, pieces) + place * _ROWS_OF_A_PIECE
    ends = np.append(begins, len(bucket))
    bodies = [_binaries(np.take(column, order, axis=0), ends) for column in columns]
    named = np.repeat(np.arange(packing.buckets, dtype=np.int32), pieces)
    return pa.RecordBatch.from_arrays([pa.array(named), *bodies], names=[BUCKET, *packing.names])


def _binaries(rows: NDArray[Any], ends: NDArray[np.int64]) -> "pa.Array[Any]":
    """The bytes of rows 0 to ends[1], ends[1] to ends[2], ... as one value each."""
    width = rows.nbytes // max(len(rows), 1)
    offsets = pa.py_buffer((ends * width).astype(np.int32).data)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, pa.py_buffer(rows.data)])
