"""A year planned ahead, in small: what the budget allows over its horizon, enrolled, run and revised."""

import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import BudgetRefused, ExitCode, PlanRefused
from dp_spark.pipeline import run_release
from dp_spark.release.ledger import ReleaseId
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import ReleaseSpec, load_spec, parse_spec
from dp_spark.report import RunResult, result_text

SPEC = """
release: visits
input: {format: parquet, path: in}
period: {column: at, every: day}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
group_by: [town]
groups: {public: [a, b]}
guarantee: from_budget
queries: [{name: visits, kind: count}]
budget: {population: town_people, horizon: 3}
publish: [{sink: parquet, path: out}]
"""
OPEN = ["ledger", "budget", "set", "town_people", "--epsilon", "2", "--delta", "1e-5", "--unit", "person"]
WHY = ["--reason", "a test"]


def told(*words: str, code: int = 0) -> str:
    """What a command prints; checks how it exits."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "in").mkdir()
    days = [f"2024-03-0{1 + i % 5}" for i in range(100)]
    people = {"person": [f"p{i}" for i in range(100)], "town": ["ab"[i % 2] for i in range(100)], "at": days}
    pq.write_table(pa.table(people), tmp_path / "in" / "rows.parquet")
    told("ledger", "init")
    told(*OPEN, *WHY)
    return tmp_path


def run(
    spark: SparkSession, day: int, spec: ReleaseSpec | None = None, revise: str | None = None
) -> RunResult:
    return run_release(
        spec or load_spec("visits.yaml"),
        f"2024-03-0{day}",
        profile=load_profile(),
        spark=lambda: spark,
        revise=revise,
    )


def account() -> dict[str, object]:
    (shown,) = json.loads(told("ledger", "show", "--json"))
    return dict(shown)


def test_from_the_account_to_the_last_slot(home: Path, spark: SparkSession) -> None:
    refused = told("plan", "visits.yaml", "--json", code=ExitCode.BUDGET)
    assert json.loads(refused)["error"] == "no_room"
    assert "is not divided" in json.loads(refused)["message"]
    assert "no pool" not in told("ledger", "pools", "set", "town_people", "--sums", "1/2,1e-6", *WHY)

    seen = json.loads(told("plan", "visits.yaml", "--json"))
    assert seen["cost"]["slots"] == {"schedule": "visits", "taken": 0, "slots": 3}
    with pytest.raises(PlanRefused, match="dp-spark ledger schedule add"):
        run(spark, 1)
    assert "visits: 3 slots of" in told("ledger", "schedule", "add", "visits.yaml", *WHY)

    plan = json.loads(told("plan", "visits.yaml", "--json"))
    assert plan["totals"] == seen["totals"], "what was shown is what was enrolled"
    assert plan["cost"]["scheduled"]["epsilon"]["exact"] == "3/2"
    done = [run(spark, day) for day in (1, 2, 3)]
    assert {result.schedule for result in done} == {"visits"}
    assert "a slot of schedule visits; by itself epsilon" in result_text(done[0])
    with pytest.raises(BudgetRefused, match="all 3 are taken"):
        run(spark, 4)

    assert account()["schedules"] == [{"name": "visits", "slots": 3, "taken": 3, "late": False}]
    assert "visits: 3 of 3 slots taken" in told("ledger", "show")
    assert account()["spent"] == {"epsilon": "0", "delta": "0"}
    told("ledger", "show", "--check", code=ExitCode.LOW)
    statement = told("statement", "town_people/visits/2024-03-01/0")
    assert "a slot of schedule visits, 3 of 3 slots taken" in statement
    assert "schedules" in (done[0].statement).read_text()


def test_a_revision_of_a_night_is_paid_by_the_pool(home: Path, spark: SparkSession) -> None:
    told("ledger", "pools", "set", "town_people", "--zcdp", "1.5,8e-6", *WHY)
    told("ledger", "schedule", "add", "visits.yaml", *WHY)
    twice = ["ledger", "schedule", "add", "visits.yaml", *WHY, "--json"]
    assert json.loads(told(*twice, code=ExitCode.LEDGER))["error"] == "schedule_known"
    (home / "fair.yaml").write_text(SPEC.replace("release: visits", "release: fair"))
    first = run(spark, 1)
    again = run(spark, 1, revise="late rows")
    assert (first.schedule, again.schedule) == ("visits", None)
    assert first.digest != again.digest
    record = open_ledger(load_profile()).find(ReleaseId("town_people", "visits", "2024-03-01", 1))
    assert record is not None
    assert record.took.pool == "zcdp"
    shown = told("ledger", "show")
    assert "zcdp: rho" in shown
    assert " of the pools" in shown
    history = json.loads(told("ledger", "history", "town_people", "--json"))
    charged = [(each["reason"], each["paid"]) for each in history if each["what"] == "reserved"]
    assert charged == [("", "slot of visits"), ("late rows", "pool of zcdp")]
    refused = json.loads(told("ledger", "pools", "set", "town_people", *WHY, "--json", code=ExitCode.LEDGER))
    assert refused["error"] == "terms_fixed"
    low = json.loads(told(*OPEN, "--epsilon", "1", *WHY, "--json", code=ExitCode.BUDGET))
    assert "at or above what was set aside" in low["way_out"]
    late = json.loads(told("ledger", "schedule", "add", "fair.yaml", *WHY, "--json", code=ExitCode.LEDGER))
    assert late["error"] == "schedule_late"
    assert "visits: 1 of 3 slots taken" in shown


def test_a_spec_whose_path_changed_keeps_its_share_and_its_slot(home: Path, spark: SparkSession) -> None:
    told("ledger", "pools", "set", "town_people", *WHY)
    told("ledger", "schedule", "add", "visits.yaml", *WHY)
    moved = parse_spec(SPEC.replace("path: out", "path: elsewhere"))
    assert run(spark, 2, moved).schedule == "visits"
    stricter = SPEC.replace("max_groups: 1", "max_groups: 2").replace(
        "from_budget", "{epsilon: 1, delta: 1e-6}"
    )
    with pytest.raises(BudgetRefused, match="cannot be shown to cost at most"):
        run(spark, 3, parse_spec(stricter))


def test_what_a_schedule_lacks_is_said(home: Path) -> None:
    without = SPEC.replace("from_budget", "{epsilon: 1, delta: 1e-6}").replace(", horizon: 3", "")
    (home / "visits.yaml").write_text(without)
    refused = told("ledger", "schedule", "add", "visits.yaml", *WHY, "--json", code=ExitCode.PLAN)
    assert json.loads(refused)["error"] == "horizon_missing"
    for words in (
        ("pools", "set", "town_people", "--sums", "1"),
        ("pools", "set", "town_people", "--zcdp", "0,1e-6"),
        ("window", "set", "town_people", "--every", "year", "--epsilon", "1", "--delta", "0"),
        ("schedule", "add", "visits.yaml", "--pool", "rho"),
        ("schedule", "add", "visits.yaml", "--epsilon", "1"),
    ):
        told("ledger", *words, *WHY, code=ExitCode.SPEC)


@pytest.mark.parametrize("population", ["", "nobody", "../x", "town_peoplé", "x" * 500, "\0", "\udcff"])
def test_who_is_not_known_is_said_whatever_the_name(home: Path, population: str) -> None:
    """Also a name that the database could not be asked for."""
    window = ("--every", "day", "--epsilon", "1", "--delta", "0")
    for words in (
        ("pools", "set", population, *WHY),
        ("window", "set", population, *window, *WHY),
        ("show", population),
        ("history", population, "--csv"),
    ):
        told("ledger", *words, code=ExitCode.BUDGET)


@pytest.mark.parametrize(
    "pair",
    ["", "1", ",", "1,", "-1,0", "nan,0", "inf,0", "1e999,0", "1,1", "1,-1", "\uff11,0", "\0,0", "1,0,0"],
)
def test_a_pair_that_is_none_is_refused_under_the_name_of_its_option(home: Path, pair: str) -> None:
    refused = told(
        "ledger", "pools", "set", "town_people", "--sums", pair, *WHY, "--json", code=ExitCode.SPEC
    )
    assert "--sums" in json.loads(refused)["message"]
    assert account()["ad_hoc"] == {"epsilon": "2", "delta": "1/100000"}


def test_a_window_is_shown(home: Path) -> None:
    words = ("--every", "month", "--epsilon", "1/2", "--delta", "1e-6")
    assert "each month: epsilon 0.5" in told("ledger", "window", "set", "town_people", *words, *WHY)
    assert account()["windows"] == {"month": {"epsilon": "1/2", "delta": "1/1000000"}}
    assert Fraction(str(account()["fit"] or 0)) == 0


def test_what_many_days_come_to_for_a_person_is_shown(home: Path, spark: SparkSession) -> None:
    words = ["ledger", "budget", "set", "town_days", *OPEN[4:], "--per", "day", *WHY]
    assert "charged" not in told(*words)
    told("ledger", "pools", "set", "town_days", "--sums", "1/2,1e-6", *WHY)
    daily = SPEC.replace("on_null: drop}", "on_null: drop, per: day}").replace("town_people", "town_days")
    (home / "visits.yaml").write_text(daily)
    told("ledger", "schedule", "add", "visits.yaml", *WHY)
    plan = json.loads(told("plan", "visits.yaml", "--json"))
    assert plan["guarantee"]["epsilon"]["exact"] == "3/2", "a person-day has all that its account leaves"
    for day in (1, 2, 3):
        assert run(spark, day).schedule == "visits"
    shown = json.loads(told("ledger", "show", "town_days", "--json"))[0]["person"]
    assert (shown["periods"], shown["added"]) == (3, {"epsilon": "6", "delta": "3/100000"})
    assert shown["composed_epsilon"] is None, "so few days do not gain by composition"
    assert "with rows in 3 days, as many as were charged: epsilon 6" in told("ledger", "show", "town_days")


def test_a_schedule_that_comes_late_costs_what_was_decided(home: Path, spark: SparkSession) -> None:
    first = SPEC.replace("release: visits", "release: first").replace(
        "from_budget", "{epsilon: 1, delta: 1e-6}"
    )
    run(spark, 1, parse_spec(first.replace("path: out", "path: first")))
    refused = told("plan", "visits.yaml", "--json", code=ExitCode.PLAN)
    assert json.loads(refused)["error"] == "not_enrolled"
    refused = told("ledger", "schedule", "add", "visits.yaml", *WHY, "--json", code=ExitCode.LEDGER)
    assert json.loads(refused)["error"] == "schedule_late"
    told("ledger", "schedule", "add", "visits.yaml", "--epsilon", "1/2", "--delta", "1e-6", *WHY)
    assert account()["spent"] == {"epsilon": "3/2", "delta": "1/500000"}
    assert run(spark, 2).schedule == "visits"
    assert account()["spent"] == {"epsilon": "3/2", "delta": "1/500000"}
    assert "visits: 1 of 3 slots taken, paid by a pool" in told("ledger", "show")
