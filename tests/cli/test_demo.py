"""The demo and the README's commands, on a few hundred flights instead of 336,776."""

import json
import re
import shlex
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from dp_spark.cli.main import app

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A working directory where the demo finds its flights made already; Spark is the tests' own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    flights = tmp_path / ".dp_spark" / "demo" / "flights"
    flights.mkdir(parents=True)
    rows = range(600)
    table = pa.table(
        {
            "date": [date(2013, 1, 7) + timedelta(days=i % 10) for i in rows],
            "origin": [["EWR", "JFK", "LGA"][i % 3] for i in rows],
            "carrier": [["UA", "B6"][i % 2] for i in rows],
            "tailnum": [f"N{i % 90}" if i % 50 else None for i in rows],
            "dep_delay": [float(i % 40) - 5 if i % 30 else None for i in rows],
        }
    )
    pq.write_table(table, flights / "flights.parquet")
    return tmp_path


def told(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_demo_shows_private_beside_true_values_and_is_paid_once(home: Path) -> None:
    first = told("demo")
    assert "charged     8 releases charged epsilon 8 in all" in first
    assert "left        epsilon 2 of 10" in first
    assert "\u2026" not in first  # nothing is cut at 80 columns
    assert first.count("Intervals that hold the true value") == 2
    again = told("demo")
    assert "charged     nothing" in again
    assert re.findall("digests.*", again) == re.findall("digests.*", first)
    assert len(json.loads(told("demo", "--json"))) == 8


def test_the_commands_of_the_readme_do_what_it_says(home: Path) -> None:
    (block,) = re.findall(r"```sh\nsource .venv/bin/activate\n(.*?)```", README.read_text(), re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert len(commands) == 9
    for program, *words in commands:
        assert program == "dp-spark"
        told(*words)
    assert (home / "out" / "first_release" / "period_start=2013-01-14" / "part-0.parquet").is_file()


def test_the_spec_in_the_readme_and_the_examples_are_valid(home: Path) -> None:
    (spec,) = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    Path("readme.yaml").write_text(spec)
    examples = {str(each) for each in (README.parent / "examples").glob("*.yaml")}
    surveys = {each for each in examples if "\nsurvey:" in Path(each).read_text()}
    for path in ("readme.yaml", *examples - surveys):
        assert json.loads(told("plan", path, "--json"))["queries"]
    assert surveys
    for path in surveys:
        assert json.loads(told("survey", "plan", path, "--json"))


@pytest.mark.usefixtures("home")
def test_the_demo_of_a_survey_shows_estimates_beside_true_shares_and_is_paid_once() -> None:
    first = told("demo", "--survey")
    assert "charged     epsilon 1 of 4" in first
    assert "\u2026" not in first  # nothing is cut at 80 columns
    (sentence,) = re.findall(r"At this (epsilon, .*? honest ones)", " ".join(first.split()))
    assert sentence in " ".join(README.read_text().split())
    hold = [*map(int, re.findall(r"hold the true share: (\d+) of (\d+)", first)[0])]
    assert 0.8 * hold[1] < hold[0] <= hold[1] == 11 * 13
    again = told("demo", "--survey")
    assert "added       nobody" in again
    assert re.findall(".*%.*%.*%.*", again) == re.findall(".*%.*%.*%.*", first)
    assert json.loads(told("demo", "--survey", "--json"))["reports"] == 200_000
