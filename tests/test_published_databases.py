"""Releases that go to tables in databases: PostgreSQL beside a DuckDB file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from postgres_server import Server
from pyspark.sql import SparkSession
from test_pipeline import SPEC, World, no_spark

from dp_spark.errors import PublishRefused
from dp_spark.pipeline import publish_release, run_release
from dp_spark.release.ledger import ReleaseState
from dp_spark.release.profile import Connection
from dp_spark.release.spec import parse_spec

KEY = "2024-03-01"
TABLES = parse_spec(
    SPEC.replace(
        "{sink: parquet, path: out}",
        "{sink: sql, connection: warehouse, table: public.visits}, "
        "{sink: sql, connection: local, table: visits}",
    )
)
LOOK = "SELECT revision, count(*) FROM visits_latest GROUP BY revision"


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    name = postgres.new_database()
    yield name
    postgres.drop(name)


def test_a_warehouse_that_is_down_delays_its_copy_and_a_revision_reaches_both(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres: Server,
    database: str,
    spark: SparkSession,
) -> None:
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    file = tmp_path / "local.duckdb"
    connections = {"warehouse": Connection(postgres.url(database)), "local": Connection(f"duckdb:///{file}")}
    world.profile = replace(world.profile, connections=connections)
    postgres.run(f"ALTER DATABASE {database} CONNECTION LIMIT 0")
    with pytest.raises(PublishRefused, match=r"sql warehouse/public\.visits cannot be written") as refusal:
        run_release(TABLES, KEY, profile=world.profile, spark=lambda: spark)
    assert refusal.value.code == "sink_unreachable"
    assert (world.spent, world.state(KEY)) == (1, ReleaseState.STAGED)
    with duckdb.connect(str(file), read_only=True) as local:
        assert local.execute(LOOK).fetchall() == [(0, 4)]
    postgres.run(f"ALTER DATABASE {database} CONNECTION LIMIT -1")
    done = publish_release(TABLES, KEY, profile=world.profile, spark=no_spark)
    assert set(done.published) == {f"{postgres.url(database)} public.visits", f"duckdb:///{file} visits"}
    assert world.state(KEY) is ReleaseState.SEALED
    postgres.run("DROP TABLE visits CASCADE", database=database)
    publish_release(TABLES, KEY, profile=world.profile, spark=no_spark)
    assert postgres.run(LOOK, database=database) == [(0, 4)]
    run_release(TABLES, KEY, profile=world.profile, spark=lambda: spark, revise="late rows")
    assert postgres.run(LOOK, database=database) == [(1, 4)]
    with duckdb.connect(str(file), read_only=True) as local:
        assert local.execute(LOOK).fetchall() == [(1, 4)]
