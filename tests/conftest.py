"""One Spark session and one PostgreSQL for all tests, started by the first test that asks for them."""

from collections.abc import Iterator

import pytest
from postgres_server import Server, running_server
from pyspark.sql import SparkSession

from dp_spark.frames.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running_server() as server:
        yield server
