"""The line that each run leaves in the profile's metrics file."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode
from dp_spark.release.profile import PROFILE_FILE, load_profile, render_profile

POISON = "7700-secret-person"
SPEC = """
release: visits
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
group_by: [town]
groups: {public: [a, b]}
guarantee: {epsilon: 1, delta: 1e-6}
queries: [{name: visits, kind: count}]
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""
SURVEY = """
survey: work_status
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
answer: town
domain: {categories: {a: false, b: true}}
epsilon: 1
budget: {population: us_persons}
publish: [{sink: parquet, path: out/work}]
"""
BUDGET = ["ledger", "budget", "set", "town_people", "--epsilon", "2", "--delta", "1e-5", "--unit", "person"]
RUN = ["run", "visits.yaml", "--key", "2024-03-01"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "survey.yaml").write_text(SURVEY)
    (tmp_path / PROFILE_FILE).write_text('metrics = "logs/metrics.jsonl"\n' + render_profile())
    (tmp_path / "in").mkdir()
    rows = {"person": [POISON, "q"], "town": ["a", "b"]}
    pq.write_table(pa.table(rows), tmp_path / "in" / "rows.parquet")
    told("ledger", "init")
    told(*BUDGET, "--reason", "a test")
    return tmp_path


def told(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def lines(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "logs" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("spark")
def test_each_run_leaves_one_line_with_what_it_did_and_no_row(home: Path) -> None:
    told("privatize", *RUN[1:])
    told("publish", *RUN[1:])
    told(*RUN)
    staged, published, again = lines(home)
    assert [line["command"] for line in (staged, published, again)] == ["privatize", "publish", "run"]
    assert [line["state"] for line in (staged, published, again)] == ["staged", "sealed", "sealed"]
    assert {line["release"] for line in (staged, published, again)} == {"town_people/visits/2024-03-01/0"}
    assert staged["charge"] == {"epsilon": "1", "delta": "1/1000000"}
    assert (published["charge"], again["charge"]) == (None, None)
    assert staged["left"] == {"epsilon": "1", "delta": "9/1000000"}
    assert published["step"] == "seal: close the release"
    seconds = staged["seconds"]
    assert isinstance(seconds, dict)
    assert {"reserve: charge the ledger", "privatize: draw the noise"} <= {*seconds}
    assert all(each >= 0 for each in seconds.values())
    assert {line["exit_code"] for line in (staged, published, again)} == {0}
    assert POISON not in (home / "logs" / "metrics.jsonl").read_text()


def test_a_refusal_leaves_its_code_and_exit_code(home: Path) -> None:
    (home / "visits.yaml").write_text(SPEC.replace("town_people", "strangers"))
    told(*RUN, code=ExitCode.BUDGET)
    (line,) = lines(home)
    assert (line["refusal"], line["exit_code"]) == ("unknown_population", ExitCode.BUDGET)
    assert (line["state"], line["charge"], line["left"]) == (None, None, None)


@pytest.mark.usefixtures("spark")
def test_a_wave_leaves_lines_too(home: Path) -> None:
    told("survey", "budget", "set", "us_persons", "work_status", "--epsilon", "4", "--unit", "person",
         "--reason", "a test")  # fmt: skip
    told("survey", "open", "survey.yaml", "--wave", "w1", "--reason", "a test")
    told("survey", "randomize", "survey.yaml", "--wave", "w1")
    opened, randomized = lines(home)
    assert (opened["command"], randomized["command"]) == ("survey open", "survey randomize")
    assert (opened["wave"], opened["state"]) == ("us_persons/work_status/w1", "open")
    assert (opened["charge"], randomized["charge"]) == ({"epsilon": "1", "delta": "0"}, None)
    assert opened["left"] == {"epsilon": "3", "delta": "0"}


def test_a_file_that_cannot_be_written_is_told_and_changes_nothing(home: Path) -> None:
    (home / "logs").write_text("a file where a directory should be")
    (home / "visits.yaml").write_text(SPEC.replace("town_people", "strangers"))
    assert "metrics cannot be written" in told(*RUN, code=ExitCode.BUDGET)


def test_a_pipe_that_nobody_reads_is_not_waited_for(home: Path) -> None:
    text = 'metrics = "metrics.pipe"\nlineage = "lineage.pipe"\n' + render_profile()
    (home / PROFILE_FILE).write_text(text)
    for name in ("metrics.pipe", "lineage.pipe"):
        os.mkfifo(home / name)
    (home / "visits.yaml").write_text(SPEC.replace("town_people", "strangers"))
    said = told(*RUN, code=ExitCode.BUDGET)
    assert "metrics cannot be written" in said
    assert "lineage cannot be written" in said


def test_without_the_key_there_is_no_file(home: Path) -> None:
    (home / PROFILE_FILE).write_text(render_profile())
    assert load_profile().metrics is None
    (home / "visits.yaml").write_text(SPEC.replace("town_people", "strangers"))
    told(*RUN, code=ExitCode.BUDGET)
    assert not (home / "logs").exists()


def test_it_is_a_file_of_this_machine(home: Path) -> None:
    assert load_profile().metrics == home / "logs" / "metrics.jsonl"
    (home / PROFILE_FILE).write_text('metrics = "s3://bucket/metrics"\n' + render_profile())
    assert "is a URL" in told("ledger", "show", code=ExitCode.SETUP)
