"""`plan --public-sample`: the example of the docs, what is printed, what is refused."""

import json
import re
import shlex
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode

ROOT = Path(__file__).parents[2]
SPEC = """
release: visits
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
where: "euros > 0"
group_by: [town]
groups: {public: [a, b]}
guarantee: {epsilon: 1, delta: 1e-6}
noise: laplace
queries:
  - {name: visits, kind: count}
  - {name: spent, kind: sum, column: euros, lower: 0, upper: 1000}
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "in").mkdir()
    rows = range(3000)
    table = pa.table(
        {
            "person": [i % 500 for i in rows],
            "town": ["ab"[i // 1500] for i in rows],
            "euros": [i % 40 + 0.5 for i in rows],
        }
    )
    pq.write_table(table, tmp_path / "sample.parquet")
    pq.write_table(table, tmp_path / "in" / "rows.parquet")
    return tmp_path


def told(*words: str, code: int = 0, width: int = 80) -> str:
    result = CliRunner().invoke(app, ["plan", *words], env={"COLUMNS": str(width)})
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_trial_says_first_what_it_may_be_made_of_and_ends_with_what_to_write(home: Path) -> None:
    text = told("visits.yaml", "--public-sample", "sample.parquet")
    assert text.startswith("Public or synthetic rows only: bounds chosen by looking at the protected rows")
    assert "Rows are taken as filtered" in text
    assert "bounds: {max_groups: 2, max_rows_per_group: 3}" in text
    assert re.search("lower: 0, upper: 40 +# spent", text)
    assert re.search(r"total error of a query is \d+ % smaller than as written", text)
    assert 20 <= len(text.splitlines()) <= 32
    assert not list(home.glob(".dp_spark"))  # no ledger, no account, no stored plan


def test_json_has_everything_that_was_tried(home: Path) -> None:
    found = json.loads(
        told("visits.yaml", "--public-sample", "sample.parquet", "--sample-rate", "0.5", "--json")
    )
    assert found["notice"].startswith("Public or synthetic rows only")
    assert found["rate"] == 0.5
    assert len(found["bounds"]) == 1 + 2 * 3
    assert found["suggested"]["relative"] < found["as_written"]["relative"] == 1
    assert {each["query"] for each in found["suggested"]["errors"]} == {"visits", "spent"}
    assert found["write"][0].startswith("bounds: {max_groups: 2")


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["--public-sample", "in/rows.parquet"], "sample_is_private", ExitCode.INPUT),
        (["--sample-rate", "0.1"], "sample_missing", ExitCode.SETUP),
        (["--public-sample", "sample.parquet", "--sample-rate", "0"], "sample_rate_range", ExitCode.SETUP),
        (["--public-sample", "sample.parquet", "--html", "p.html"], "sample_without_page", ExitCode.SETUP),
    ],
)
def test_what_makes_no_trial_is_refused(home: Path, words: list[str], code: str, exit_code: int) -> None:
    assert json.loads(told("visits.yaml", *words, "--json", code=exit_code))["error"] == code


def test_no_spark_is_loaded() -> None:
    code = "import dp_spark.cli.trying, sys; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_example_of_the_docs_runs(home: Path) -> None:
    """On a few hundred flights instead of the demo's."""
    rows = range(1200)
    flights = home / ".dp_spark" / "demo" / "flights"
    flights.mkdir(parents=True)
    table = pa.table(
        {
            "date": [date(2013, 1, 5) + timedelta(days=i % 10) for i in rows],
            "origin": [["EWR", "JFK", "LGA"][i % 3] for i in rows],
            "carrier": [["UA", "B6"][i % 2] for i in rows],
            "tailnum": [f"N{i % 90}" if i % 50 else None for i in rows],
            "dep_delay": [float(i % 40) - 5 if i % 30 else None for i in rows],
        }
    )
    pq.write_table(table, flights / "flights.parquet")
    docs = (ROOT / "docs" / "bounds.md").read_text()
    (example,) = re.findall("<!-- example -->(.*?)<!-- /example -->", docs, re.DOTALL)
    (code,) = re.findall("```python\n(.*?)```", example, re.DOTALL)
    (command,) = re.findall("```sh\n(.*?)\n```", example, re.DOTALL)
    exec(code, {})
    program, plan, spec, *words = shlex.split(command)
    assert (program, plan) == ("dp-spark", "plan")
    text = told(str(ROOT / spec), *words)
    assert "To write into the spec" in text
    assert 20 <= len(text.splitlines()) <= 32
