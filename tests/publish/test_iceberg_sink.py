"""What only the Iceberg sink has: snapshots, catalogs in databases, and a password on the way to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import Server
from sink_iceberg import TABLE, IcebergWorld
from sink_worlds import COUNTS, DAY, EVERY_TYPE, GROUPS, days, edition, publish, require_free, rows_of

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.publish import Edition, Reach, open_sink
from dp_spark.release.iceberg_catalog import IcebergCatalog
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkSpec


@pytest.fixture
def world(tmp_path: Path) -> IcebergWorld:
    return IcebergWorld(tmp_path)


def opened(connection: Connection, table: str = TABLE):
    spec = SinkSpec.model_validate({"sink": "iceberg", "connection": "lake", "table": table})
    return open_sink(spec, Reach({"lake": connection}, NotImplemented))


def publish_to(connection: Connection, each: Edition, table: str = TABLE) -> str:
    return opened(connection, table).publish(each)


def test_a_revision_is_one_switch_of_metadata_over_both_of_its_snapshots(world):
    publish(world, edition())
    with world.catalog() as catalog:
        before = catalog.load_table(TABLE)
        publish(world, edition(revision=1, first=300))
        after = catalog.load_table(TABLE)
    assert len(after.metadata.metadata_log) == len(before.metadata.metadata_log) + 1
    assert after.metadata.metadata_log[-1].metadata_file == before.metadata_location
    known = {each.snapshot_id for each in before.snapshots()}
    new = [each for each in after.snapshots() if each.snapshot_id not in known]
    assert [each.summary.operation.value for each in new] == ["delete", "append"]
    assert after.current_snapshot() == new[-1]
    assert all(each.summary["dp_spark.release_id"] == edition(revision=1).release_id for each in new)


def test_labels_outlive_the_snapshots(world):
    one = edition()
    publish(world, one)
    publish(world, edition(days(2)[1]))
    with world.catalog() as catalog:
        table = catalog.load_table(TABLE)
        table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
        assert len(table.refresh().snapshots()) == 1
    before = world.state()
    publish(world, one)
    assert world.state() == before
    with pytest.raises(PublishRefused, match="another artefact of release"):
        publish(world, edition(first=300))


def test_rows_that_somebody_adds_or_removes_are_noticed(world):
    publish(world, edition())
    with world.catalog() as catalog:
        catalog.load_table(TABLE).append(edition(first=500).table)
    with pytest.raises(PublishRefused, match="no artefact of dp_spark"):
        publish(world, edition())
    with world.catalog() as catalog:
        catalog.load_table(TABLE).delete(f"period_start = '{DAY}'")
    publish(world, edition())
    assert rows_of(world.table()) == rows_of(edition().table)


def test_a_commit_of_somebody_else_in_between_is_looked_at_first(world, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    publish(world, edition(days(2)[1]))
    true = SqlCatalog.commit_table

    def late(catalog, *arguments):
        monkeypatch.setattr(SqlCatalog, "commit_table", true)
        publish(world, edition(revision=1, first=300))
        return true(catalog, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    with pytest.raises(PublishRefused, match="release nyc_planes/flights/2013-01-05/1"):
        publish(world, edition())
    assert rows_of(world.table(), edition().part) == rows_of(edition(revision=1, first=300).table)


def test_columns_are_required_until_an_edition_lacks_them(world):
    publish(world, edition(columns={"flights": COUNTS, "small": EVERY_TYPE["small"]}))
    publish(world, edition(days(2)[1], columns={"flights": COUNTS, "share": EVERY_TYPE["share"]}))
    with world.catalog() as catalog:
        schema = catalog.load_table(TABLE).schema()
    assert {field.name for field in schema.fields if not field.required} == {"small", "share"}
    assert schema.find_field("share").doc == "what share is"
    assert [field.name for field in catalog.load_table(TABLE).spec().fields] == ["period_start"]


def test_a_table_without_the_column_of_the_part_is_refused(world):
    world.add_strangers(edition().table.drop_columns(["period_start"]))
    with pytest.raises(PublishRefused, match="without a column period_start"):
        require_free(world, edition())


def test_before_the_charge_no_catalog_is_made(world):
    require_free(world, edition())
    assert all(each.stat().st_size == 0 for each in world.place.rglob("*"))


# --- catalogs ----------------------------------------------------------------------------------------------


@pytest.fixture
def on_postgres(postgres: Server, tmp_path: Path) -> Iterator[Connection]:
    database = postgres.new_database()
    yield Connection(
        postgres.url(database), options={"warehouse": str(tmp_path / "warehouse"), "catalog": "shared"}
    )
    postgres.drop(database)


def test_a_catalog_in_postgresql_keeps_tables_of_several_under_its_own_name(on_postgres, tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    publish_to(on_postgres, edition())
    publish_to(on_postgres, edition(revision=1))
    publish_to(on_postgres, edition(), "other.flights")
    with SqlCatalog("shared", uri=on_postgres.url, warehouse=str(tmp_path / "warehouse")) as catalog:
        found = catalog.load_table(TABLE).scan().to_arrow()
        assert catalog.load_table("other.flights").scan().count() == GROUPS
    assert set(found["revision"].to_pylist()) == {1}


def test_a_password_is_read_when_it_is_needed_and_told_to_nobody(tmp_path, monkeypatch):
    """Nobody listens at this port."""
    connection = Connection(
        "postgresql+psycopg://who@127.0.0.1:1/lake",
        password="env:LAKE_PASSWORD",
        options={"warehouse": str(tmp_path)},
    )
    sink, one = opened(connection), edition()
    with pytest.raises(SetupRefused, match="LAKE_PASSWORD is not set"):
        sink.require_free(one.part, one.release_id, one.table.schema)
    monkeypatch.setenv("LAKE_PASSWORD", "hush")
    assert "//who:hush@" in IcebergCatalog("lake", connection)._url()
    sink.require_free(one.part, one.release_id, one.table.schema)
    with pytest.raises(PublishRefused, match=r"iceberg lake/public\.flights cannot be written") as refusal:
        sink.publish(one)
    assert refusal.value.code == "sink_unreachable"
    assert "hush" not in f"{refusal.value} {sink!r}"
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize("options", [{}, {"warehouse": "relative/place"}])
def test_a_catalog_in_a_database_says_where_its_tables_are(options):
    with pytest.raises(SetupRefused, match=r"options\.warehouse"):
        opened(Connection("sqlite:////srv/catalog.db", options=options))


@pytest.mark.parametrize("table", ["flights", "deep.er.flights"])
def test_a_table_lies_in_a_namespace(tmp_path, table):
    with pytest.raises(PublishRefused, match="lies in a namespace") as refusal:
        opened(Connection("sqlite:////srv/catalog.db", options={"warehouse": str(tmp_path)}), table)
    assert refusal.value.way_out == "write table: NAMESPACE.flights"


def test_a_library_that_is_not_installed_is_told_before_anything_is_reached(tmp_path, monkeypatch):
    monkeypatch.setattr("dp_spark.release.connecting.find_spec", lambda name: None)
    with pytest.raises(SetupRefused) as refusal:
        opened(Connection("sqlite:////srv/catalog.db", options={"warehouse": str(tmp_path)}))
    assert refusal.value.way_out == "pip install 'dp-spark[iceberg]'"
