"""The shapes of a published table: a column for each answer, or a row for each metric."""

from collections.abc import Sequence

import pyarrow as pa

from dp_spark.release.plan import OutputColumn
from dp_spark.release.spec import Shape


def in_shape(table: pa.Table, columns: Sequence[OutputColumn], shape: Shape | None) -> pa.Table:
    """`table`, with the plan's `columns`, in the shape of a sink; without one, wide."""
    if shape is Shape.LONG:
        raise NotImplementedError
    return table
