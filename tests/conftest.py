"""One Spark session for all tests, started by the first test that asks for it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dp_spark.frames.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()
