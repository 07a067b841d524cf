"""The sink of a table in Spark's built-in catalog: what the common contract does not ask of it."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sink_table import TableWorld
from sink_worlds import (
    COUNTS,
    DAY,
    EVERY_TYPE,
    GROUPS,
    HOSTILE,
    days,
    edition,
    publish,
    require_free,
    rows_of,
)

from dp_spark.errors import PublishRefused
from dp_spark.frames.spark_table import SparkTable
from dp_spark.publish import Edition, Part
from dp_spark.publish.catalog import CatalogSink

CHANGES = ("create", "set", "replace", "unset")


class Dying:
    """A table whose publisher dies before its nth change; halfway: between old files and new ones.

    Python gets no further, as after a SIGKILL, and the catalog and the files are as they were then.
    """

    def __init__(self, world: TableWorld, at: int, *, halfway: bool = False) -> None:
        self.real, self.world, self.left, self.halfway = (
            SparkTable(world.name, world.session),
            world,
            at,
            halfway,
        )

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.real, name)
        return method if name not in CHANGES else lambda *given: self.change(name, method, given)

    def change(self, name: str, method: Callable[..., None], given: tuple[Any, ...]) -> None:
        if self.left == 0:
            if self.halfway and name == "replace":
                shutil.rmtree(self.world.warehouse / "flights" / f"{given[1]}={given[2]}", ignore_errors=True)
            raise KeyboardInterrupt
        self.left -= 1
        method(*given)


class Overtaken(Dying):
    """A table that another publisher reaches just before the nth change of one kind, and is done with."""

    def __init__(self, world: TableWorld, kind: str, at: int, other: Callable[[], object]) -> None:
        super().__init__(world, at)
        self.kind, self.other = kind, other

    def change(self, name: str, method: Callable[..., None], given: tuple[Any, ...]) -> None:
        if name == self.kind:
            self.left -= 1
            if self.left == -1:
                self.other()
        method(*given)


@pytest.fixture
def world(request, tmp_path) -> TableWorld:
    return TableWorld.made(tmp_path, request)


def holds(world: TableWorld, each: Edition) -> bool:
    return rows_of(world.table(), each.part) == rows_of(each.table)


def replace_release(one: Edition) -> Edition:
    return replace(one, release_id=one.release_id.replace("flights", "others"))


@pytest.mark.parametrize("halfway", [False, True])
def test_a_publisher_that_dies_before_any_change_is_finished_by_the_next_one(world, halfway):
    """Whatever is announced, labels never name an edition whose rows are not there."""
    other = edition(days(9)[-1])
    publish(world, other)
    firsts = [(edition(day), at) for at, day in enumerate(days(3))]
    revisions = [(edition(revision=1 + at, first=300 + at), at) for at in range(4)]
    for one, at in [(one, at) for one, at in [*firsts, *revisions] if at == 1 or not halfway]:
        with pytest.raises(KeyboardInterrupt):
            CatalogSink(Dying(world, at, halfway=halfway)).publish(one)
        told = world.labels(one.part).get("dp_spark.release_id") == one.release_id
        assert holds(world, one) or not told
        assert holds(world, one) or not world.open().holds(one.part, one.release_id, one.digest)
        if at or not one.release_id.endswith("/0"):  # announced already, or there
            with pytest.raises(PublishRefused, match="holds release"):
                require_free(world, replace_release(one))
        publish(world, one)
        assert holds(world, one)
        assert one.labels.items() <= world.labels(one.part).items()
        announced = SparkTable(world.name, world.session).properties()
        assert not [key for key, text in announced.items() if "incoming" in key and text]
    assert holds(world, other)


@pytest.mark.parametrize(("kind", "at"), [("replace", 0), ("set", 0), ("set", 1), ("unset", 0)])
def test_a_late_publisher_is_refused_and_the_later_revision_is_written_again(world, kind, at):
    """Labels name rows that are not there only while one of both is announced, and never count as placed."""
    early, late = edition(), edition(revision=1, first=300)
    catalog = Overtaken(world, kind, at, lambda: publish(world, late))
    with pytest.raises(PublishRefused, match="/1;") as refused:
        CatalogSink(catalog).publish(early)
    assert refused.value.code == "period_occupied"
    told = world.labels(early.part)["dp_spark.release_id"]
    announced = SparkTable(world.name, world.session).properties()
    is_announced = any("incoming" in key and text for key, text in announced.items())
    assert is_announced or (told == late.release_id and holds(world, late))
    for each in (early, late):
        assert holds(world, each) or not world.open().holds(each.part, each.release_id, each.digest)
    with pytest.raises(PublishRefused, match="/1;"):
        publish(world, early)
    publish(world, late)
    assert holds(world, late)
    assert world.open().holds(late.part, late.release_id, late.digest)


def test_rows_of_a_late_publisher_that_died_are_noticed_and_replaced(world):
    early, late = edition(), edition(revision=1, first=300)
    publish(world, late)
    table = SparkTable(world.name, world.session)
    table.replace(early.table.select(world.table().column_names), "period_start", DAY)
    assert not world.open().holds(late.part, late.release_id, late.digest)
    publish(world, late)
    assert holds(world, late)
    assert world.open().holds(late.part, late.release_id, late.digest)


def test_whoever_dies_before_the_table_is_made_leaves_nothing(world):
    with pytest.raises(KeyboardInterrupt):
        CatalogSink(Dying(world, 0)).publish(edition())
    assert list(world.warehouse.iterdir()) == []
    assert not world.open().holds(edition().part, edition().release_id, edition().digest)
    publish(world, edition())
    assert holds(world, edition())


def test_rows_that_somebody_removed_are_put_back_and_changed_ones_are_not_replaced(world):
    one, table = edition(), SparkTable(world.name, world.session)
    publish(world, one)
    table.replace(one.table.slice(0, 0), "period_start", DAY)
    assert world.table().num_rows == 0
    assert not world.open().holds(one.part, one.release_id, one.digest)
    publish(world, one)
    assert holds(world, one)
    assert world.open().holds(one.part, one.release_id, one.digest)
    assert not world.open().holds(one.part, one.release_id, "another")
    names = world.table().column_names
    table.replace(edition(first=900).table.select(names), "period_start", DAY)
    assert not world.open().holds(one.part, one.release_id, one.digest)
    with pytest.raises(PublishRefused, match="not those of release") as refused:
        publish(world, one)
    assert refused.value.code == "period_occupied"


def test_a_revision_without_rows_empties_the_part_and_no_other(world):
    other = edition(days(2)[1])
    for each in (edition(), other, edition(revision=1, rows=0)):
        publish(world, each)
    assert rows_of(world.table()) == rows_of(other.table)
    publish(world, edition(revision=1, rows=0))
    publish(world, edition(revision=2))
    assert world.table().num_rows == 2 * GROUPS


def test_labels_and_comments_take_any_text_and_words_that_spark_hides(world):
    hidden, text = Part("wave", "token_of.url-1"), "".join(HOSTILE) + "the secret {password}${spark.master}"
    one = replace(edition(part=hidden), facts={"said": text}, comment=text)
    publish(world, one)
    assert world.labels(hidden)["dp_spark.said"] == text
    assert world.comments()[""] == text
    before = world.state()
    publish(world, one)
    assert world.state() == before


@pytest.mark.parametrize(
    "make",
    [
        "CREATE VIEW {name} AS SELECT DATE '2013-01-05' period_start, 'g' origin",
        "CREATE TABLE {name} (period_start DATE, origin STRING) USING parquet",
        "CREATE TABLE {name} (a INT, period_start DATE, origin STRING) USING parquet "
        "PARTITIONED BY (period_start, origin)",
    ],
)
def test_a_table_whose_parts_cannot_be_replaced_alone_is_refused_before_the_charge(world, make):
    world.spark.sql(make.format(name=world.name))
    for attempt in (require_free, publish):
        with pytest.raises(PublishRefused) as refused:
            attempt(world, edition())
        assert refused.value.code == "table_of_no_parts"


def test_a_table_of_somebody_else_with_further_columns_takes_editions(world):
    world.spark.sql(
        f"CREATE TABLE {world.name} (note STRING, flights BIGINT, period_start DATE) USING parquet "
        "PARTITIONED BY (period_start)"
    )
    one = edition(columns={"flights": COUNTS, "share": EVERY_TYPE["share"]})
    publish(world, one)
    publish(world, one)
    table = world.table()
    assert table["note"].null_count == GROUPS
    assert rows_of(table.drop_columns(["note"])) == rows_of(one.table)


def test_settings_of_the_session_are_its_own_afterwards(world):
    key = "spark.sql.sources.partitionOverwriteMode"
    before = world.spark.conf.get(key)
    publish(world, edition())
    assert world.spark.conf.get(key) == before


def test_failures_of_spark_are_told_without_their_text(world):
    (world.warehouse / "flights").mkdir()
    (world.warehouse / "flights" / "theirs").write_text("")
    with pytest.raises(PublishRefused, match="LOCATION_ALREADY_EXISTS") as refused:
        publish(world, edition())
    assert refused.value.code == "sink_unreachable"
