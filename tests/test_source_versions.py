"""A release reads one version of a table, whatever is written to it meanwhile, and says which."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from dp_spark.errors import InputRefused, Refusal
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.pipeline import Step, run_release
from dp_spark.release.ledger import Decision, Ledger, ReleaseId, source_name
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import ReleaseSpec
from dp_spark.report import RunResult, result_json

KEY = "2024-03-01"
RELEASE = ReleaseId("town_people", "visits", KEY)
ROWS = pa.table({"person": [f"p{i}" for i in range(300)], "town": ["a"] * 300, "at": [KEY] * 300})


class Killed(Exception):
    """The process is gone."""


class World:
    """A Delta table of 300 people, a ledger with a budget of two releases, and a profile."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home, self.spark = home, spark
        self.table = str(home / "in")
        write_deltalake(self.table, ROWS, partition_by=["at"])
        self.profile: Profile = embedded_profile(home)
        make_places(self.profile)
        self.ledger.set_budget(
            "town_people",
            PrivacyGuarantee(Fraction(2), Fraction(2, 10**6)),
            unit=PrivacyUnit(("person",)),
            neighbours=Neighbours.ADD_REMOVE,
            reason="a test",
        )

    @property
    def ledger(self) -> Ledger:
        return open_ledger(self.profile)

    def run(self, kill: Step | None = None, revise: str | None = None, **changes: Any) -> RunResult:
        def observe(step: Step) -> None:
            if step is kill:
                raise Killed

        spec = {
            "release": "visits",
            "input": {"format": "delta", "path": self.table},
            "period": {"column": "at", "every": "day"},
            "unit": {"column": "person", "on_null": "drop"},
            "bounds": {"max_groups": 1, "max_rows_per_group": 1},
            "group_by": ["town"],
            "groups": {"public": ["a"]},
            "guarantee": {"epsilon": 1, "delta": "1e-6"},
            "queries": [{"name": "visits", "kind": "count"}],
            "budget": {"population": "town_people"},
            "publish": [{"sink": "parquet", "path": str(self.home / "out")}],
        }
        return run_release(
            ReleaseSpec(**{**spec, **changes}),
            KEY,
            profile=self.profile,
            spark=lambda: self.spark,
            observe=observe,
            revise=revise,
        )

    def empty(self) -> None:
        write_deltalake(self.table, ROWS.slice(0, 0), mode="overwrite")

    def vacuum(self) -> None:
        DeltaTable(self.table).vacuum(0, dry_run=False, enforce_retention_duration=False)


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, spark)


def refused(action: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        action()
    return caught.value


def test_an_attempt_that_starts_over_reads_the_version_that_was_charged_for(world: World) -> None:
    with pytest.raises(Killed):
        world.run(kill=Step.READ)
    world.empty()
    result = world.run()
    assert result.table["visits"][0].as_py() > 150  # 300 of them, with noise of std 2
    record = world.ledger.find(RELEASE)
    assert record is not None
    assert record.source_version == result.source_version
    assert str(record.source_version).startswith("0 of ")
    assert result_json(result)["source_version"] == record.source_version
    told = json.loads(next((world.home / ".dp_spark" / "statements").rglob("*-r0.json")).read_text())
    assert told["sealed"]["source_version"] == record.source_version
    assert world.ledger.verify().findings == ()


def test_a_version_that_went_after_the_charge_is_refused_and_can_be_given_up(world: World) -> None:
    with pytest.raises(Killed):
        world.run(kill=Step.READ)
    world.empty()
    world.vacuum()
    refusal = refused(world.run)
    assert refusal.code == "version_gone"
    assert "release abandon" in refusal.way_out
    assert world.ledger.budget("town_people").spent.epsilon == 1
    world.ledger.decide(RELEASE, Decision.ABANDON, "the version is gone")
    result = world.run(revise="of the version that is left")
    assert str(result.source_version).startswith("3 of ")  # a vacuum is two versions of its own
    assert result.table["visits"][0].as_py() < 150


def test_a_column_that_was_dropped_since_is_refused_before_the_charge(world: World) -> None:
    write_deltalake(
        world.table, ROWS.rename_columns(["who", "town", "at"]), mode="overwrite", schema_mode="overwrite"
    )
    refusal = refused(world.run)
    assert isinstance(refusal, InputRefused)
    assert "person" in refusal.message
    assert world.ledger.find(RELEASE) is None


def test_a_table_has_one_name_however_it_is_written() -> None:
    spellings = ("table:flights", "table:default.flights", "table:Spark_Catalog.Default.FLIGHTS")
    assert {source_name(each) for each in spellings} == {"table:default.flights"}
    assert source_name("table:other.db.t") == "table:other.db.t"
    assert source_name("iceberg:lake/DB.t") == "iceberg:lake/db.t"
    assert source_name("jdbc:shop/T") == source_name("jdbc:shop/public.t") == "jdbc:shop/public.t"
