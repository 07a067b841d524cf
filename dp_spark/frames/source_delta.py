"""Inputs that are Delta tables: delta-rs names the files of a version, Spark's Parquet reader reads them."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from dp_spark.errors import InputRefused
from dp_spark.frames.names import quoted
from dp_spark.frames.source_files import located
from dp_spark.frames.source_refusals import condition_of, not_readable, not_supported, version_gone
from dp_spark.release.connecting import require_extra
from dp_spark.release.source_version import SourceVersion
from dp_spark.release.spec import InputSpec

if TYPE_CHECKING:  # an extra: only who reads Delta needs it
    from deltalake import DeltaTable

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# What Spark's Parquet reader gives as the table has it, or what concerns the log alone.
_READ_RIGHTLY = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
_PARTITION_TYPES = (T.StringType, T.IntegralType, T.DateType, T.BooleanType, T.DecimalType)
_GLOB = re.compile(r"([\\*?\[\]{}])")
# deltalake 1.6 takes paths for URLs half-way: escapes are decoded, and it aborts on brackets.
_UNREAD = re.compile(r"[%\\\[\]^|\x00-\x1f\x7f]")
# Commits that lay the rows out anew, or change none.
_UPKEEP = frozenset(
    {"OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "REORG", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES"}
)
_MOST_ODD_FOLDERS = 1000  # each is a branch of the query


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a version: its path below the table, and the values of the partition that it belongs to."""

    path: str
    values: tuple[Any, ...]

    def is_named_by(self, columns: Sequence[str]) -> bool:
        """Whether its directories give Spark the values that the log has."""
        if any("=" in column for column in columns):
            return False  # Spark ends a column's name at the first
        folders = tuple(_spark_unescaped(folder) for folder in self.path.split("/")[:-1])
        names = zip(columns, self.values, strict=True)
        return folders == tuple(f"{column}={_folder_value(value)}" for column, value in names)


def delta_version(source: InputSpec) -> SourceVersion:
    """The version that the spec names, else the newest.

    Raises:
        InputRefused: there is no such table, or no such version.
        SetupRefused: deltalake is not installed.
    """
    table = _opened(source, source.version)
    return SourceVersion(table.version(), str(table.metadata().id))


def delta_commits(source: InputSpec) -> Iterator[datetime]:
    """When rows of the version that the spec names, else of the newest, were written, as the log tells.

    Raises:
        InputRefused: there is no such table, or no such version.
        SetupRefused: deltalake is not installed.
    """
    version = delta_version(source).number
    for commit in _opened(source, None).history():
        # Of a table that stands at an older version, delta-rs tells the newest commits under wrong numbers.
        if commit["version"] <= version and commit.get("operation") not in _UPKEEP and "timestamp" in commit:
            yield datetime.fromtimestamp(commit["timestamp"] / 1000, UTC)


def open_delta(spark: SparkSession, source: InputSpec, version: SourceVersion) -> DataFrame:
    """The table in one version, as a lazy frame; its log is read, and footers are not.

    Raises:
        InputRefused: the version is gone, or the table has something that would be read wrong.
        SetupRefused: deltalake is not installed.
    """
    table = _opened(source, version.number)
    if str(table.metadata().id) != version.table:
        raise version_gone(source, version)
    _require_readable(source, table)
    schema = _spark_schema(table)
    files = _files(source, table, schema)
    if not files:
        return spark.createDataFrame([], schema)
    columns = list(table.metadata().partition_columns)
    plain = [file.path for file in files if file.is_named_by(columns)]
    odd = _odd_folders(source, files, columns)
    read = _Reading(spark, located(source), schema, columns)
    try:
        frames = [read.by_folder(plain)] if plain else []
        frames += [read.with_values(paths, values) for values, paths in odd]
        return reduce(DataFrame.unionByName, frames).select(*map(quoted, schema.names))
    except Exception as failure:  # noqa: BLE001  # Spark's text may quote a footer
        condition = condition_of(failure)
        if condition == "PATH_NOT_FOUND":  # vacuumed
            raise version_gone(source, version) from None
        raise not_readable(source, condition, "check the files that the table's log names") from None


@dataclass(frozen=True, slots=True)
class _Reading:
    """Files of one table, read by Spark."""

    spark: SparkSession
    root: str
    schema: T.StructType
    columns: Sequence[str]

    def by_folder(self, paths: Sequence[str]) -> DataFrame:
        """Files whose directories name their partition."""
        reader = self.spark.read.schema(self.schema).option("basePath", self.root)
        return reader.parquet(*map(self._at, paths))

    def with_values(self, paths: Sequence[str], values: Sequence[Any]) -> DataFrame:
        """Files of one partition, whatever their directories are called."""
        own = T.StructType([field for field in self.schema.fields if field.name not in self.columns])
        reader = self.spark.read.schema(own).option("recursiveFileLookup", "true")
        given = (
            F.lit(value).cast(self.schema[column].dataType).alias(column)
            for column, value in zip(self.columns, values, strict=True)
        )
        return reader.parquet(*map(self._at, paths)).select("*", *given)

    def _at(self, path: str) -> str:
        return _GLOB.sub(r"\\\1", f"{self.root.rstrip('/')}/{path}")


