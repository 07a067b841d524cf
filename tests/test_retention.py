"""What is kept, what may go, and what has to be read before its rows are gone."""

import datetime as dt
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode, PublishRefused, SetupRefused, SpecRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.pipeline import run_release
from dp_spark.release.expiry import Reason, delete, disused
from dp_spark.release.ledger import Ledger, ReleaseState
from dp_spark.release.missing import missing_periods
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile, render_profile
from dp_spark.release.spec import ReleaseSpec, spec_yaml
from dp_spark.release.zone import MARK, claim_zone
from dp_spark.report import RunResult, result_json, result_text

DAYS = ("2024-03-01", "2024-03-02", "2024-03-04")


def spec(**changes: Any) -> ReleaseSpec:
    base: dict[str, Any] = {
        "release": "visits",
        "input": {"format": "parquet", "path": "in", "kept_days": 30},
        "period": {"column": "at", "every": "day", "timezone": "Asia/Tokyo"},
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": 1, "max_rows_per_group": 1},
        "group_by": ["town"],
        "groups": {"public": ["a"]},
        "guarantee": {"epsilon": 1, "delta": "1e-6"},
        "queries": [{"name": "visits", "kind": "count"}],
        "budget": {"population": "town_people"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }
    return ReleaseSpec(**{**base, **changes})


class World:
    """A directory with rows of some days, a ledger, and a profile that keeps staged tables for a month."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home, self.spark = home, spark
        (home / "in").mkdir()
        rows = pa.table({"person": [f"p{i}" for i in range(9)], "town": ["a"] * 9, "at": list(DAYS) * 3})
        pq.write_table(rows, home / "in" / "rows.parquet")
        self.profile: Profile = replace(embedded_profile(home), retention_days=30)
        make_places(self.profile)
        self.ledger.set_budget(
            "town_people",
            PrivacyGuarantee(Fraction(9), Fraction(9, 10**6)),
            unit=PrivacyUnit(("person",)),
            neighbours=Neighbours.ADD_REMOVE,
            reason="a test",
        )

    @property
    def ledger(self) -> Ledger:
        return open_ledger(self.profile)

    def run(self, key: str = DAYS[0]) -> RunResult:
        return run_release(spec(), key, profile=self.profile, spark=lambda: self.spark)

    def staged(self) -> list[Path]:
        return sorted(
            path for path in self.profile.staging.rglob("*") if path.is_file() and path.name != MARK
        )


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, spark)


def in_days(days: int) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=days, minutes=1)


def test_only_what_is_sealed_expires_and_only_after_its_time(world: World) -> None:
    world.run()
    with pytest.raises(KeyboardInterrupt):
        run_release(
            spec(),
            DAYS[1],
            profile=world.profile,
            spark=lambda: world.spark,
            observe=lambda step: (_ for _ in ()).throw(KeyboardInterrupt) if step.part == "check" else None,
        )
    sealed, staged = world.staged()
    own = sealed.with_name("notes.txt")
    lost = sealed.with_name(".attempt-7.parquet.0123456789abcdef")
    stray = world.profile.staging / "attempt-1.parquet"
    for each in (own, lost, stray, staged.with_name("attempt-9.parquet")):
        each.touch()
    sealed.with_name("attempt-8.parquet").symlink_to(own)
    found = disused(world.ledger, world.profile, in_days(29))
    assert [(each.path, each.reason) for each in found] == [(lost, Reason.LEFT)]
    found = disused(world.ledger, world.profile, in_days(30))
    assert {each.path: each.reason for each in found} == {lost: Reason.LEFT, sealed: Reason.EXPIRED}
    assert {each.whose for each in found} == {f"town_people/visits/{DAYS[0]}/0"}
    for_ever = replace(world.profile, retention_days=None)
    assert [each.path for each in disused(world.ledger, for_ever, in_days(9999))] == [lost]
    elsewhere = replace(world.profile, staging=world.home / "out")
    assert disused(world.ledger, elsewhere, in_days(9999)) == []
    delete(found)
    assert not sealed.exists()
    assert own.exists()
    assert staged.exists()


def test_a_zone_that_was_recorded_through_a_link_is_the_same(world: World) -> None:
    real = world.profile.staging
    link = world.home / "link"
    link.symlink_to(real)
    zone, world.profile = world.profile, replace(world.profile, staging=link)
    world.run()
    assert disused(world.ledger, zone, in_days(29)) == []
    assert disused(world.ledger, world.profile, in_days(29)) == []
    (sealed,) = real.rglob("attempt-*.parquet")
    assert [each.path for each in disused(world.ledger, zone, in_days(30))] == [sealed]


def test_a_zone_is_that_of_one_ledger(world: World) -> None:
    world.run()
    other = replace(world.profile, ledger_url=f"sqlite:///{world.home}/other.db")
    make_places(other)
    for use in (
        lambda: claim_zone(open_ledger(other), other.staging),
        lambda: run_release(spec(), DAYS[0], profile=other, spark=lambda: world.spark),
    ):
        with pytest.raises(SetupRefused) as refusal:
            use()
        assert refusal.value.code == "zone_of_another_ledger"
    claim_zone(world.ledger, world.profile.staging)
    elsewhere = world.home / "elsewhere"
    claim_zone(open_ledger(other), elsewhere)
    assert not elsewhere.exists()
    (world.home / "dp_spark.toml").write_text(render_profile(ledger_url="sqlite:///other.db"))
    told = CliRunner().invoke(app, ["restricted", "gc"])
    assert told.exit_code == ExitCode.SETUP
    assert world.staged()


def test_what_somebody_else_has_deleted_meanwhile_is_no_matter(world: World) -> None:
    world.run()
    found = disused(world.ledger, world.profile, in_days(30))
    shutil.rmtree(found[0].path.parent)
    delete(found)
    delete([*found, replace(found[0], path=world.home / "in" / "rows.parquet" / "x")])
    assert (world.home / "in" / "rows.parquet").is_file()


def test_an_earlier_period_that_comes_late_leaves_the_contract_of_a_later_one(world: World) -> None:
    contract = world.home / "out" / "_dp_spark.contract.yaml"
    more = [{"name": "visits", "kind": "count"}, {"name": "heads", "kind": "ids"}]
    changed = spec(queries=more)
    run_release(changed, DAYS[1], profile=world.profile, spark=lambda: world.spark)
    newest = contract.read_bytes()
    assert b"heads" in newest
    world.run(DAYS[0])
    assert contract.read_bytes() == newest
    world.run(DAYS[2])
    assert b"heads" not in contract.read_bytes()
    contract.unlink()
    world.run(DAYS[0])
    assert contract.is_file()


def test_a_release_whose_artefact_expired_is_served_while_its_copies_stand(world: World) -> None:
    first = world.run()
    delete(disused(world.ledger, world.profile, in_days(31)))
    assert world.staged() == []
    assert not list(world.profile.staging.rglob(DAYS[0] + "*"))
    first.statement.unlink()
    again = world.run()
    assert (again.table, again.digest, again.published) == (None, first.digest, first.published)
    assert again.statement.is_file()
    assert "not kept any more" in result_text(again)
    assert result_json(again)["artefact_kept"] is False
    with pytest.raises(PublishRefused, match="read one of its copies"):
        again.to_pandas()
    Path(first.published[0]).unlink()
    with pytest.raises(PublishRefused) as refusal:
        world.run()
    assert refusal.value.code == "artefact_expired"


def test_missing_periods_are_those_between_the_first_and_now(world: World) -> None:
    for key in (DAYS[0], DAYS[2]):
        world.run(key)
    now = dt.datetime(2024, 3, 5, 15, tzinfo=dt.UTC)  # midnight in Tokyo: the 5th is over
    found = missing_periods(world.ledger, spec(), now)
    assert [(each.key, each.state, str(each.expires), each.days_left) for each in found] == [
        ("2024-03-02", None, "2024-04-02", 27),
        ("2024-03-03", None, "2024-04-03", 28),
        ("2024-03-05", None, "2024-04-05", 30),
    ]
    before = now - dt.timedelta(microseconds=1)
    assert len(missing_periods(world.ledger, spec(), before)) == 2
    assert len(missing_periods(world.ledger, spec(), now, through=dt.date(2024, 3, 2))) == 1
    unknown = spec(input={"format": "parquet", "path": "in"})
    assert {each.expires for each in missing_periods(world.ledger, unknown, now)} == {None}
    assert missing_periods(world.ledger, spec(release="others"), now) == []
    with pytest.raises(SpecRefused, match="no period"):
        missing_periods(world.ledger, spec(period=None), now)


def test_a_period_that_was_begun_is_missing_in_its_state(world: World) -> None:
    world.run()
    with pytest.raises(KeyboardInterrupt):
        run_release(
            spec(),
            DAYS[1],
            profile=world.profile,
            spark=lambda: world.spark,
            observe=lambda step: (_ for _ in ()).throw(KeyboardInterrupt) if step.part == "check" else None,
        )
    (found,) = missing_periods(world.ledger, spec(), dt.datetime(2024, 3, 2, 15, tzinfo=dt.UTC))
    assert (found.key, found.state) == (DAYS[1], ReleaseState.STAGED)
    assert not found.needs_rows
    assert not found.is_expiring(30)  # it waits for its sinks, whatever becomes of the rows
    assert found.days_left == 30


def test_the_commands_tell_what_is_missing_and_what_would_go(world: World) -> None:
    world.run(DAYS[0])
    now = dt.datetime.now(dt.UTC).astimezone(dt.timezone(dt.timedelta(hours=9))).date()
    kept = (now - dt.date(2024, 3, 3)).days + 5  # the rows of the second expire in five days
    changed = spec(input={"format": "parquet", "path": "in", "kept_days": kept})
    file = world.home / "visits.yaml"
    file.write_text(spec_yaml(changed))
    shell = CliRunner()
    asked = ["missing", str(file), "--through", "2024-03-03"]
    told = shell.invoke(app, [*asked, "--json"])
    assert told.exit_code == ExitCode.EXPIRING
    listed, refusal = map(json.loads, told.stdout.splitlines())
    assert [each["days_left"] for each in listed] == [5, 6]
    assert refusal["error"] == "periods_expire"
    assert shell.invoke(app, [*asked, "--within", "4"]).exit_code == 0
    done = shell.invoke(app, ["run", str(file), "--key", DAYS[2], "--json"])
    assert done.exit_code == 0, done.output
    assert [each["days_left"] for each in json.loads(done.stdout)["expiring"]] == [5, 6]
    assert "2024-03-03" in done.stderr
    late = shell.invoke(app, ["run", str(file), "--key", "2999-01-01"])
    assert (late.exit_code, "2024-03-03" in late.stderr) == (ExitCode.INPUT, True)
    dry = json.loads(shell.invoke(app, ["restricted", "gc", "--dry-run", "--json"]).stdout)
    assert dry == {"retention_days": None, "dry_run": True, "deleted": []}
    assert "nothing expires" in shell.invoke(app, ["restricted", "gc"]).stdout
