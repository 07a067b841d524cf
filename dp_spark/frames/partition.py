"""What a Python worker does with one partition: bound each unit's rows and add them up by group.

Workers import this module and little else, so that they start fast.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_spark.frames.bound import Integers, kept_rows
from dp_spark.queries import Bounds

GROUP, UNIT, UNIT_HASH, ROWS, UNITS = "group", "unit", "unit_hash", "rows", "units"
_NOTHING = np.iinfo(np.int64).min  # stands for "this row's value does not count"; no step is that small


def partial_names(columns: int) -> list[str]:
    """The sums that a partition gives for each group, of so many value columns."""
    return [ROWS, UNITS, *(f"{part}_{i}" for i in range(columns) for part in ("count", "sum"))]


def partial_schema(columns: int) -> str:
    """The schema of what `partition_totals` yields, as Spark reads it."""
    return f"{GROUP} int, " + ", ".join(f"{name} long" for name in partial_names(columns))


def partition_totals(
    batches: Iterator[pa.RecordBatch], *, key: bytes, bounds: Bounds, columns: int
) -> Iterator[pa.RecordBatch]:
    """Bounded totals of one partition, which holds all rows of its units: a row for each group.

    Rows come as UNIT (text), UNIT_HASH, GROUP and value_0, value_1, ... (64 bits; NULL counts for nothing).
    """
    arrived = list(batches)
    if not arrived:
        return
    table = pa.Table.from_batches(arrived)
    group = table[GROUP].to_numpy().astype(np.int64)
    values = [_integers(table[f"value_{i}"]) for i in range(columns)]
    kept, first = kept_rows(
        unit=_numbered(table[UNIT]),
        unit_hash=table[UNIT_HASH].to_numpy(),
        group=group,
        values=values,
        key=key,
        bounds=bounds,
    )
    yield _summed(group[kept], first, [value[kept] for value in values])


def _numbered(texts: "pa.ChunkedArray[pa.StringScalar]") -> Integers:
    """A number for each distinct text, shape (rows,)."""
    encoded: Any = pc.dictionary_encode(texts).combine_chunks()
    return np.asarray(encoded.indices, dtype=np.int64)


def _integers(column: "pa.ChunkedArray[pa.Int64Scalar]") -> Integers:
    """The column, with _NOTHING for NULL, shape (rows,)."""
    return np.asarray(pc.fill_null(column, pa.scalar(_NOTHING)), dtype=np.int64)


def _summed(group: Integers, first_of_pair: NDArray[np.bool_], values: Sequence[Integers]) -> pa.RecordBatch:
    """Rows, units, and the count and sum of each value, by group; in 64 bits, as the planner proved."""
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    parts = [np.ones(len(group), dtype=np.int64), first_of_pair.astype(np.int64)]
    for value in values:
        counts = value != _NOTHING
        parts += [counts.astype(np.int64), np.where(counts, value, 0)]
    sums = [np.add.reduceat(part[order], starts) for part in parts]
    return pa.RecordBatch.from_arrays(
        [pa.array(groups, pa.int32()), *map(pa.array, sums)], names=[GROUP, *partial_names(len(values))]
    )
