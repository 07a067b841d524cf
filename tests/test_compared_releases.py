"""A release beside those before it, on real Spark: held, warned of, decided, and told in evidence."""

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dp_spark.errors import ReleaseHeld
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.pipeline import Step, publish_held, run_release
from dp_spark.release.ledger import ReleaseId, ReleaseState
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import ReleaseSpec
from dp_spark.report import RunResult, result_json, result_text

TOWNS = [f"t{i:02}" for i in range(12)]
CROWDED = "2024-03-04"


def spec(**changes: Any) -> ReleaseSpec:
    base: dict[str, Any] = {
        "release": "visits",
        "input": {"format": "parquet", "path": "in"},
        "period": {"column": "at", "every": "day"},
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": 1, "max_rows_per_group": 1},
        "group_by": ["town"],
        "groups": {"public_file": "towns.csv"},
        "guarantee": {"epsilon": "0.3", "delta": "1e-6"},
        "queries": [{"name": "visits", "kind": "count"}],
        "budget": {"population": "people"},
        "publish": [{"sink": "parquet", "path": "out"}],
        "checks": {"history": {"against": "previous"}},
    }
    return ReleaseSpec(**{**base, **changes})


class World:
    """Twelve towns with 40 visits a day; the fourth day has 200 in the first town."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home, self.spark = home, spark
        days = [f"2024-03-0{day}" for day in range(1, 6)]
        visits = [(day, town) for day in days for town in TOWNS for _ in range(40)]
        visits += [(CROWDED, TOWNS[0])] * 160
        rows = {"person": [f"p{i}" for i in range(len(visits))]}
        rows |= {"at": [day for day, _ in visits], "town": [town for _, town in visits]}
        (home / "in").mkdir()
        pq.write_table(pa.table(rows), home / "in" / "rows.parquet")
        self.list_towns(TOWNS)
        self.profile: Profile = embedded_profile(home)
        make_places(self.profile)
        open_ledger(self.profile).set_budget(
            "people",
            PrivacyGuarantee(Fraction(20), Fraction(20, 10**6)),
            unit=PrivacyUnit(("person",)),
            neighbours=Neighbours.ADD_REMOVE,
            reason="a test",
        )

    def list_towns(self, towns: list[str]) -> None:
        (self.home / "towns.csv").write_text("\n".join(["town", *towns]) + "\n")

    def run(self, day: int, **given: Any) -> RunResult:
        key = f"2024-03-0{day}"
        return run_release(spec(), key, profile=self.profile, spark=lambda: self.spark, **given)

    def state(self, day: int) -> ReleaseState | None:
        record = open_ledger(self.profile).find(ReleaseId("people", "visits", f"2024-03-0{day}"))
        return record and record.state

    def evidence(self, day: int) -> dict[str, Any]:
        path = self.profile.statements / "people" / "visits" / f"2024-03-0{day}-r0.checks.json"
        return json.loads(path.read_text())


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, spark)


def test_a_missing_night_holds_the_next_until_it_is_there(world: World) -> None:
    first = world.run(1)
    assert first.findings == ()
    assert world.evidence(1)["compared_with"] == {}
    with pytest.raises(ReleaseHeld) as held:
        world.run(3)
    assert "history: the period before, 2024-03-02, is not sealed" in held.value.message
    assert world.state(3) is ReleaseState.HELD
    assert not (world.home / "out" / "period_start=2024-03-03").exists()
    world.run(2)
    again = world.run(3)
    assert (again.charged, again.findings, world.state(3)) == (None, (), ReleaseState.SEALED)
    assert world.evidence(3)["compared_with"]["like"] == {
        "release": "people/visits/2024-03-02/0",
        "read_from": "staged",
    }


def test_a_group_that_left_the_public_list_holds_and_a_decision_publishes(world: World) -> None:
    world.run(1)
    world.list_towns(TOWNS[1:])
    with pytest.raises(ReleaseHeld) as held:
        world.run(2)
    assert "1 group: 't00' are gone" in held.value.message
    release = ReleaseId("people", "visits", "2024-03-02")
    result = publish_held(release, "the town is no more", profile=world.profile, spark=lambda: world.spark)
    assert (result.findings, world.state(2)) == ((), ReleaseState.SEALED)
    told = world.evidence(2)
    assert told["published_by_decision"]
    assert [(each["check"], each["blocks"]) for each in told["findings"]] == [("vanished_group", True)]
    assert world.run(3).findings == ()  # the list is that of the newest release


def outcomes(told: dict[str, Any], gate: str) -> dict[tuple[str, ...], bool]:
    return {
        (each["expectation"], *each["columns"]): each["met"] for each in told["gates"][gate]["expectations"]
    }


def test_evidence_has_every_expectation_of_a_held_and_of_a_passed_release(world: World) -> None:
    world.run(1)
    with pytest.raises(ReleaseHeld) as held:
        world.run(3)
    told = world.evidence(3)
    assert "statements/people/visits/2024-03-03-r0.checks.json" in held.value.message
    assert (told["gates"]["artefact"]["passed"], told["gates"]["history"]["passed"]) == (True, False)
    assert not told["published_by_decision"]
    assert outcomes(told, "history") == {
        ("missing_period",): False,
        ("identical_values", "visits"): True,
        ("vanished_group", "town"): True,
        ("large_change", "visits"): True,
    }
    world.run(2)
    world.run(3)
    told = world.evidence(3)
    assert all(gate["passed"] and gate["failed"] == [] for gate in told["gates"].values())
    assert all({**outcomes(told, "artefact"), **outcomes(told, "history")}.values())
    assert ("multiples", "visits", "visits_high", "visits_low") in {
        (name, *sorted(columns)) for name, *columns in outcomes(told, "artefact")
    }


def test_a_large_change_warns_in_result_and_evidence_and_does_not_hold(world: World) -> None:
    for day in (1, 2, 3):
        world.run(day)
    shutil.rmtree(world.profile.staging)  # the copies are there still
    result = world.run(4)
    (finding,) = result.findings
    assert finding.startswith(
        "visits moved by more than max_change and noise since people/visits/2024-03-03/0"
    )
    assert finding.endswith("in 1 group: 't00'")
    assert result_json(result)["findings"] == [finding]
    assert f"warning    {finding}" in result_text(result)
    told = world.evidence(4)
    assert [each["text"] for each in told["findings"]] == [finding]
    assert told["compared_with"]["newest"]["read_from"] == "parquet:out"
    assert world.run(4).findings == (finding,)  # served again, it is told again


def test_without_rows_to_compare_with_it_warns_and_goes_on(world: World) -> None:
    world.run(1)
    shutil.rmtree(world.profile.staging)
    shutil.rmtree(world.home / "out")
    (finding,) = world.run(2).findings
    assert finding.startswith("not compared with people/visits/2024-03-01/0")


def test_killed_before_any_step_of_publishing_it_ends_with_the_same_evidence(world: World) -> None:
    for day in (1, 2, 3):
        world.run(day)
    for step in (Step.CHECK, Step.RECORD, Step.STATE, Step.SEAL):

        def stop(now: Step, at: Step = step) -> None:
            if now is at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            world.run(4, observe=stop)
    assert len(world.run(4).findings) == 1


def test_a_revision_that_repeats_what_it_revises_is_held(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(1)
    first = pq.read_table(world.home / "out" / "period_start=2024-03-01" / "part-0.parquet")
    from dp_spark.pipeline import staging

    def same_noise(run: Any, release_key: bytes) -> pa.Table:
        table = true(run, release_key)
        names = [name for name in table.column_names if name.startswith("visits")]
        for name in names:
            table = table.set_column(table.column_names.index(name), table.schema.field(name), first[name])
        return table

    true = staging._privatized
    monkeypatch.setattr(staging, "_privatized", same_noise)
    with pytest.raises(ReleaseHeld) as held:
        world.run(1, revise="late rows")
    assert "the released values are those of people/visits/2024-03-01/0" in held.value.message
