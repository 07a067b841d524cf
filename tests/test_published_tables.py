"""Releases that go to tables with a log of their own: Delta, and Iceberg with its catalog."""

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from test_pipeline import SPEC, World, no_spark

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.frames.rows import Rows
from dp_spark.pipeline import publish_release, run_release
from dp_spark.release.ledger import ReleaseState
from dp_spark.release.profile import Connection
from dp_spark.release.spec import ReleaseSpec, parse_spec

KEY = "2024-03-01"
TABLES = parse_spec(
    SPEC.replace(
        "{sink: parquet, path: out}",
        "{sink: iceberg, connection: lake, table: public.visits}, {sink: delta, path: out}",
    )
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    lake = Connection(f"sqlite:///{tmp_path}/lake/catalog.db", options={"warehouse": str(tmp_path / "lake")})
    world.profile = replace(world.profile, connections={"lake": lake})
    return world


def run(world: World, spark: SparkSession, spec: ReleaseSpec = TABLES, revise: str | None = None):
    return run_release(spec, KEY, profile=world.profile, spark=lambda: spark, revise=revise)


def iceberg_rows(world: World):
    lake = world.profile.connections["lake"]
    with SqlCatalog("lake", uri=lake.url, **lake.options) as catalog:
        return catalog.load_table("public.visits").scan().to_arrow()


def test_a_catalog_that_is_down_delays_its_copy_and_a_revision_reaches_both(world, spark):
    with pytest.raises(PublishRefused) as refusal:  # the catalog's directory is not there
        run(world, spark)
    assert refusal.value.code == "sink_unreachable"
    assert (world.spent, world.state(KEY)) == (1, ReleaseState.STAGED)
    assert DeltaTable("out").to_pyarrow_table().num_rows == 4
    (world.home / "lake").mkdir()
    done = publish_release(TABLES, KEY, profile=world.profile, spark=no_spark)
    assert set(done.published) == {str(world.home / "out"), "iceberg lake/public.visits"}
    assert world.state(KEY) is ReleaseState.SEALED
    run(world, spark, revise="late rows")
    for table in (DeltaTable("out").to_pyarrow_table(), iceberg_rows(world)):
        assert set(table["revision"].to_pylist()) == {1}
        assert table.num_rows == 4


def test_a_copy_that_somebody_removed_is_put_back(world, spark):
    (world.home / "lake").mkdir()
    first = run(world, spark)
    DeltaTable("out").delete(f"period_start = '{KEY}'")
    again = publish_release(TABLES, KEY, profile=world.profile, spark=no_spark)
    assert (again.digest, again.charged, world.spent) == (first.digest, None, 1)
    assert DeltaTable("out").to_pyarrow_table().num_rows == 4


def test_a_connection_that_the_profile_lacks_is_refused_before_the_charge(world):
    world.profile = replace(world.profile, connections={})
    with pytest.raises(SetupRefused, match="no such connection"):
        run_release(TABLES, KEY, profile=world.profile, spark=no_spark)
    assert world.state(KEY) is None


def test_an_object_store_is_apart_from_any_input_and_a_directory_may_not_be(world, monkeypatch):
    seen: list[Path] = []
    monkeypatch.setattr(Rows, "require_apart", lambda rows, path, root: seen.append(root))
    monkeypatch.setattr("dp_spark.publish.delta._opened", lambda root: None)  # an empty one, of both
    for path in ("s3://bucket/visits", "out"):
        spec = parse_spec(SPEC.replace("{sink: parquet, path: out}", f"{{sink: delta, path: '{path}'}}"))
        with pytest.raises(AssertionError, match="no reason to ask for Spark"):
            run_release(spec, KEY, profile=world.profile, spark=no_spark)
    assert seen == [world.home / "out"]
