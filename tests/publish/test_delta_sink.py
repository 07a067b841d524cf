"""What only the Delta sink has: a log that is cleaned up, files that are rewritten, object stores."""

import json
import os
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from sink_delta import DeltaWorld
from sink_worlds import COUNTS, DAY, EVERY_TYPE, days, edition, publish, require_free, rows_of

from dp_spark.errors import PublishRefused
from dp_spark.publish import Reach, open_sink, restored
from dp_spark.publish.delta import DeltaSink
from dp_spark.release.spec import SinkSpec


@pytest.fixture
def world(tmp_path: Path) -> DeltaWorld:
    return DeltaWorld(tmp_path / "out")


def forget_the_log(root: Path) -> None:
    """A checkpoint, no commit before it, and no file that is not of the newest version."""
    table = DeltaTable(root)
    table.create_checkpoint()
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table = DeltaTable(root)
    table.create_checkpoint()
    for commit in (root / "_delta_log").glob("*.json"):
        os.utime(commit, (0, 0))
    table.cleanup_metadata()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def test_what_stands_is_known_when_the_log_is_forgotten(world):
    for each in (edition(revision=1), edition(days(2)[1]), edition(revision=3, first=300)):
        publish(world, each)
    forget_the_log(world.root)
    assert all(commit.get("dp_spark.digest") is None for commit in DeltaTable(world.root).history())
    before = world.state()
    publish(world, edition(revision=3, first=300))
    require_free(world, edition(revision=4))
    assert world.state() == before
    for each, holds in (
        (edition(revision=2), "release nyc_planes/flights/2013-01-05/3"),
        (edition(revision=3, first=400), "another artefact of release"),
        (edition(days(2)[1], release="others"), "release of another name"),
    ):
        with pytest.raises(PublishRefused, match=holds):
            publish(world, each)
    publish(world, edition(revision=4, first=400))
    assert rows_of(world.table(), edition().part) == rows_of(edition(revision=4, first=400).table)


def test_files_that_are_compacted_are_the_same_part(world):
    publish(world, edition())
    publish(world, edition(days(2)[1]))
    DeltaTable(world.root).optimize.z_order(["origin"])
    before = world.state()
    publish(world, edition())
    assert world.state() == before


def test_rows_that_somebody_adds_or_removes_are_noticed(world):
    publish(world, edition())
    write_deltalake(world.root, edition(first=500).table, mode="append")
    with pytest.raises(PublishRefused, match="no artefact of dp_spark"):
        publish(world, edition())
    DeltaTable(world.root).delete(f"period_start = '{DAY}'")
    publish(world, edition())
    assert rows_of(world.table()) == rows_of(edition().table)


def test_one_commit_makes_the_table_and_one_more_places_each_part(world):
    for version, day in enumerate(days(3)):
        publish(world, edition(day))
        assert DeltaTable(world.root).version() == version
    assert DeltaTable(world.root).metadata().partition_columns == ["period_start"]


def test_commits_of_somebody_else_in_between_are_looked_at_first(world, monkeypatch):
    import deltalake

    publish(world, edition(days(2)[1]))
    true = deltalake.write_deltalake

    def late(table, *arguments, **named):
        monkeypatch.setattr(deltalake, "write_deltalake", true)
        publish(world, edition(revision=1, first=300))
        true(table, *arguments, **named)

    monkeypatch.setattr(deltalake, "write_deltalake", late)
    with pytest.raises(PublishRefused, match="release nyc_planes/flights/2013-01-05/1"):
        publish(world, edition())


def test_a_column_that_is_not_null_gives_way_to_an_edition_without_it(world):
    publish(world, edition(columns={"flights": COUNTS, "small": EVERY_TYPE["small"]}))
    assert not DeltaTable(world.root).schema().to_arrow().field("small").nullable
    publish(world, edition(days(2)[1]))
    assert DeltaTable(world.root).schema().to_arrow().field("small").nullable
    assert not DeltaTable(world.root).schema().to_arrow().field("flights").nullable


def test_a_column_that_comes_brings_its_comment_and_others_keep_theirs(world):
    publish(world, edition())
    publish(world, edition(days(2)[1], columns={"flights": COUNTS, "share": EVERY_TYPE["share"]}))
    assert world.comments()["share"] == "what share is"
    assert world.comments()["flights"] == "what flights is"


def test_a_table_without_the_column_of_the_part_is_refused(world):
    write_deltalake(world.root, edition().table.drop_columns(["period_start"]))
    with pytest.raises(PublishRefused, match="without a column period_start"):
        require_free(world, edition())


