"""Inputs that are Iceberg tables: pyiceberg plans a snapshot, and workers read its files with its rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from dp_spark.errors import Refusal
from dp_spark.frames.iceberg_tasks import Snapshot, read_tasks
from dp_spark.frames.source_refusals import condition_of, not_readable, version_gone
from dp_spark.release.connecting import iceberg_catalog
from dp_spark.release.period import PeriodWindow
from dp_spark.release.profile import Connection
from dp_spark.release.source_version import SourceVersion
from dp_spark.release.spec import InputSpec

if TYPE_CHECKING:  # an extra: only who reads Iceberg needs it
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.types import IcebergType

_BYTES_OF_A_TASK = 2**27
_UPKEEP = "replace"  # the operation of a snapshot that lays the rows out anew


@dataclass(frozen=True, slots=True)
class Within:
    """Rows of one period, by the column that dates them."""

    column: str
    window: PeriodWindow


def iceberg_version(source: InputSpec, connections: Mapping[str, Connection]) -> SourceVersion:
    """The snapshot that the spec names, with the schema it was written with; else the newest, as it is now.

    Raises:
        InputRefused: there is no such table, or no such snapshot.
        SetupRefused: the connection is unknown, or pyiceberg is not installed.
    """
    metadata = _loaded(source, connections).metadata
    table = str(metadata.table_uuid)
    if source.version is None:
        return SourceVersion(metadata.current_snapshot_id or 0, table, metadata.current_schema_id)
    snapshot = metadata.snapshot_by_id(source.version)
    if snapshot is None:
        raise version_gone(source, source.version)
    schema = metadata.current_schema_id if snapshot.schema_id is None else snapshot.schema_id
    return SourceVersion(source.version, table, schema)


def iceberg_commits(source: InputSpec, connections: Mapping[str, Connection]) -> Iterator[datetime]:
    """When rows of the snapshot that the spec names, else of the newest, were written.

    Raises:
        InputRefused: there is no such table, or no such snapshot.
        SetupRefused: the connection is unknown, or pyiceberg is not installed.
    """
    metadata, number = _loaded(source, connections).metadata, iceberg_version(source, connections).number
    snapshot = metadata.snapshot_by_id(number)
    while snapshot is not None:
        if snapshot.summary is None or snapshot.summary.operation.value != _UPKEEP:
            yield datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)


def open_iceberg(
    spark: SparkSession,
    source: InputSpec,
    connections: Mapping[str, Connection],
    version: SourceVersion,
    within: Within | None,
) -> DataFrame:
    """The snapshot as a lazy frame; its manifests are read, and no file of rows.

    Columns of types that a spec cannot name (binary, time, nested ones) are left out.

    Raises:
        InputRefused: the snapshot is gone, or cannot be planned.
        SetupRefused: the connection is unknown, or pyiceberg is not installed.
    """
    table = _loaded(source, connections)
    metadata = table.metadata
    if str(metadata.table_uuid) != version.table or (
        version.number and metadata.snapshot_by_id(version.number) is None
    ):
        raise version_gone(source, version)
    try:
        snapshot = _planned(table, version, within, _options_of(source, connections))
    except Exception as failure:  # noqa: BLE001  # its text may quote bounds of a column
        raise not_readable(source, condition_of(failure), "check the files of the table") from None
    spark_schema = T.StructType(
        [T.StructField(field.name, spark_type(field.field_type), True) for field in snapshot.columns.fields]
    )
    if not snapshot.tasks:
        return spark.createDataFrame([], spark_schema)
    numbers = spark.range(0, len(snapshot.tasks), 1, len(snapshot.tasks))
    return numbers.mapInArrow(partial(read_tasks, snapshot=snapshot), spark_schema)


def _loaded(source: InputSpec, connections: Mapping[str, Connection]) -> "Table":
    assert source.table is not None
    assert source.connection is not None  # the format has both
    found = iceberg_catalog(source.connection, connections)
    try:
        with found.opened(makes=False) as catalog:
            return catalog.load_table(source.table)
    except Refusal:
        raise
    except Exception as failure:  # noqa: BLE001  # its text quotes the catalog's URL
        way_out = f"check input.table, and [connections.{source.connection}] of the profile from this machine"
        raise not_readable(source, type(failure).__name__, way_out) from None


def _options_of(source: InputSpec, connections: Mapping[str, Connection]) -> Mapping[str, str]:
    """What workers may know of the connection: no URL, no password."""
    assert source.connection is not None
    return connections[source.connection].options


def _planned(
    table: "Table", version: SourceVersion, within: Within | None, options: Mapping[str, str]
) -> Snapshot:
    from pyiceberg.io import load_file_io  # noqa: PLC0415
    from pyiceberg.io.pyarrow import schema_to_pyarrow  # noqa: PLC0415

    metadata = table.metadata
    schema = next(each for each in metadata.schemas if each.schema_id == version.schema)
    columns, snapshot = _readable(schema), metadata.snapshot_by_id(version.number)
    # A filter is bound to the names of the newest schema; where they may be others, all rows are read.
    newest = {version.schema} == {metadata.current_schema_id, snapshot and snapshot.schema_id}
    rows = _row_filter(columns, within if newest else None)
    tasks: Sequence[tuple[FileScanTask, ...]] = ()
    if version.number:
        scan = table.scan(rows, snapshot_id=version.number)
        tasks = _grouped(list(scan.plan_files()))
    arrow = pa.schema(pa.field(field.name, _arrow_type(field.type)) for field in schema_to_pyarrow(columns))
    io = load_file_io(dict(options), table.metadata_location)
    return Snapshot(metadata, io, columns, rows, tuple(tasks), arrow)


def _grouped(tasks: "Sequence[FileScanTask]") -> "list[tuple[FileScanTask, ...]]":
    """The tasks in order of their files, as many together as make a task of Spark."""
    groups: list[list[FileScanTask]] = []
    size = _BYTES_OF_A_TASK
    for task in sorted(tasks, key=lambda task: task.file.file_path):
        if size + task.file.file_size_in_bytes > _BYTES_OF_A_TASK:
            groups.append([])
            size = 0
        groups[-1].append(task)
        size += task.file.file_size_in_bytes
    return [tuple(group) for group in groups]


def _readable(schema: "Schema") -> "Schema":
    """The columns whose types a spec can name."""
    from pyiceberg.schema import Schema  # noqa: PLC0415

    return Schema(
        *(field for field in schema.fields if _has_spark_type(field.field_type)), schema_id=schema.schema_id
    )


def _row_filter(columns: "Schema", within: Within | None) -> "BooleanExpression":
    """Rows of the period, where the column's type lets Iceberg compare it; else all."""
    from pyiceberg import types as I  # noqa: N812, PLC0415
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThan  # noqa: PLC0415

    kinds = {field.name: field.field_type for field in columns.fields}
    kind = None if within is None else kinds.get(within.column)
    if within is None or not isinstance(kind, I.DateType | I.TimestampType | I.TimestamptzType):
        return AlwaysTrue()
    days = within.window.start.isoformat(), within.window.end.isoformat()
    match kind:
        case I.DateType():
            first, after = days
        case I.TimestampType():
            first, after = (f"{day}T00:00:00.000000" for day in days)
        case _:
            first, after = map(_utc_text, within.window.utc_micros)
    # They take a name and a text, which their types do not say.
    at_least, below = cast(Any, GreaterThanOrEqual), cast(Any, LessThan)
    return And(at_least(within.column, first), below(within.column, after))


def _utc_text(micros: int) -> str:
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds")


def _has_spark_type(kind: "IcebergType") -> bool:
    try:
        spark_type(kind)
    except KeyError:
        return False
    return True


def spark_type(kind: "IcebergType") -> T.DataType:
    """The type of Spark that holds the same values.

    Raises:
        KeyError: there is none that a spec can name.
    """
    from pyiceberg import types as I  # noqa: N812, PLC0415

    if isinstance(kind, I.DecimalType):
        return T.DecimalType(kind.precision, kind.scale)
    same: dict[type[IcebergType], T.DataType] = {
        I.BooleanType: T.BooleanType(),
        I.IntegerType: T.IntegerType(),
        I.LongType: T.LongType(),
        I.FloatType: T.FloatType(),
        I.DoubleType: T.DoubleType(),
        I.DateType: T.DateType(),
        I.TimestampType: T.TimestampNTZType(),
        I.TimestamptzType: T.TimestampType(),
        I.StringType: T.StringType(),
    }
    return same[type(kind)]


def _arrow_type(kind: pa.DataType) -> pa.DataType:
    """The form that Spark's workers hand on: texts with offsets of 32 bits."""
    return pa.string() if pa.types.is_large_string(kind) else kind
