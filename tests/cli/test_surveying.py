"""`survey plan`: printed whatever the account says, and refused where a wave would be."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode

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


def test_a_plan_needs_no_account(home: Path) -> None:
    assert planned()["refused"] is None
    told("ledger", "init")
    assert planned()["refused"] is None


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
