"""The shapes of a published table: a column for each answer, or a row for each metric."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dp_spark.release.plan import ColumnRole, OutputColumn
from dp_spark.release.spec import METRIC_COLUMN, Shape

_BEFORE = (ColumnRole.PERIOD, ColumnRole.GROUP, ColumnRole.GROUPING)
_AFTER = (ColumnRole.RELEASE, ColumnRole.REVISION)
_METRIC = "what the numbers of the row are: a query, with which of its answers, as value columns are called"
# What the numbers of a metric are called, which are all doubles.
_NUMBERS: Mapping[ColumnRole, str] = {
    ColumnRole.VALUE: "answer of the metric, private; a whole number is exact below 2^53, others to a double",
    ColumnRole.STD: "standard deviation of the noise in value",
    ColumnRole.LOW: "lower end of an interval that covers 95 % of the noise; bias of bounding is not in it",
    ColumnRole.HIGH: "upper end of an interval that covers 95 % of the noise; bias of bounding is not in it",
}


def in_shape(table: pa.Table, columns: Sequence[OutputColumn], shape: Shape | None) -> pa.Table:
    """`table`, with the plan's `columns`, in the shape of a sink; without one, wide."""
    return _long(table, columns) if shape is Shape.LONG else table


def metrics_of(columns: Sequence[OutputColumn]) -> dict[str, str]:
    """The metrics of the long shape, in the plan's order, with the comments of their values."""
    return {column.name: column.comment for column in columns if column.role is ColumnRole.VALUE}


def _long(table: pa.Table, columns: Sequence[OutputColumn]) -> pa.Table:
    """A row for each row and metric: sorted as `table`, then in the plan's order of metrics."""
    metrics = list(metrics_of(columns))
    rows = np.repeat(np.arange(table.num_rows), len(metrics))

    def repeated(roles: Sequence[ColumnRole]) -> dict["pa.Field[Any]", Any]:
        names = [column.name for column in columns if column.role in roles]
        return {table.schema.field(name): table[name].take(rows) for name in names}

    metric = np.tile(np.arange(len(metrics)), table.num_rows)
    numbers = {
        _field(role.value, pa.float64(), comment): np.stack(
            [_doubles(table[column.name]) for column in columns if column.role is role], axis=1
        ).ravel()
        for role, comment in _NUMBERS.items()
    }
    arrays = {
        **repeated(_BEFORE),
        _field(METRIC_COLUMN, pa.string(), _METRIC): pa.array(metrics, pa.string()).take(metric),
        **numbers,
        **repeated(_AFTER),
    }
    return pa.table(list(arrays.values()), schema=pa.schema(list(arrays)))


def _field(name: str, kind: pa.DataType, comment: str) -> "pa.Field[Any]":
    return pa.field(name, kind, nullable=False, metadata={b"comment": comment.encode()})


def _doubles(column: "pa.ChunkedArray[Any]") -> np.ndarray[Any, np.dtype[np.float64]]:
    """The numbers as doubles, shape (rows,): the nearest where their unscaled value is below 2^53."""
    if not pa.types.is_decimal(column.type):
        return column.to_numpy().astype(np.float64)
    pieces = [_unscaled(chunk) for chunk in column.chunks]
    unscaled = np.concatenate([np.zeros(0, np.int64), *pieces])
    return unscaled / np.float64(10**column.type.scale)


def _unscaled(decimals: "pa.Array[Any]") -> np.ndarray[Any, np.dtype[np.int64]]:
    """The lower 64 bits of 128, which the planner's saturation keeps the numbers in."""
    values = decimals.buffers()[1]
    words = np.frombuffer(b"" if values is None else memoryview(values), "<i8")[::2]
    return words[decimals.offset : decimals.offset + len(decimals)]
