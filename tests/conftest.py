"""One Spark session and one PostgreSQL for all tests of a process, started when first asked for."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from postgres_server import Server, running_server
from pyspark.sql import SparkSession

from dp_spark.frames.session import start_session

# A JVM of tests ends before what its second compiler makes has paid: that takes two fifths of the time.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_configure() -> None:
    """Spark's launcher takes the options for every driver that tests start, whatever its settings."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def forgetful_bounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers keep up to 9 rows in each of 9 groups, whatever the bounds; the second look knows them."""
    from dp_spark.frames import aggregate

    def forgetful(batches: Any, **given: Any) -> Any:
        from dp_spark.frames import partition
        from dp_spark.queries import Bounds

        true = partition.kept_rows
        partition.kept_rows = lambda *args, key, bounds: true(*args, key=key, bounds=Bounds(9, 9))
        try:
            yield from partition.partition_totals(batches, **given)
        finally:
            partition.kept_rows = true

    monkeypatch.setattr(aggregate, "partition_totals", forgetful)
