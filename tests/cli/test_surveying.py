"""`survey plan`: printed whatever the account says, and refused where a wave would be."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.cli.results import wave_outcome
from dp_spark.errors import ExitCode
from dp_spark.release.ledger import store
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import embedded_profile
from dp_spark.release.spec import parse_survey
from dp_spark.surveys import open_survey

SPEC = """
survey: work_status
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
answer: work
domain: {categories: {at work: false, ill: true}}
epsilon: 1
budget: {population: us_persons}
publish: [{sink: parquet, path: out/work}]
"""
RELEASE = """
release: visits
input: {format: parquet, path: visits}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
group_by: [town]
groups: {public_file: in/answers.parquet}
guarantee: {epsilon: 1, delta: 1e-6}
queries: [{name: visits, kind: count}]
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""
LIMIT = ["survey", "budget", "set", "us_persons", "work_status", "--reason", "a test"]
PLAN = ["survey", "plan", "survey.yaml"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    (tmp_path / "survey.yaml").write_text(SPEC)
    return tmp_path


def told(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stdout


def planned(code: int = 0) -> dict[str, object]:
    plan: dict[str, object] = json.loads(told(*PLAN, "--json", code=code))
    assert plan["survey"] == "work_status"
    return plan


def test_a_plan_needs_no_ledger_and_has_the_code_of_an_account_that_is_missing(home: Path) -> None:
    result = CliRunner().invoke(app, PLAN)
    assert (result.exit_code, "what is left is not known" in result.stderr) == (0, True)
    assert planned()["refused"] is None
    told("ledger", "init")
    refused = planned(ExitCode.BUDGET)["refused"]
    assert isinstance(refused, dict)
    assert refused["error"] == "unknown_population"
    assert "survey budget set" in refused["way_out"]


def test_a_wave_that_does_not_fit_is_planned_and_refused(home: Path) -> None:
    told("ledger", "init")
    told(*LIMIT, "--epsilon", "0.5", "--unit", "person")
    refused = planned(ExitCode.BUDGET)["refused"]
    assert isinstance(refused, dict)
    assert (refused["error"], refused["exit_code"]) == ("budget_exhausted", ExitCode.BUDGET)
    assert refused["message"].startswith("a wave of this plan asks for epsilon = 1")
    result = CliRunner().invoke(app, [*PLAN, "--html", "plan.html"])
    assert (result.exit_code, "(budget_exhausted)" in result.stderr) == (ExitCode.BUDGET, True)
    for text in (result.stdout, (home / "plan.html").read_text()):
        assert "this wave does not fit, by epsilon 0.5" in " ".join(text.split())
        assert "raise the limit to epsilon 1 or more" in " ".join(text.split())
        assert "epsilon -" not in text
    told(*LIMIT, "--epsilon", "1", "--unit", "person")
    assert planned()["refused"] is None


def test_an_account_of_other_persons_refuses_the_plan(home: Path) -> None:
    told("ledger", "init")
    told(*LIMIT, "--epsilon", "5", "--unit", "household")
    refused = planned(ExitCode.LEDGER)["refused"]
    assert isinstance(refused, dict)
    assert refused["error"] == "other_unit"


@pytest.fixture
def asked(home: Path) -> Path:
    """Beside a wave that is open, of a population that has no account of releases: answers, and visits."""
    for place in ("in", "visits"):
        (home / place).mkdir()
        rows = pa.table({"person": ["p", "q"], "work": ["ill", "at work"], "town": ["a", "b"]})
        pq.write_table(rows, home / place / "answers.parquet")
    told("ledger", "init")
    told(*LIMIT, "--epsilon", "5", "--unit", "person")
    open_survey(parse_survey(SPEC), "w1", profile=embedded_profile(home), reason="a test")
    return home


def test_no_release_lists_its_groups_from_answers(asked: Path) -> None:
    """Neither planned nor run, and nothing is charged."""
    budget = ["--epsilon", "2", "--delta", "1e-5", "--unit", "person", "--reason", "a test"]
    told("ledger", "budget", "set", "town_people", *budget)
    (asked / "visits.yaml").write_text(RELEASE)
    refused = told("plan", "visits.yaml", "--json", code=ExitCode.INPUT)
    assert json.loads(refused)["error"] == "groups_from_private_source"
    refused = told("run", "visits.yaml", "--key", "2024-03-01", "--json", code=ExitCode.INPUT)
    assert json.loads(refused)["error"] == "groups_from_private_source"
    assert json.loads(told("ledger", "show", "--json"))[0]["spent"]["epsilon"] == "0"


def test_where_answers_are_is_known_from_any_directory(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (asked / "elsewhere").mkdir()
    monkeypatch.chdir(asked / "elsewhere")
    ledger = open_ledger(embedded_profile(asked))
    assert ledger.sources() == {str((asked / "in").resolve())}
    assert ledger.answer_sources() == [(str((asked / "in").resolve()), "us_persons", "work_status")]


def test_the_answers_of_an_older_plan_are_sought_from_the_directory_of_the_profile(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was stored as the version that opened it did, before it named its source."""
    engine = sa.create_engine(embedded_profile(asked).ledger_url)
    with engine.begin() as connection:
        plan = json.loads(connection.scalar(sa.select(store.waves.c.plan)))
        del plan["plan"]["source"]
        connection.execute(sa.update(store.waves).values(plan=json.dumps(plan).encode()))
    engine.dispose()
    (asked / "elsewhere").mkdir()
    monkeypatch.chdir(asked / "elsewhere")
    assert open_ledger(embedded_profile(asked)).sources() == {str((asked / "in").resolve())}


def test_plan_and_open_refuse_the_same_lists_and_inputs(asked: Path) -> None:
    domain = "domain: {file: in/codes.csv}"
    (asked / "in" / "codes.csv").write_text("work,sensitive\nill,true\n")
    listed = SPEC.replace("path: in}", "path: other}").replace(
        "domain: {categories: {at work: false, ill: true}}", domain
    )
    opening = ["survey", "open", "other.yaml", "--wave", "w1", "--reason", "a test", "--json"]
    planning = ["survey", "plan", "other.yaml", "--json"]
    limit = [word.replace("us_persons", "they") for word in LIMIT]
    told(*limit, "--epsilon", "5", "--unit", "person")
    (asked / "other.yaml").write_text(listed.replace("us_persons", "they"))
    for words in (planning, opening):
        assert json.loads(told(*words, code=ExitCode.INPUT))["error"] == "list_from_private_source"
    (asked / "other.yaml").write_text(SPEC.replace("us_persons", "they"))
    refused = json.loads(told(*planning, code=ExitCode.LEDGER))["refused"]
    assert refused == json.loads(told(*opening, code=ExitCode.LEDGER))
    assert refused["error"] == "source_of_another_population"


def test_a_job_of_a_wave_leaves_its_state_its_cost_and_what_is_left(home: Path) -> None:
    told("ledger", "init")
    told(*LIMIT, "--epsilon", "7/2", "--unit", "person")
    nothing = wave_outcome(Path("survey.yaml"), "2024q1", profile=None)
    assert (nothing["state"], nothing["left"]) == (None, {"epsilon": "7/2"})
    open_survey(
        parse_survey(SPEC),
        "2024q1",
        profile=embedded_profile(),
        spark=lambda: pytest.fail("no Spark"),
        reason="x",
    )
    assert wave_outcome(Path("survey.yaml"), "2024q1", profile=None) == {
        "key": "2024q1",
        "release": "us_persons/work_status/2024q1",
        "state": "open",
        "digest": None,
        "charge": {"epsilon": "1"},
        "left": {"epsilon": "5/2"},
    }
