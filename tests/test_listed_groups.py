"""Groups that a run reads: once, before the charge, and for good; never from what the release protects."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from test_pipeline import SPEC, World, no_spark, published

from dp_spark.errors import InputRefused
from dp_spark.frames.session import pinned
from dp_spark.pipeline import Step
from dp_spark.release.enrolling import enrolment_of
from dp_spark.release.group_keys import keys_digest
from dp_spark.release.ledger import ReleaseState
from dp_spark.release.places import open_ledger
from dp_spark.release.spec import ReleaseSpec, parse_spec

LISTED = "{public: [a, b, c, nobody]}"


def with_groups(text: str) -> ReleaseSpec:
    return parse_spec(SPEC.replace(LISTED, text))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "towns.csv").write_text("town,country\nnobody,x\nb,y\na,z\n")
    return World(tmp_path)


def towns(world: World, key: str = "2024-03-01") -> list[str]:
    found: list[str] = published(world, key)["town"].to_pylist()
    return found


def statement(world: World, key: str = "2024-03-01") -> dict[str, object]:
    """What the statement says of groups."""
    (page,) = (world.home / ".dp_spark").rglob(f"{key}-r0.json")
    groups: dict[str, object] = json.loads(page.read_text())["groups"]
    return groups


def test_a_resumed_release_has_the_groups_that_it_was_charged_for_whatever_the_list_has_become(
    world: World, spark: SparkSession
) -> None:
    def stop(step: Step) -> None:
        if step is Step.READ:
            raise KeyboardInterrupt

    spec = with_groups("{public_file: towns.csv}")
    with pytest.raises(KeyboardInterrupt):
        world.run(lambda: spark, spec=spec, observe=stop)
    assert (world.state("2024-03-01"), world.spent) == (ReleaseState.READING, 1)
    (world.home / "towns.csv").write_text("town\na\nz\n")
    world.run(lambda: spark, spec=spec)
    (world.home / "towns.csv").unlink()
    world.run(no_spark, spec=spec)
    assert (towns(world), world.spent) == (["a", "b", "nobody"], 1)
    told = statement(world)
    assert (told["count"], told["source"]) == (3, "from public_file towns.csv")
    assert told["digest"] == keys_digest((("a",), ("b",), ("nobody",)))


def test_every_release_of_a_schedule_reads_the_list_anew(world: World, spark: SparkSession) -> None:
    text = SPEC.replace("population: town_people}", "population: town_people, horizon: 2}")
    spec, ledger = parse_spec(text.replace(LISTED, "{public_file: towns.csv}")), open_ledger(world.profile)
    ledger.set_pools("town_people", {}, reason="a test")
    asked, plan = enrolment_of(ledger.budget("town_people"), spec)
    ledger.enrol("town_people", asked, reason="a test")
    assert plan.listed is None
    world.run(lambda: spark, spec=spec)
    (world.home / "towns.csv").write_text("town\nd\nz\n")
    second = world.run(lambda: spark, "2024-03-02", spec)
    assert (towns(world), towns(world, "2024-03-02")) == (["a", "b", "nobody"], ["d", "z"])
    assert second.schedule == "visits"


def test_a_table_is_read_before_the_charge_and_kept(world: World, spark: SparkSession) -> None:
    spec = with_groups("{public_table: {table: towns, as_of: period_end, valid_from: since}}")
    rows = "('b', '2024-01-01'), ('c', '2024-03-01'), ('d', '2024-03-02')"

    def stop(step: Step) -> None:
        if step is Step.READ:
            raise KeyboardInterrupt

    with pytest.raises(InputRefused) as refusal:
        world.run(lambda: spark, spec=spec)
    assert (refusal.value.code, world.spent) == ("groups_not_readable", 0)
    spark.sql(f"SELECT * FROM VALUES {rows} AS t(town, since)").createOrReplaceTempView("towns")
    with pytest.raises(KeyboardInterrupt):
        world.run(lambda: spark, spec=spec, observe=stop)
    spark.catalog.dropTempView("towns")
    world.run(lambda: spark, spec=spec)
    assert (towns(world), world.spent) == (["b", "c"], 1)
    assert "public_table towns" in str(statement(world)["source"])


@pytest.mark.parametrize(
    ("groups", "registered"),
    [
        ("{public_file: in/rows.parquet}", None),
        ("{public_file: linked/rows.parquet}", None),
        ("{public: {town: {file: in/rows.parquet}}}", None),
        ("{public_file: towns.csv}", "towns.csv"),
        ("{public_file: people/towns.csv}", "people"),
    ],
)
def test_a_list_of_private_rows_is_refused_before_spark_starts(
    world: World, groups: str, registered: str | None
) -> None:
    (world.home / "linked").symlink_to("in")
    (world.home / "people").mkdir()
    (world.home / "people" / "towns.csv").write_text("town\na\n")
    if registered is not None:
        open_ledger(world.profile).add_source(registered, "town_people")
    with pytest.raises(InputRefused) as refusal:
        world.run(no_spark, spec=with_groups(groups))
    assert (refusal.value.code, world.spent) == ("groups_from_private_source", 0)


def test_a_view_of_the_input_is_no_public_table(world: World, spark: SparkSession) -> None:
    with pinned(spark):
        spark.read.parquet(f"file:{world.home}/in").select("town").createOrReplaceTempView("towns")
    with pytest.raises(InputRefused) as refusal:
        world.run(lambda: spark, spec=with_groups("{public_table: {table: towns}}"))
    assert (refusal.value.code, world.spent) == ("groups_from_private_source", 0)
    spark.catalog.dropTempView("towns")
