"""Every command of docs/runbook.md is one, with options that it has; those of a night are run."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode
from dp_spark.release.ledger import ReleaseId, ReleaseState
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import embedded_profile

TEXT = (Path(__file__).parents[1] / "docs" / "runbook.md").read_text()
ENTRIES = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", TEXT, re.MULTILINE))
SPEC = """
release: visits
input: {format: parquet, path: in, kept_days: 36600}
period: {column: at, every: day}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
group_by: [town]
groups: {public_file: towns.csv}
guarantee: {epsilon: 0.5, delta: 1e-6}
queries: [{name: visits, kind: count}]
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
checks: {history: {against: previous}}
"""
RUN = ["run", "visits.yaml", "--key"]


def commands(entry: str) -> list[list[str]]:
    lines = re.findall(r"^dp-spark .*$", ENTRIES[entry], re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def told(words: list[str], code: int = 0) -> str:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    return result.output


def test_it_has_every_entry_that_operators_look_for() -> None:
    assert list(ENTRIES) == [
        "A gate failed",
        "A night is missing",
        "Late data",
        "An erasure request",
        "A key has leaked",
        "The budget runs out",
        "The schema changed",
        "A sink is down",
        "The ledger was restored from a backup",
    ]


@pytest.mark.parametrize("entry", ENTRIES)
def test_its_commands_are_commands_with_their_options(entry: str) -> None:
    assert commands(entry)
    for words in commands(entry):
        command: Any = typer.main.get_command(app)
        rest = list(words)
        while hasattr(command, "commands"):
            command = command.commands[rest.pop(0)]
        known = {option for each in command.params for option in each.opts}
        assert {word for word in rest if word.startswith("--")} <= known
        command.make_context("dp-spark", rest).close()  # parsed, not run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "towns.csv").write_text("town\na\nb\n")
    (tmp_path / "in").mkdir()
    days = [f"2024-03-0{day}" for day in (1, 2, 3)] * 20
    rows = {"person": [f"p{i}" for i in range(60)], "town": ["a", "b"] * 30, "at": days}
    pq.write_table(pa.table(rows), tmp_path / "in" / "rows.parquet")
    told(["ledger", "init"])
    budget = ["town_people", "--epsilon", "4", "--delta", "1e-5", "--unit", "person", "--reason", "a test"]
    told(["ledger", "budget", "set", *budget])
    return tmp_path


def state(key: str, revision: int = 0) -> ReleaseState | None:
    record = open_ledger(embedded_profile()).find(ReleaseId("town_people", "visits", key, revision))
    return record and record.state


@pytest.mark.usefixtures("spark")
def test_what_it_says_of_nights_works(home: Path) -> None:
    """A group is gone, and decided on; late rows; expiry; the budget; a restored ledger; a leaked key."""
    told([*RUN, "2024-03-01"])
    (home / "towns.csv").write_text("town\na\n")
    told([*RUN, "2024-03-02"], ExitCode.HELD)
    checks, again, publish_held, _ = commands("A gate failed")
    assert "history    FAILED" in told(checks)
    assert "vanished group" in (home / "checks.html").read_text()
    told(again, ExitCode.HELD)
    told(publish_held)
    assert state("2024-03-02") is ReleaseState.SEALED
    for words in commands("Late data"):
        told(words)
    assert state("2024-03-01", revision=1) is ReleaseState.SEALED
    for entry in ("The schema changed", "A sink is down", "The ledger was restored from a backup"):
        for words in commands(entry):
            told(words)
    for words in commands("An erasure request")[:2]:
        told(words)
    for words in commands("The budget runs out"):
        told(words)
    told(commands("A key has leaked")[0])
    assert state("2024-03-01") is ReleaseState.BURNED
    told([*RUN, "2024-03-04"], ExitCode.BUDGET)


@pytest.mark.usefixtures("spark")
def test_what_it_says_of_a_missing_night_works(home: Path) -> None:
    told([*RUN, "2024-03-01"])
    told([*RUN, "2024-03-03"], ExitCode.HELD)
    found = json.loads(told(["missing", "visits.yaml", "--through", "2024-03-03", "--json"]))
    assert [(each["key"], each["state"]) for each in found] == [("2024-03-02", None), ("2024-03-03", "held")]
    for words in (*commands("A night is missing")[1:], [*RUN, "2024-03-03"]):
        told(words)
    assert state("2024-03-03") is ReleaseState.SEALED
