"""The Parquet sink: whole periods or nothing, the second time nothing, whatever is killed or races."""

import errno
import multiprocessing
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from publishers import (
    DAY,
    DAYS,
    DYING,
    GROUPS,
    REVISIONS,
    artefact,
    die_after_the_exchange,
    die_after_the_rename,
    die_before_the_exchange,
    die_before_the_rename,
    die_between_two_renames,
    edition,
    publish,
    publish_daily,
    publish_in_a_race,
    release_of,
    revise,
    revise_in_a_race,
    revise_often,
)
from pyspark.sql import SparkSession

from dp_spark.errors import PublishRefused
from dp_spark.publish import ParquetSink, Part, artefact_digest, local_root, parquet


def everything_in(place: Path) -> list[str]:
    return sorted(str(each.relative_to(place)) for each in place.rglob("*") if not each.is_dir())


def test_a_period_is_one_file_in_its_directory(tmp_path):
    path = publish(tmp_path / "new" / "out")
    assert path == tmp_path / "new" / "out" / "period_start=2013-01-05" / "part-0.parquet"
    assert everything_in(tmp_path) == ["new/out/period_start=2013-01-05/part-0.parquet"]


def test_the_file_holds_rows_comments_and_labels_but_not_the_period(tmp_path):
    file = pq.ParquetFile(publish(tmp_path / "out"))
    assert file.read().equals(artefact().drop_columns(["period_start"]))
    assert file.schema_arrow.field("flights").metadata[b"comment"] == b"count, private"
    assert not file.schema_arrow.field("flights").nullable
    assert file.metadata.metadata[b"dp_spark.release_id"].decode() == release_of(DAY)
    kept = {name.decode(): text.decode() for name, text in file.metadata.metadata.items()}
    assert kept.items() >= edition().labels.items()
    assert edition().labels["dp_spark.digest"] == artefact_digest(artefact())


def test_readers_get_what_the_umask_allows(tmp_path):
    before = os.umask(0o022)
    try:
        path = publish(tmp_path / "out")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path.parent.parent, path.parent, path)]
    assert modes == [0o755, 0o755, 0o644]


def test_nothing_stays_beside_what_is_published(tmp_path):
    publish(tmp_path / "out")
    publish(tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_place_for_copies_that_another_publisher_removes_is_made_again(tmp_path, monkeypatch):
    mkdir, removed = os.mkdir, []

    def raced(path, *mode):
        place = Path(path).parent
        if place.name == ".out.incoming" and len(removed) < 3:
            removed.append(path)
            place.rmdir()
        mkdir(path, *mode)

    monkeypatch.setattr(os, "mkdir", raced)
    assert publish(tmp_path / "out").exists()
    assert len(removed) == 3


def test_publishing_twice_changes_nothing(tmp_path):
    path = publish(tmp_path / "out")
    before = path.stat(), path.parent.stat()
    assert publish(tmp_path / "out") == path
    after = path.stat(), path.parent.stat()
    assert [(each.st_ino, each.st_mtime_ns) for each in before] == [
        (each.st_ino, each.st_mtime_ns) for each in after
    ]


def test_another_release_in_the_period_is_refused_by_its_id(tmp_path):
    path = publish(tmp_path / "out", release="nyc_planes/other/2013-01-05/0")
    before = path.read_bytes()
    with pytest.raises(PublishRefused, match="holds release nyc_planes/other/2013-01-05/0") as refused:
        publish(tmp_path / "out")
    assert refused.value.code == "period_occupied"
    assert "a table of its own" in refused.value.way_out
    assert path.read_bytes() == before


def test_another_artefact_of_the_same_release_is_refused(tmp_path):
    publish(tmp_path / "out", first=200)
    with pytest.raises(PublishRefused, match="another artefact of release "):
        publish(tmp_path / "out")


@pytest.mark.parametrize("name", ["part-0.parquet", "part-1.parquet", "notes.txt"])
def test_files_of_somebody_else_are_refused(tmp_path, name):
    target = tmp_path / "out" / "period_start=2013-01-05"
    target.mkdir(parents=True)
    (target / name).write_text("poison")
    with pytest.raises(PublishRefused, match="no artefact of dp_spark") as refused:
        publish(tmp_path / "out")
    assert "poison" not in str(refused.value)
    assert everything_in(tmp_path) == [f"out/period_start=2013-01-05/{name}"]


def test_a_second_file_beside_the_artefact_is_refused(tmp_path):
    (publish(tmp_path / "out").parent / "part-1.parquet").write_text("")
    with pytest.raises(PublishRefused, match="no artefact of dp_spark"):
        publish(tmp_path / "out")


def test_marker_files_that_readers_skip_do_not_matter(tmp_path):
    (publish(tmp_path / "out").parent / "_SUCCESS").write_text("")
    publish(tmp_path / "out")


def test_an_empty_directory_in_the_place_of_the_period_is_used(tmp_path):
    (tmp_path / "out" / "period_start=2013-01-05").mkdir(parents=True)
    assert publish(tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["out", "out/period_start=2013-01-05", ".out.incoming"])
def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path, place):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("")
    with pytest.raises(PublishRefused):
        publish(tmp_path / "out")
    assert everything_in(tmp_path) == [place]


