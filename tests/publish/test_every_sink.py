"""The contract of sinks, of every kind: see `dp_spark.publish.sink.Sink`."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sink_delta import DeltaWorld
from sink_duckdb import DuckDbWorld
from sink_iceberg import IcebergWorld
from sink_parquet import ParquetWorld
from sink_postgres import PostgresWorld
from sink_table import TableWorld
from sink_worlds import (
    COMMENT,
    COUNTS,
    DAY,
    EVERY_TYPE,
    GROUPS,
    Column,
    SinkWorld,
    days,
    edition,
    publish,
    publish_and_die,
    publish_and_die_after,
    publish_in_a_race,
    publish_revisions,
    publish_timed,
    require_free,
    rows_of,
)

from dp_spark.errors import PublishRefused
from dp_spark.publish import Edition, Part

WORLDS: dict[str, type[SinkWorld]] = {
    "parquet": ParquetWorld,
    "delta": DeltaWorld,
    "table": TableWorld,
    "postgres": PostgresWorld,
    "duckdb": DuckDbWorld,
    "iceberg": IcebergWorld,
}
PRELOADED = [
    "dp_spark.publish.iceberg",
    "dp_spark.publish.delta",
    "pyiceberg.catalog.sql",
    "pandas",
    "pytest",
]
RACED, REVISED = 4, 8  # parts, and revisions of one


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> SinkWorld:
    return WORLDS[request.param].made(tmp_path, request)


@pytest.fixture
def process(world: SinkWorld) -> "type[ForkServerProcess]":
    """Starts processes that share nothing with this one, and have imported already what sinks need."""
    if not world.has_processes:
        pytest.skip("other processes do not reach it")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context.Process


def refused(action: Callable[[SinkWorld, Edition], object], world: SinkWorld, each: Edition) -> str:
    """The code with which an edition is refused; nothing is written meanwhile."""
    before = world.state()
    with pytest.raises(PublishRefused) as refusal:
        action(world, each)
    assert world.state() == before
    assert "g0" not in str(refusal.value)  # a value of a row
    return refusal.value.code


def assert_holds(world: SinkWorld, *editions: Edition) -> None:
    """The table is these editions and nothing else, and each has its labels."""
    assert rows_of(world.table()) == sorted(
        (row for each in editions for row in rows_of(each.table)), key=repr
    )
    for each in editions:
        assert each.labels.items() <= world.labels(each.part).items()


# --- one publisher -----------------------------------------------------------------------------------------


def test_rows_of_every_type_and_labels_are_there_as_they_were_given(world):
    one = edition(columns=EVERY_TYPE)
    require_free(world, one)
    place = publish(world, one)
    assert place
    assert "\n" not in place
    assert_holds(world, one)
    kinds = {field.name: field.type for field in world.table().schema}
    assert kinds == {field.name: field.type for field in one.table.schema}


def test_columns_and_table_carry_their_comments(world):
    publish(world, edition())
    comments = world.comments()
    assert comments["flights"] == "what flights is"
    assert comments.get("", COMMENT) == COMMENT


def test_publishing_again_changes_nothing(world):
    one, other = edition(), edition(days(2)[1])
    place = publish(world, one)
    publish(world, other)
    before = world.state()
    assert publish(world, one) == place
    assert refused(require_free, world, one) == "period_occupied"  # no charge that is known made it
    assert world.state() == before
    assert_holds(world, one, other)


def test_it_says_whether_it_holds_an_edition(world):
    def holds(each: Edition) -> bool:
        return world.open().holds(each.part, each.release_id, each.digest)

    first, other, later = edition(), edition(days(2)[1]), edition(revision=1, first=300)
    publish(world, other)
    assert not holds(first)
    publish(world, first)
    before = world.state()
    assert [holds(each) for each in (first, other, later)] == [True, True, False]
    assert not world.open().holds(first.part, first.release_id, later.digest)
    assert world.state() == before
    publish(world, later)
    assert [holds(each) for each in (first, other, later)] == [False, True, True]


def test_a_revision_replaces_its_part_and_no_other(world):
    first, other, later = edition(), edition(days(2)[1]), edition(revision=1, first=300)
    for each in (first, other):
        publish(world, each)
    require_free(world, later)
    publish(world, later)
    publish(world, later)
    assert_holds(world, later, other)


def test_an_earlier_revision_does_not_come_back(world):
    publish(world, edition(revision=10, first=300))
    assert refused(publish, world, edition(revision=9)) == "period_occupied"
    assert refused(require_free, world, edition(revision=9)) == "period_occupied"
    publish(world, edition(revision=11))


def test_another_release_or_another_artefact_is_refused(world):
    publish(world, edition())
    stranger = edition(release="others")
    assert refused(require_free, world, stranger) == "period_occupied"
    assert refused(publish, world, stranger) == "period_occupied"
    with pytest.raises(PublishRefused, match="nyc_planes/flights/2013-01-05/0"):
        publish(world, stranger)
    assert refused(publish, world, edition(first=200)) == "period_occupied"
    assert_holds(world, edition())


def test_rows_of_somebody_else_are_refused_in_the_part_and_left_alone_beside_it(world):
    theirs = edition(first=500).table
    world.add_strangers(theirs)
    assert refused(require_free, world, edition()) == "period_occupied"
    assert refused(publish, world, edition()) == "period_occupied"
    beside = edition(days(2)[1])
    publish(world, beside)
    assert rows_of(world.table()) == sorted(rows_of(theirs) + rows_of(beside.table), key=repr)


def test_parts_are_named_by_texts_too_and_a_release_may_have_no_rows(world):
    waves = [
        edition(part=Part("wave", "2026-10"), rows=rows, revision=revision)
        for rows, revision in ((0, 0), (GROUPS, 1))
    ]
    other = edition(part=Part("wave", "spring.2026_A-1"))
    publish(world, other)
    for wave in waves:
        publish(world, wave)
        publish(world, wave)
        assert_holds(world, wave, other)


# --- columns over time -------------------------------------------------------------------------------------


def test_a_query_added_is_null_before_and_one_that_is_gone_is_null_after(world):
    first = edition(columns={"flights": COUNTS, "small": EVERY_TYPE["small"]})
    second = edition(days(2)[1], columns={"flights": COUNTS, "share": EVERY_TYPE["share"]})
    publish(world, first)
    require_free(world, second)
    publish(world, second)
    publish(world, edition(revision=1, columns={"flights": COUNTS, "small": EVERY_TYPE["small"]}))
    table = world.table()
    assert set(table.column_names) == {*first.table.column_names, "share"}
    found = {(row["period_start"], row["small"] is None, row["share"] is None) for row in table.to_pylist()}
    assert found == {(DAY, False, True), (days(2)[1], True, False)}


@pytest.mark.parametrize("is_long", [False, True], ids=["wide", "long"])
def test_a_table_takes_one_shape(world, is_long):
    double = Column(pa.float64(), float)
    numbers = dict.fromkeys(("value", "std", "low", "high"), double)
    long = {"metric": Column(pa.string(), lambda _: "flights"), **numbers}
    own, other = ({"flights": COUNTS}, long)[:: -1 if is_long else 1]
    first = edition(columns=own)
    publish(world, first)
    assert world.open().holds(first.part, first.release_id, first.digest)
    for later in (edition(revision=1, columns=other), edition(days(2)[1], columns=other)):
        assert refused(require_free, world, later) in {"another_shape", "period_occupied"}
        assert refused(publish, world, later) in {"another_shape", "period_occupied"}
    same = replace(edition(columns=other), digest=first.digest)
    assert refused(publish, world, same) in {"another_shape", "period_occupied"}
    publish(world, edition(revision=1, columns=own))


@pytest.mark.parametrize(
    "changed", [{"flights": Column(pa.float64(), float)}, {"FLIGHTS": COUNTS}], ids=["type", "case"]
)
def test_a_column_of_another_type_or_spelling_is_refused(world, changed):
    publish(world, edition())
    later = edition(days(2)[1], columns=changed)
    assert refused(require_free, world, later) == "column_retyped"
    assert refused(publish, world, later) == "column_retyped"


# --- a sink that is down -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_made", [False, True])
def test_a_sink_that_is_down_is_no_reason_to_refuse_a_charge_and_is_finished_later(world, is_made):
    other = edition(days(2)[1])
    if is_made:
        publish(world, other)
    with world.down():
        require_free(world, edition())
        assert refused(publish, world, edition()) in {"sink_unreachable", "sink_unwritable"}
    publish(world, edition())
    assert_holds(world, edition(), *[other] * is_made)


# --- publishers that are killed ----------------------------------------------------------------------------


def killed(process: "type[ForkServerProcess]", work: Callable[..., None], *arguments: Any) -> bool:
    """Whether the process was killed, and not done before."""
    worker = process(target=work, args=arguments)
    worker.start()
    worker.join()
    assert worker.exitcode in (0, -signal.SIGKILL)
    return worker.exitcode != 0


def test_whoever_is_killed_at_a_boundary_leaves_all_or_nothing_and_the_next_one_finishes(world, process):
    other = edition(days(20)[-1])
    publish(world, other)
    for day, boundary in zip(days(len(world.boundaries)), world.boundaries, strict=True):
        one = edition(day)
        before = rows_of(world.table())
        assert killed(process, publish_and_die, world, one, boundary.name)
        assert rows_of(world.table(), one.part) == (rows_of(one.table) if boundary.placed else [])
        publish(world, one)
        assert rows_of(world.table()) == sorted(before + rows_of(one.table), key=repr)


def test_whoever_is_killed_at_any_moment_leaves_what_publishing_again_finishes(
    world, process, tmp_path, request
):
    """Moments spread evenly over the time that publishing takes, of a first edition and of revisions."""
    said, place, moments = tmp_path / "seconds", tmp_path / "timed", 6
    place.mkdir()
    assert not killed(process, publish_timed, type(world).made(place, request), edition(), said)
    seconds = float(said.read_text())
    for moment in range(moments):
        one = edition(revision=moment, first=100 * moment)
        killed(process, publish_and_die_after, world, one, seconds * moment / moments)
        publish(world, one)
        assert_holds(world, one)


# --- publishers at the same time ---------------------------------------------------------------------------


@pytest.fixture
def race(world, process, tmp_path) -> Callable[..., list[list[str]]]:
    def run(*each: Sequence[Edition]) -> list[list[str]]:
        """What publishers that start together say of their editions, one after the other."""
        start = multiprocessing.get_context("forkserver").Barrier(len(each))
        said = [tmp_path / f"said-{number}" for number in range(len(each))]
        racers = [
            process(target=publish_in_a_race, args=(world, editions, start, file))
            for editions, file in zip(each, said, strict=True)
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        return [file.read_text().split() for file in said]

    return run


def test_two_publishers_of_the_same_artefacts_both_succeed(world, race):
    own = [edition(day) for day in days(RACED)]
    assert race(own, own) == [["published"] * RACED] * 2
    assert_holds(world, *own)


def test_two_publishers_of_different_parts_both_succeed(world, race):
    own = [edition(day) for day in days(2 * RACED)]
    assert race(own[::2], own[1::2]) == [["published"] * RACED] * 2
    assert_holds(world, *own)


def test_of_two_publishers_of_different_artefacts_one_wins_each_part_whole(world, race):
    both = [[edition(day, first=first) for day in days(RACED)] for first in (100, 200)]
    for told in zip(*race(*both), strict=True):
        assert sorted(told) == ["period_occupied", "published"]
    for pair in zip(*both, strict=True):
        assert rows_of(world.table(), pair[0].part) in [rows_of(each.table) for each in pair]


def test_of_two_publishers_of_different_revisions_the_later_stands(world, race):
    both = [[edition(day, revision, first=100 * revision) for day in days(RACED)] for revision in (0, 1)]
    earlier, later = race(*both)
    assert later == ["published"] * RACED
    assert set(earlier) <= {"published", "period_occupied"}
    assert_holds(world, *both[1])


# --- readers during publishing -----------------------------------------------------------------------------


def test_a_reader_sees_an_old_revision_or_a_new_one_and_never_a_mix(world, process):
    if not world.is_atomic:
        pytest.skip("its readers may find nothing for a moment")
    editions = [edition(revision=revision, first=100 * revision) for revision in range(REVISED)]
    other = edition(days(2)[1])
    publish(world, other)
    publish(world, editions[0])
    publisher = process(target=publish_revisions, args=(world, editions[1:], 0.05))
    publisher.start()
    seen: list[int] = []
    while publisher.is_alive():
        try:
            table = world.table()
        except world.lost:
            continue
        (revision,) = {row["revision"] for row in table.to_pylist() if row["period_start"] == DAY}
        assert rows_of(table) == sorted(rows_of(editions[revision].table) + rows_of(other.table), key=repr)
        seen.append(revision)
    publisher.join()
    assert publisher.exitcode == 0
    assert seen == sorted(seen)
    assert len(set(seen)) > 2  # it did watch them come
    assert_holds(world, editions[-1], other)
