"""The sink of a table in Spark's catalog."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table of Spark's catalog.

    Attributes:
        table: its name, as Spark resolves it.
        session: gives the session; not asked before something is published.
    """

    table: str
    session: Callable[[], SparkSession]

    def require_free(self, part: Any, release_id: str, schema: Any) -> None:
        """As `Sink`."""
        raise NotImplementedError

    def holds(self, part: Any, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        raise NotImplementedError

    def publish(self, edition: Any) -> str:
        """As `Sink`."""
        raise NotImplementedError
