"""Inputs as DataFrames: opened lazily, of the version that was decided for the release."""

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from dp_spark.frames.source_delta import delta_version, open_delta
from dp_spark.frames.source_files import open_files
from dp_spark.frames.source_iceberg import Within, iceberg_version, open_iceberg
from dp_spark.frames.source_jdbc import open_jdbc
from dp_spark.frames.source_table import open_table
from dp_spark.release.profile import Connection
from dp_spark.release.source_version import SourceVersion
from dp_spark.release.spec import InputFormat, InputSpec

NO_CONNECTIONS: Mapping[str, Connection] = MappingProxyType({})


def source_version(
    source: InputSpec, connections: Mapping[str, Connection] = NO_CONNECTIONS
) -> SourceVersion | None:
    """The version that a release is to read: what its spec says, else the newest; None where none are kept.

    Raises:
        InputRefused: there is no such table, or no such version of it.
        SetupRefused: its connection is unknown, or its reader is not installed.
    """
    match source.format:
        case InputFormat.DELTA:
            return delta_version(source)
        case InputFormat.ICEBERG:
            return iceberg_version(source, connections)
        case _:
            return None


def open_source(
    spark: SparkSession,
    source: InputSpec,
    *,
    connections: Mapping[str, Connection] = NO_CONNECTIONS,
    version: SourceVersion | None = None,
    within: Within | None = None,
) -> DataFrame:
    """The input as a lazy frame; only what says which files and columns it has is read.

    To be called, like every action on the frame, within `session.pinned`.

    Args:
        spark: the session.
        source: the input.
        connections: of the profile, by name.
        version: of a table that has versions; None reads as `source_version` says now.
        within: the only rows that will be asked for, where others can be left unread.

    Raises:
        InputRefused: it is not there, not of its format, or has no such version.
        SetupRefused: its connection is unknown, or its reader is not installed.
    """
    match source.format:
        case InputFormat.TABLE:
            return open_table(spark, source)
        case InputFormat.DELTA:
            return open_delta(spark, source, version or delta_version(source))
        case InputFormat.ICEBERG:
            version = version or iceberg_version(source, connections)
            return open_iceberg(spark, source, connections, version, within)
        case InputFormat.JDBC:
            return open_jdbc(spark, source, connections)
        case _:
            return open_files(spark, source)
