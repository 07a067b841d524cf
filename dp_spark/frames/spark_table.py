"""A published table in Spark's catalog: its columns, its properties, and the rows of one part of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.errors import PublishRefused
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.names import quoted
from dp_spark.frames.session import held, pinned

_SETTINGS = {
    # An overwrite replaces the parts that it has rows of, and no other.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.parser.escapedStringLiterals": "false",
}
_BUILT_IN = "spark_catalog"
# What Spark's built-in catalog keeps as directories of files; whatever else it names has commits of its own.
_IN_MEMORY = "in-memory"
_FILES = frozenset({"parquet", "orc", "csv", "json", "avro", "text", "hive"})
_DETAILS, _PARTITIONS = "# Detailed Table Information", "# Partition Information"
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_date32, "DATE"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_boolean, "BOOLEAN"),
)


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table of Spark's catalog: built in, of Parquet files, or V2 (Iceberg, Delta, Unity, ...).

    Every method talks to Spark; its failures are Spark's own, whose texts may quote rows.

    Attributes:
        table: its name, as Spark resolves it.
        session: gives the session.
    """

    table: str
    session: Callable[[], SparkSession]

    def schema(self) -> pa.Schema | None:
        """Its columns; None where there is no such table."""
        with self._settled() as session:
            if not session.catalog.tableExists(self._name):
                return None
            schema = to_arrow(session.table(self._name).limit(0)).schema
            return pa.schema(field.remove_metadata() for field in schema)

    def require_lasting(self) -> None:
        """Check that the catalog outlives the session: the next night would not find the table.

        Raises:
            PublishRefused: it is Spark's built-in one, kept in memory.
        """
        with self._settled() as session:
            built_in = self._catalog(session) == _BUILT_IN and not _is_set(session, _BUILT_IN)
            kept = session.conf.get("spark.sql.catalogImplementation", _IN_MEMORY)
        if built_in and kept == _IN_MEMORY:
            raise PublishRefused(
                "catalog_in_memory",
                f"table = {self.table!r}: Spark's built-in catalog is kept in memory, and forgets the table "
                "with this session",
                way_out='add "spark.sql.catalogImplementation" = "hive" to [spark] of the profile, with a '
                "metastore that all runs share, or name a table of a V2 catalog (docs/sinks.md, table)",
            )

    def properties(self) -> Mapping[str, str]:
        """Its table properties."""
        with self._settled() as session:
            return {row[0]: row[1] for row in _told(session.sql(f"SHOW TBLPROPERTIES {self._name}"))}

    def replaces_one(self, column: str) -> bool:
        """Whether the rows with one value in a column can be replaced, and no other: not in a view, nor in
        files that are not partitioned by this column alone.
        """  # noqa: D205
        with self._settled() as session:
            described = self._described(session)
            if described.get("Type") == "VIEW" or "Provider" not in described:
                return False
            return not self._is_files(session, described) or self._partitioned_by(session) == [column]

    def create(self, schema: pa.Schema, column: str, comment: str) -> None:
        """Make the table, partitioned by `column`, unless another process was faster."""
        with self._settled() as session:
            built_in = self._catalog(session) == _BUILT_IN and not _is_set(session, _BUILT_IN)
            session.sql(
                f"CREATE TABLE IF NOT EXISTS {self._name} ({_columns(schema)}) "
                + ("USING parquet " if built_in else "")
                + f"PARTITIONED BY ({quoted(column)}) COMMENT {_literal(comment)}"
            )

    def add(self, fields: "Sequence[pa.Field[Any]]") -> None:
        """Give it further columns, which are NULL in all its rows."""
        with self._settled() as session:
            session.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({_columns(fields)})")

    def set(self, properties: Mapping[str, str]) -> None:
        """Set table properties, all in one step."""
        said = ", ".join(f"{_literal(key)} = {_literal(text)}" for key, text in properties.items())
        with self._settled() as session:
            session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({said})")

    def unset(self, key: str) -> None:
        """Remove a table property."""
        with self._settled() as session:
            session.sql(f"ALTER TABLE {self._name} UNSET TBLPROPERTIES IF EXISTS ({_literal(key)})")

    def rows(self, column: str, value: date | str) -> pa.Table:
        """The rows with one value in a column."""
        with self._settled() as session:
            session.catalog.refreshTable(self._name)
            return to_arrow(session.table(self._name).where(F.col(quoted(column)) == F.lit(value)))

    def replace(self, rows: pa.Table, column: str, value: date | str) -> None:
        """Replace the rows with one value in a column by these, which have the table's columns in its order.

        In one step where the catalog is V2; the built-in one deletes old files, then renames new ones.
        """
        with self._settled() as session:
            frame = _frame_of(session, rows)
            if not self._is_files(session, self._described(session)):
                frame.writeTo(self._name).overwrite(F.col(quoted(column)) == F.lit(value))
            elif rows.num_rows:
                frame.write.mode("overwrite").insertInto(self._name)
            else:
                session.sql(
                    f"ALTER TABLE {self._name} DROP IF EXISTS PARTITION "
                    f"({quoted(column)} = {_literal(str(value))})"
                )

    @property
    def _name(self) -> str:
        return ".".join(map(quoted, self.table.split(".")))

    @contextmanager
    def _settled(self) -> Iterator[SparkSession]:
        session = self.session()
        with pinned(session), held(session, _SETTINGS):
            yield session

    def _catalog(self, session: SparkSession) -> str:
        first, *others = self.table.split(".")
        return first if len(others) == 2 or _is_set(session, first) else session.catalog.currentCatalog()

    def _is_files(self, session: SparkSession, described: Mapping[str, str]) -> bool:
        return self._catalog(session) == _BUILT_IN and described.get("Provider", "").lower() in _FILES

    def _described(self, session: SparkSession) -> Mapping[str, str]:
        """What Spark tells of the table itself, by name."""
        rows = _told(session.sql(f"DESCRIBE TABLE EXTENDED {self._name}"))
        names = [row[0] for row in rows]
        after = names.index(_DETAILS) + 1 if _DETAILS in names else len(names)
        return {row[0]: row[1] for row in rows[after:]}

    def _partitioned_by(self, session: SparkSession) -> list[str]:
        """The partition columns of a table that is files."""
        names = [row[0] for row in _told(session.sql(f"DESCRIBE TABLE {self._name}"))]
        return names[names.index(_PARTITIONS) + 2 :] if _PARTITIONS in names else []


def _told(frame: DataFrame) -> list[tuple[str, str]]:
    """What a statement about a table tells, its first two columns as text."""
    return [(str(row[0]), str(row[1])) for row in frame.collect()]


def _is_set(session: SparkSession, catalog: str) -> bool:
    return session.conf.get(f"spark.sql.catalog.{catalog}", None) is not None


def _frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as a frame that is written as one file; pyspark 3.5 takes no Arrow table."""
    schema = ", ".join(f"{quoted(field.name)} {_type(field.type)}" for field in rows.schema)
    return session.createDataFrame(rows.to_pandas(date_as_object=True), schema).coalesce(1)


def _columns(fields: "pa.Schema | Sequence[pa.Field[Any]]") -> str:
    return ", ".join(
        f"{quoted(field.name)} {_type(field.type)}"
        + (f" COMMENT {_literal((field.metadata or {})[b'comment'].decode())}" if field.metadata else "")
        for field in fields
    )


def _type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return next(name for is_kind, name in _TYPES if is_kind(kind))


def _literal(text: str) -> str:
    """The text as Spark SQL reads it, whatever characters it holds."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