@pytest.mark.skipif(os.geteuid() != 0, reason="root may write everywhere; others are refused by the mode")
def test_a_root_that_this_user_may_not_write_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    os.seteuid(65534)
    try:
        with pytest.raises(PublishRefused, match=os.strerror(errno.EACCES)) as refused:
            publish(tmp_path / "out")
    finally:
        os.seteuid(0)
    assert "stays staged" in refused.value.way_out


@pytest.mark.parametrize(
    ("step", "number", "told"),
    [("fsync", errno.ENOSPC, "No space left"), ("rename", errno.EXDEV, "it is a mount point")],
)
def test_a_failing_disk_is_refused_and_leaves_nothing(tmp_path, monkeypatch, step, number, told):
    def failing(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "out").mkdir()
    (tmp_path / ".out.incoming").mkdir()
    monkeypatch.setattr(os, step, failing)
    with pytest.raises(PublishRefused, match=told):
        publish(tmp_path / "out")
    monkeypatch.undo()
    assert everything_in(tmp_path) == []
    assert publish(tmp_path / "out").exists()


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/out", "s3a://b/o", "gs://b/o", "abfss://c@a.dfs.core.windows.net/o", "hdfs://n:8020/o"],
)
def test_object_stores_are_refused(url):
    for root in (url, Path(url)):
        with pytest.raises(PublishRefused) as refused:
            ParquetSink(root)
        assert refused.value.code == "sink_not_local"
        assert "sink: delta" in refused.value.way_out


def test_file_urls_and_relative_paths_are_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in (f"file://{tmp_path}/out", f"file://localhost{tmp_path}/out", f"file:{tmp_path}/out", "out"):
        assert local_root(root) == tmp_path / "out"
        assert local_root(Path(root)) == tmp_path / "out" or "localhost" in root
    with pytest.raises(PublishRefused):
        local_root("file://elsewhere/out")


def test_the_root_of_the_file_system_is_refused():
    with pytest.raises(PublishRefused, match="nothing beside it"):
        local_root("/")


# --- killed and concurrent publishers --------------------------------------------------------------------