def require_features(root: Path, *features: str, writer_version: int = 7) -> None:
    """Make the table one that asks this of whoever writes it."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": writer_version}
    with_features = protocol | ({"writerFeatures": features} if features else {})
    version = DeltaTable(root).version() + 1
    commit = root / "_delta_log" / f"{version:020}.json"
    commit.write_text(json.dumps({"protocol": with_features}))


@pytest.mark.parametrize("feature", ["rowTracking", "icebergCompatV2", "identityColumns", "clustering"])
def test_a_table_that_delta_rs_cannot_write_is_refused_before_and_after_the_charge(world, feature):
    publish(world, edition())
    require_features(world.root, "appendOnly", feature, "domainMetadata")
    for step in (require_free, publish):
        with pytest.raises(PublishRefused, match=feature) as refusal:
            step(world, edition(days(2)[1]))
        assert refusal.value.code == "table_not_writable"


def test_a_writer_version_or_rows_that_may_not_be_replaced_are_refused_before_the_charge(world):
    publish(world, edition())
    require_features(world.root, "appendOnly", "checkConstraints", "generatedColumns")
    require_free(world, edition(days(2)[1]))
    DeltaTable(world.root).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(PublishRefused, match=r"delta\.appendOnly"):
        require_free(world, edition(days(2)[1]))


def test_an_old_writer_version_is_named(world):
    publish(world, edition())
    require_features(world.root, writer_version=6)
    with pytest.raises(PublishRefused, match="writer version is 6"):
        require_free(world, edition(days(2)[1]))


def test_a_commit_that_fails_though_nobody_came_between_is_not_tried_again(world, monkeypatch):
    import deltalake

    def refusing(*_arguments, **_named):
        calls.append(1)
        raise CommitFailedError("poison")

    calls: list[int] = []
    publish(world, edition())
    monkeypatch.setattr(deltalake, "write_deltalake", refusing)
    with pytest.raises(PublishRefused, match=r"written: CommitFailedError\n") as refusal:
        publish(world, edition(days(2)[1]))
    assert (refusal.value.code, len(calls)) == ("sink_unreachable", 1)


@pytest.mark.parametrize("name", ["a b", "hash#", "why?", "é", "quote'", "{a}"])
def test_most_directories_will_do(tmp_path, name):
    world = DeltaWorld(tmp_path / name / "out")
    publish(world, edition())
    publish(world, edition(revision=1))
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert rows_of(world.table()) == rows_of(edition(revision=1).table)


@pytest.mark.parametrize("name", ["per%20cent", "a[b]", "back\\slash", "a|b", "a^b", "tab\t"])
def test_a_path_that_delta_does_not_find_again_is_refused_when_the_sink_is_opened(tmp_path, name):
    with pytest.raises(PublishRefused, match="publish to a path without it"):
        DeltaSink(str(tmp_path / name))


def test_a_copy_is_found_again_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = SinkSpec.model_validate({"sink": "delta", "path": "out"})
    place = open_sink(spec, Reach({}, NotImplemented)).publish(edition())
    assert place == str(tmp_path / "out")
    assert restored(spec, place).path == place


def test_an_object_store_is_asked_and_its_answer_is_no_secret(monkeypatch):
    """Nobody listens at this address; the library's own patience with a store is a matter of minutes."""
    for key, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "who",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_REGION": "nowhere-1",
    }.items():
        monkeypatch.setenv(key, value)
    true = DeltaTable.__init__
    quick = {"max_retries": "0", "retry_timeout": "1s"}
    monkeypatch.setattr(DeltaTable, "__init__", lambda table, uri: true(table, uri, storage_options=quick))
    spec = SinkSpec.model_validate({"sink": "delta", "path": "s3://bucket/flights"})
    sink = open_sink(spec, Reach({}, NotImplemented))
    assert sink == DeltaSink("s3://bucket/flights")
    one = edition()
    sink.require_free(one.part, one.release_id, one.table.schema)
    with pytest.raises(PublishRefused, match="delta s3://bucket/flights cannot be written") as refusal:
        sink.publish(one)
    assert refusal.value.code == "sink_unreachable"
    assert "hush" not in str(refusal.value)
    assert "127.0.0.1" not in str(refusal.value)


def test_versions_of_applications_may_fall(tmp_path):
    """Of which a hash makes use: the newest counts, also in a checkpoint, not the highest."""
    table = edition().table
    for version in (7, 3):
        write_deltalake(
            tmp_path / "t",
            table,
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction("one", version)]),
        )
    DeltaTable(tmp_path / "t").create_checkpoint()
    assert DeltaTable(tmp_path / "t").transaction_version("one") == 3
