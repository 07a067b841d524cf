"""Files of an Iceberg snapshot, read on workers: deleted rows are left out, columns found by their ids."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:  # an extra: only who reads Iceberg needs it
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What workers are given of a snapshot, planned on the driver; no password and no catalog.

    Attributes:
        metadata: of the table.
        io: how its files are reached.
        columns: those that are read, as the table names them.
        rows: the only rows that are asked for.
        tasks: its files with their deletes, in groups that one task of Spark reads.
        schema: the columns as Arrow has them.
    """

    metadata: "TableMetadata"
    io: "FileIO"
    columns: "Schema"
    rows: "BooleanExpression"
    tasks: tuple[tuple["FileScanTask", ...], ...]
    schema: pa.Schema


def read_tasks(numbers: Iterator[pa.RecordBatch], *, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """The rows of the groups of tasks that have these numbers."""
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

    scan = ArrowScan(snapshot.metadata, snapshot.io, snapshot.columns, snapshot.rows)
    for batch in numbers:
        for number in batch.column(0).to_numpy():
            for found in scan.to_record_batches(snapshot.tasks[number]):
                if found.num_rows:
                    yield _as_spark_reads(found, snapshot.schema)


def _as_spark_reads(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