def _opened(source: InputSpec, version: int | None) -> "DeltaTable":
    require_extra("deltalake", "delta")
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415

    way_out = "check input.path: the directory that holds _delta_log"
    path = located(source).removeprefix("file:")
    if unread := _UNREAD.search(path):
        raise not_readable(source, f"delta-rs does not find a path with {unread[0]!r}", "name one without it")
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        raise not_readable(source, "there is no Delta table", way_out) from None
    except Exception as failure:  # noqa: BLE001  # its text may quote statistics of a column
        raise not_readable(source, type(failure).__name__, way_out) from None
    if version is None or version == table.version():
        return table
    try:
        table.load_as_version(version)
    except Exception:  # noqa: BLE001  # the log is there, so that the version is not
        raise version_gone(source, version) from None
    return table


def _require_readable(source: InputSpec, table: "DeltaTable") -> None:
    """Refuse what Spark's Parquet reader would not see: deleted rows, columns under other names."""
    protocol, settings = table.protocol(), table.metadata().configuration
    unknown = sorted(set(protocol.reader_features or ()) - _READ_RIGHTLY)
    if unknown:
        raise _unsupported(source, f"its reader features {', '.join(unknown)} are not known")
    if settings.get("delta.columnMapping.mode", "none") != "none":
        raise _unsupported(source, "its columns have other names in its files (column mapping)")
    if "deletionVectors" in (protocol.reader_features or ()) and _has_deleted_rows(table):
        raise _unsupported(source, "rows of its files are deleted by vectors beside them (deletion vectors)")


def _has_deleted_rows(table: "DeltaTable") -> bool:
    try:
        return any(batch.num_rows for batch in table.deletion_vectors())
    except Exception:  # noqa: BLE001  # there are vectors, and they cannot be read
        return True


def _unsupported(source: InputSpec, why: str) -> InputRefused:
    way_out = (
        "REORG TABLE ... APPLY (PURGE) takes deletion vectors away; else write the rows to another table, or "
        "name it as format: table in a Spark that has its connector"
    )
    return not_supported(source, why, way_out)


def _spark_schema(table: "DeltaTable") -> T.StructType:
    """Names and types alone; whatever the log says, a file may hold a NULL."""
    written = T.StructType.fromJson(json.loads(table.schema().to_json()))
    return T.StructType([T.StructField(field.name, field.dataType, True) for field in written.fields])


def _files(source: InputSpec, table: "DeltaTable", schema: T.StructType) -> list[_File]:
    import pyarrow as pa  # noqa: PLC0415

    columns = table.metadata().partition_columns
    wrong = [name for name in columns if not isinstance(schema[name].dataType, _PARTITION_TYPES)]
    if wrong:
        types = ", ".join(schema[name].dataType.simpleString() for name in wrong)
        raise _unsupported(source, f"it is partitioned by a column of type {types}")
    known = pa.table(table.get_add_actions(flatten=True))
    paths = [unquote(str(path)) for path in known["path"].to_pylist()]
    if any(path.startswith("/") or ":/" in path for path in paths):
        raise _unsupported(source, "files of it lie outside its directory (a shallow clone)")
    if any(map(_is_hidden, paths)):
        raise _unsupported(source, "its files have names with _ or . in front, which Spark passes over")
    values = [known[f"partition.{name}"].to_pylist() for name in columns]
    rows = zip(*values, strict=True) if columns else iter([()] * len(paths))
    return [_File(path, tuple(row)) for path, row in zip(paths, rows, strict=True)]


def _is_hidden(path: str) -> bool:
    """Whether Spark leaves the file out, without a word, for its name or that of a directory."""
    *folders, name = path.split("/")
    return (
        name.startswith(("_", "."))
        or name.endswith("._COPYING_")
        or any(folder.startswith(("_", ".")) and "=" not in folder for folder in folders)
    )


def _odd_folders(
    source: InputSpec, files: Sequence[_File], columns: Sequence[str]
) -> list[tuple[tuple[Any, ...], list[str]]]:
    """Files whose directories say something else than the log, by the values that they have."""
    odd: dict[tuple[Any, ...], list[str]] = {}
    for file in files:
        if not file.is_named_by(columns):
            odd.setdefault(file.values, []).append(file.path)
    if len(odd) > _MOST_ODD_FOLDERS:
        raise _unsupported(
            source,
            f"more than {_MOST_ODD_FOLDERS:,} of its partitions lie in directories that do not name them as "
            "Spark does",
        )
    return list(odd.items())


def _folder_value(value: Any) -> str:
    """A value as a directory would have to name it; never what names a NULL."""
    match value:
        case None:
            return _NULL_FOLDER
        case bool():
            return str(value).lower()
        case date() | int() | Decimal():
            return str(value)
        case _:
            return f"\0{value}" if value in ("", _NULL_FOLDER) else str(value)


def _spark_unescaped(folder: str) -> str:
    """A directory's name as Spark reads it: each %XX is one character, also where it is half of one."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), folder)