@pytest.fixture(scope="module")
def process() -> "type[ForkServerProcess]":
    """Starts processes that share nothing with this one, and have the package imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dp_spark.publish", "pandas", "pytest"])
    return context.Process


@pytest.mark.parametrize("dying", DYING)
def test_a_publisher_killed_anywhere_shows_nothing_or_all_and_the_next_one_finishes(tmp_path, dying, process):
    root, incoming = tmp_path / "out", tmp_path / ".out.incoming"
    root.mkdir()
    incoming.mkdir()
    killed = process(target=dying, args=(root,))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    placed = dying is die_after_the_rename
    assert everything_in(root) == (["period_start=2013-01-05/part-0.parquet"] if placed else [])
    assert len(everything_in(incoming)) == (0 if placed else 1)
    assert pq.ParquetFile(publish(root)).metadata.num_rows == GROUPS
    assert not incoming.exists()


def test_leftovers_of_other_releases_are_left_alone(tmp_path, process):
    killed = process(target=die_before_the_rename, args=(tmp_path / "out",))
    killed.start()
    killed.join()
    incoming = tmp_path / ".out.incoming"
    assert stat.S_IMODE(incoming.stat().st_mode) == 0o700  # readers cannot list copies at work
    publish(tmp_path / "out", DAY + timedelta(1))
    assert len(everything_in(incoming)) == 1


@pytest.fixture
def race(process, tmp_path) -> Callable[..., list[set[str]]]:
    def run(*firsts: int) -> list[set[str]]:
        """What publishers of the same periods, started together, say; `firsts` choose their artefacts."""
        start = multiprocessing.get_context("forkserver").Barrier(len(firsts))
        said = [tmp_path / f"said-{each}" for each in range(len(firsts))]
        racers = [
            process(target=publish_in_a_race, args=(tmp_path / "race" / "out", first, start, file))
            for first, file in zip(firsts, said, strict=True)
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        return [set(file.read_text().split()) for file in said]

    return run


def test_two_publishers_of_the_same_artefacts_both_succeed(tmp_path, race):
    assert race(100, 100) == [{"published"}, {"published"}]
    assert len(everything_in(tmp_path / "race")) == DAYS
    assert [each.name for each in (tmp_path / "race").iterdir()] == ["out"]


def test_of_two_publishers_of_different_artefacts_one_wins_each_period_whole(tmp_path, race):
    assert set.union(*race(100, 200)) == {"published", "period_occupied"}
    assert len(everything_in(tmp_path / "race")) == DAYS
    whole = [[*range(first, first + GROUPS)] for first in (100, 200)]
    for path in (tmp_path / "race").rglob("*.parquet"):
        assert pq.ParquetFile(path).read()["flights"].to_pylist() in whole


def test_losing_the_race_at_the_rename_accepts_the_same_artefact(tmp_path, monkeypatch):
    root, rename = tmp_path / "out", os.rename

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "rename", rename)
        publish(root)  # which also removes the copy that is about to be renamed
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    assert publish(root).exists()
    assert everything_in(tmp_path) == ["out/period_start=2013-01-05/part-0.parquet"]


# --- revisions -------------------------------------------------------------------------------------------


def standing(root: Path) -> tuple[int, int]:
    """The first count of the part, and the revision that its labels tell."""
    file = pq.ParquetFile(root / "period_start=2013-01-05" / "part-0.parquet")
    revision = file.metadata.metadata[b"dp_spark.release_id"].decode().rpartition("/")[2]
    return file.read()["flights"][0].as_py(), int(revision)


@pytest.mark.parametrize("can", [True, False])
def test_a_revision_takes_the_place_of_an_earlier_one_and_leaves_nothing(tmp_path, monkeypatch, can):
    if not can:
        monkeypatch.setattr(parquet, "exchange", lambda first, second: False)
    root = tmp_path / "out"
    publish(root)
    publish(root, DAY + timedelta(1))
    revise(root, 200, 1)
    assert standing(root) == (200, 1)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert len(everything_in(root)) == 2
    with pytest.raises(PublishRefused, match="holds release nyc_planes/flights/2013-01-05/1"):
        publish(root)
    assert standing(root) == (200, 1)


def test_a_revision_that_fails_between_two_renames_puts_back_what_it_revises(tmp_path, monkeypatch):
    root, rename, renamed = tmp_path / "out", os.rename, []

    def full(source: Path, target: Path) -> None:
        renamed.append(source)
        if len(renamed) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target)

    publish(root)
    monkeypatch.setattr(parquet, "exchange", lambda first, second: False)
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(PublishRefused, match="No space left"):
        revise(root, 200, 1)
    assert standing(root) == (100, 0)


@pytest.mark.parametrize(
    ("dying", "stands"),
    [
        (die_before_the_exchange, (100, 0)),
        (die_after_the_exchange, (200, 1)),
        (die_between_two_renames, None),
    ],
)
def test_a_reviser_killed_anywhere_leaves_one_of_both_and_the_next_one_finishes(
    tmp_path, dying, stands, process
):
    root = tmp_path / "out"
    publish(root)
    killed = process(target=dying, args=(root,))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    if stands is None:  # where the system cannot exchange
        assert everything_in(root) == []
    else:
        assert standing(root) == stands
    revise(root, 200, 1)
    assert standing(root) == (200, 1)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_of_two_publishers_that_revise_the_later_revision_stays(tmp_path, process):
    root, start = tmp_path / "race" / "out", multiprocessing.get_context("forkserver").Barrier(2)
    racers = [process(target=revise_in_a_race, args=(root, parity, start)) for parity in (0, 1)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0]
    assert standing(root) == (REVISIONS - 1, REVISIONS - 1)
    assert [each.name for each in (tmp_path / "race").iterdir()] == ["out"]


def test_a_reader_during_a_revision_finds_the_earlier_or_the_later_one(tmp_path, process):
    """The path of the part always leads to a whole file, whose rows and labels are of one revision."""
    root, seen = tmp_path / "out", set()
    revise(root, 0, 0)
    publisher = process(target=revise_often, args=(root, 0.01))
    with publishing(publisher):
        while publisher.is_alive():
            first, revision = standing(root)
            assert first == revision
            seen.add(revision)
    assert standing(root) == (REVISIONS - 1, REVISIONS - 1)
    assert len(seen) > 3


# --- columns over time -----------------------------------------------------------------------------------

NEXT = DAY + timedelta(1)


def test_a_query_added_is_null_for_readers_who_merge_the_columns_of_earlier_parts(tmp_path):
    root = tmp_path / "out"
    publish(root)
    more = artefact(NEXT).append_column("late", pa.array([1.5] * GROUPS))
    ParquetSink(root).publish(edition(NEXT, table=more))
    rows = duckdb.sql(
        f"select period_start, count(late) from read_parquet('{root}/*/*.parquet', hive_partitioning = true, "
        "union_by_name = true) group by 1 order by 1"
    ).fetchall()
    assert rows == [(DAY, 0), (NEXT, GROUPS)]
    publish(root, DAY + timedelta(2))  # and one that was dropped again


def test_a_column_of_another_type_is_refused_before_the_charge_and_when_it_is_published(tmp_path):
    root = tmp_path / "out"
    publish(root)
    table = artefact(NEXT)
    changed = table.set_column(2, "flights", table["flights"].cast(pa.float64()))
    part = Part.of_period(NEXT)
    for attempt in (
        lambda: ParquetSink(root).require_free(part, release_of(NEXT), changed.schema),
        lambda: ParquetSink(root).publish(edition(NEXT, table=changed)),
    ):
        with pytest.raises(PublishRefused, match="flights") as refused:
            attempt()
        assert refused.value.code == "column_retyped"
    assert len(everything_in(tmp_path)) == 1
    ParquetSink(root).require_free(part, release_of(NEXT), table.schema)


@pytest.mark.skipif(os.geteuid() != 0, reason="root may read everywhere; others are refused by the mode")
def test_a_root_that_cannot_be_looked_at_is_no_reason_to_refuse_the_charge(tmp_path):
    publish(tmp_path / "out")
    (tmp_path / "out").chmod(0o700)
    os.seteuid(65534)
    try:
        ParquetSink(tmp_path / "out").require_free(Part.of_period(NEXT), release_of(NEXT), artefact().schema)
    finally:
        os.seteuid(0)


# --- readers during publishing ---------------------------------------------------------------------------


@contextmanager
def publishing(publisher: "ForkServerProcess") -> Iterator[None]:
    publisher.start()
    try:
        yield
    finally:
        publisher.join()
    assert publisher.exitcode == 0


def test_duckdb_sees_whole_periods_only_while_they_are_published(tmp_path, process):
    publish(tmp_path / "out", DAY - timedelta(1))
    columns = "select period_start, count(*)"
    queries = [
        f"{columns} from read_parquet('{tmp_path}/out/{glob}', hive_partitioning = true) group by 1"
        for glob in ("*/*.parquet", "**/*.parquet")
    ]
    seen: set[int] = set()
    publisher = process(target=publish_daily, args=(tmp_path / "out", 0.02))
    with publishing(publisher):
        while publisher.is_alive():
            for query in queries:
                counts = duckdb.sql(query).fetchall()
                assert {rows for _, rows in counts} == {GROUPS}
                seen.add(len(counts))
    days = [day for day, _ in duckdb.sql(queries[0] + " order by 1").fetchall()]
    assert days == [DAY + timedelta(each) for each in range(-1, DAYS)]
    assert len(seen) > 3  # the readers did watch it grow


def test_spark_sees_whole_periods_only_while_they_are_published(tmp_path, process, spark: SparkSession):
    publish(tmp_path / "out", DAY - timedelta(1))
    assert spark.read.parquet(str(tmp_path / "out")).count() == GROUPS
    seen: set[int] = set()
    publisher = process(target=publish_daily, args=(tmp_path / "out", 0.08))
    with publishing(publisher):
        while publisher.is_alive():
            counts = spark.read.parquet(str(tmp_path / "out")).groupBy("period_start").count().collect()
            assert {row["count"] for row in counts} == {GROUPS}
            seen.add(len(counts))
    inference = "spark.sql.sources.partitionColumnTypeInference.enabled"  # off in our session, on elsewhere
    spark.conf.set(inference, "true")
    frame = spark.read.parquet(f"file://{tmp_path}/out")
    spark.conf.set(inference, "false")
    assert dict(frame.dtypes) == {
        "origin": "string",
        "flights": "bigint",
        "release_id": "string",
        "period_start": "date",
    }
    assert frame.count() == GROUPS * (DAYS + 1)
    assert len(seen) > 1


def test_a_sink_says_whether_it_holds_an_artefact(tmp_path):
    sink, part = ParquetSink(tmp_path / "out"), Part.of_period(DAY)
    release, digest = release_of(DAY), artefact_digest(artefact())
    assert not sink.holds(part, release, digest)
    publish(tmp_path / "out")
    assert sink.holds(part, release, digest)
    assert not sink.holds(part, release, "another")
    assert not sink.holds(part, "nyc_planes/flights/2013-01-05/1", digest)


def test_a_root_that_is_a_file_is_refused_before_the_charge(tmp_path):
    (tmp_path / "out").touch()
    sink = ParquetSink(tmp_path / "out")
    with pytest.raises(PublishRefused, match="its directory is a file") as refusal:
        sink.require_free(Part.of_period(DAY), release_of(DAY), artefact().schema)
    assert refusal.value.code == "sink_refuses"
