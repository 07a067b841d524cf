"""A release and a survey of two people, a profile and a budget: what runs leave behind is asked of it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.release.profile import PROFILE_FILE, render_profile

POISON = "7700-secret-person"
SPEC = """
release: visits
input: {format: parquet, path: in}
period: {column: at, every: day}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
group_by: [town]
groups: {public: [a, b]}
guarantee: {epsilon: 1, delta: 1e-6}
queries: [{name: visits, kind: count}]
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""
_SURVEY = """
survey: work_status
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
answer: town
domain: {categories: {a: false, b: true}}
epsilon: 1
budget: {population: us_persons}
publish: [{sink: parquet, path: out/work}]
"""
_BUDGET = ["ledger", "budget", "set", "town_people", "--epsilon", "2", "--delta", "1e-5", "--unit", "person"]
NIGHT = ["visits.yaml", "--key", "2024-03-01"]
WAVE = ["survey.yaml", "--wave", "w1"]


def told(*words: str, code: int = 0) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def laid(home: Path, monkeypatch: pytest.MonkeyPatch, profile: str) -> Path:
    """The world in `home`, from now on the working directory; `profile` stands first in its profile."""
    monkeypatch.chdir(home)
    for name in ("DP_SPARK_PROFILE", "OPENLINEAGE_PARENT_ID"):
        monkeypatch.delenv(name, raising=False)
    (home / "visits.yaml").write_text(SPEC)
    (home / "survey.yaml").write_text(_SURVEY)
    (home / PROFILE_FILE).write_text(profile + render_profile())
    (home / "in").mkdir()
    moments = pa.array(["2024-03-01"] * 2).cast(pa.timestamp("us"))
    rows = {"person": [POISON, "q"], "town": ["a", "b"], "at": moments}
    pq.write_table(pa.table(rows), home / "in" / "rows.parquet")
    told("ledger", "init")
    told(*_BUDGET, "--reason", "a test")
    return home


def of_strangers(home: Path) -> None:
    """Have a population pay that has no account."""
    (home / "visits.yaml").write_text(SPEC.replace("town_people", "strangers"))


def open_wave() -> None:
    """Give the survey a budget and open its wave."""
    told("survey", "budget", "set", "us_persons", "work_status", "--epsilon", "4", "--unit", "person",
         "--reason", "a test")  # fmt: skip
    told("survey", "open", *WAVE, "--reason", "a test")
