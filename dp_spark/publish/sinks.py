"""The sinks of a spec, opened."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dp_spark.publish.parquet import ParquetSink
from dp_spark.publish.sink import Sink
from dp_spark.release.connecting import connection_named
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkKind, SinkSpec

SparkTable: TypeAlias = Callable[[str], Sink]


@dataclass(frozen=True, slots=True)
class Reach:
    """What sinks need to get to where they write.

    Attributes:
        connections: of the profile, by name.
        spark_table: gives the sink of a table of Spark's catalog; starts Spark when it is used.
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
        case _:
            raise NotImplementedError(spec.sink)


def restored(spec: SinkSpec, target: str) -> SinkSpec:
    """The sink where the ledger says that its copy is: a relative path is seen from where it was written."""
    if spec.sink is not SinkKind.PARQUET:
        return spec
    return spec.model_copy(update={"path": str(Path(target).parents[1])})


def _path(spec: SinkSpec) -> str:
    assert spec.path is not None  # the kinds that need one have one
    return spec.path
