"""Inputs that are tables or views of PostgreSQL, through Spark's own JDBC reader."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession

from dp_spark.errors import SetupRefused
from dp_spark.frames.names import quoted_table
from dp_spark.frames.source_refusals import condition_of, not_readable
from dp_spark.release.connecting import connection_named, password_of
from dp_spark.release.profile import Connection
from dp_spark.release.spec import InputSpec

DRIVER = "org.postgresql.Driver"
_ROWS_AT_A_TIME = "10000"  # the driver would hold the whole table without


def open_jdbc(spark: SparkSession, source: InputSpec, connections: Mapping[str, Connection]) -> DataFrame:
    """The table or view as a lazy frame, read by one task; no row is read yet.

    Raises:
        InputRefused: the database cannot be reached, or has no such table.
        SetupRefused: the connection is unknown, is no PostgreSQL, or its driver is not among Spark's jars.
    """
    assert source.table is not None
    assert source.connection is not None  # the format has both
    connection = connection_named(source.connection, connections)
    url = sa.make_url(connection.url)
    if url.get_backend_name() != "postgresql":
        raise SetupRefused(
            "connection_not_postgres",
            f"connection {source.connection!r} is no PostgreSQL, the only database that format: jdbc reads",
            way_out="write its url as postgresql+psycopg://ROLE@HOST/DATABASE, or export the rows to Parquet",
        )
    password = password_of(source.connection, connection)
    secret = {} if password is None else {"password": password}
    reader = spark.read.format("jdbc").options(
        url=_jdbc_url(url),
        driver=DRIVER,
        dbtable=quoted_table(source.table, '"'),
        user=url.username or "",
        fetchsize=_ROWS_AT_A_TIME,
        # A timestamp without time zone is a reading of a clock: the JVM's own zone has no part in it.
        preferTimestampNTZ="true",
        **secret,
    )
    try:
        return reader.load()
    except Exception as failure:  # noqa: BLE001  # the driver's text quotes the URL
        if DRIVER in str(failure) or "No suitable driver" in str(failure):
            raise _no_driver() from None
        way_out = f"check input.table, and [connections.{source.connection}] of the profile from this machine"
        raise not_readable(source, condition_of(failure), way_out) from None


def _jdbc_url(url: sa.URL) -> str:
    """Host, port, database and what else the URL says of the way there; neither role nor password."""
    ways = urlencode({key: value for key, value in url.query.items() if key not in ("host", "port")})
    host, port = url.host or url.query.get("host") or "localhost", url.port or url.query.get("port") or 5432
    return f"jdbc:postgresql://{host}:{port}/{quote(url.database or '', safe='')}" + (ways and f"?{ways}")


def _no_driver() -> SetupRefused:
    return SetupRefused(
        "jdbc_driver_missing",
        f"Spark has no class {DRIVER}: the JDBC driver of PostgreSQL is not among its jars",
        way_out="name it in the [spark] table of the profile, in spark.jars or spark.jars.packages; Debian's "
        "package libpostgresql-jdbc-java puts it at /usr/share/java/postgresql.jar",
    )
