"""The sinks of a spec, opened."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.publish.catalog import CatalogSink, CatalogTable
from dp_spark.publish.parquet import ParquetSink
from dp_spark.publish.places import located
from dp_spark.publish.sink import Sink
from dp_spark.publish.sql import SqlSink
from dp_spark.release.connecting import connection_named, iceberg_catalog, require_extra
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkKind, SinkSpec
from dp_spark.release.warehouse import engine_of

_UNSERVED = ("sqlite",)  # it has no CREATE OR REPLACE VIEW, and no dates

SparkTable: TypeAlias = Callable[[str], CatalogTable]


@dataclass(frozen=True, slots=True)
class Reach:
    """What sinks need to get to where they write.

    Attributes:
        connections: of the profile, by name.
        spark_table: gives a table of Spark's catalog; starts Spark when it is used.
    """

    connections: Mapping[str, Connection]
    spark_table: SparkTable

    def connection(self, name: str) -> Connection:
        """The connection of this name.

        Raises:
            SetupRefused: the profile has none.
        """
        return connection_named(name, self.connections)


def open_sink(spec: SinkSpec, reach: Reach) -> Sink:
    """The sink of one entry of `publish`; nothing is reached yet.

    Raises:
        SetupRefused: its connection is unknown, or its driver is not installed.
        PublishRefused: its place cannot serve whatever is there: an object store for files.
    """
    match spec.sink:
        case SinkKind.PARQUET:
            return ParquetSink(_path(spec))
        case SinkKind.DELTA:
            require_extra("deltalake", "delta")
            from dp_spark.publish.delta import DeltaSink

            return DeltaSink(located(_path(spec)))
        case SinkKind.TABLE:
            assert spec.table is not None  # the kinds that need one have one
            return CatalogSink(reach.spark_table(spec.table))
        case SinkKind.SQL:
            return _database_table(spec, reach)
        case SinkKind.ICEBERG:
            return _iceberg(spec, reach)
        case _:
            raise NotImplementedError(spec.sink)


def _database_table(spec: SinkSpec, reach: Reach) -> Sink:
    """The sink of a table in the database that the spec's connection names."""
    assert spec.connection is not None  # the kinds that need one have one
    assert spec.table is not None
    connection = reach.connection(spec.connection)
    url = sa.make_url(connection.url)
    if url.get_backend_name() in _UNSERVED:
        raise SetupRefused(
            "database_not_served",
            f"connection {spec.connection!r} is {url.get_backend_name()}, which lacks what the sink needs",
            way_out="publish to PostgreSQL or DuckDB: docs/databases.md says which databases are served",
        )
    if url.get_backend_name() != "duckdb":
        return SqlSink(spec.named, spec.table, engine_of(spec.connection, connection))
    if url.database in (None, "", ":memory:"):
        raise SetupRefused(
            "connection_keeps_nothing",
            f"connection {spec.connection!r} is a DuckDB database in memory, which ends with the run",
            way_out='name a file: url = "duckdb:///warehouse.duckdb"',
        )
    require_extra("duckdb", "duckdb")
    from dp_spark.publish.duckdb import DuckDbSink

    return DuckDbSink(spec.named, spec.table, Path(str(url.database)), connection.options)


def _iceberg(spec: SinkSpec, reach: Reach) -> Sink:
    assert spec.connection is not None  # the kinds that need one have one
    assert spec.table is not None
    catalog = iceberg_catalog(spec.connection, reach.connections)
    from dp_spark.publish.iceberg import IcebergSink

    return IcebergSink(catalog, spec.table)


def restored(spec: SinkSpec, target: str) -> SinkSpec:
    """The sink where the ledger says that its copy is: a relative path is seen from where it was written."""
    match spec.sink:
        case SinkKind.PARQUET:
            return spec.model_copy(update={"path": str(Path(target).parents[1])})
        case SinkKind.DELTA:
            return spec.model_copy(update={"path": target})
        case _:
            return spec


def _path(spec: SinkSpec) -> str:
    assert spec.path is not None  # the kinds that need one have one
    return spec.path
