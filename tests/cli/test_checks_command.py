"""`release checks`: in words, as JSON and as a page; what is not evidence is refused in all forms."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode
from dp_spark.report import evidence_path, gate_facts, mark_decided, write_evidence

RELEASE = "town_people/visits/2024-03-02/0"
GATE = gate_facts((), [{"expectation": "not_null", "columns": ["visits"], "met": True}])
HEAD = {"format": "dp_spark checks 1", "release": RELEASE, "published_by_decision": False}


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the evidence of the release lies; nothing is there yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    return evidence_path(RELEASE, tmp_path / ".dp_spark" / "statements")


def shown(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["release", "checks", RELEASE, *words], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_it_says_where_evidence_and_page_are(evidence: Path) -> None:
    write_evidence(evidence, RELEASE, {"gates": {"artefact": GATE}, "findings": []})
    code, told = shown("--html", "checks.html")
    assert (code, told.splitlines()[-1].split()) == (0, ["page", "checks.html"])
    assert "Passed" in Path("checks.html").read_text()
    code, told = shown("--html", "checks.html", "--json")
    assert (code, json.loads(told)) == (0, {**HEAD, "gates": {"artefact": GATE}, "findings": []})


def test_a_decision_without_evidence_is_evidence(evidence: Path) -> None:
    mark_decided(evidence, RELEASE)
    assert "somebody decided" in shown()[1]


@pytest.mark.parametrize(
    "facts",
    [
        {},
        [],
        HEAD,
        {**HEAD, "gates": []},
        {**HEAD, "gates": {}},
        {**HEAD, "gates": {"a": {}}},
        {**HEAD, "gates": {"a": {**GATE, "failed": [1]}}},
        {**HEAD, "gates": {"a": {**GATE, "expectations": [{"expectation": "not_null", "met": True}]}}},
        {**HEAD, "gates": {"a": GATE}, "findings": [1]},
        {**HEAD, "gates": {"a": GATE}, "format": "dp_spark checks 9"},
        {**HEAD, "gates": {"a": GATE}, "release": None},
    ],
    ids=json.dumps,
)
def test_what_is_not_evidence_is_refused_in_all_forms(evidence: Path, facts: Any) -> None:
    evidence.parent.mkdir(parents=True)
    evidence.write_text(json.dumps(facts))
    for form in ([], ["--html", "checks.html"], ["--json"]):
        code, told = shown(*form)
        assert (code, "evidence_unreadable" in told) == (ExitCode.SETUP, True), told
    assert not Path("checks.html").exists()


def test_nothing_there_is_not_checked(evidence: Path) -> None:
    code, told = shown()
    assert (code, "not_checked" in told, evidence.exists()) == (ExitCode.LEDGER, True, False)
