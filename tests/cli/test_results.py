"""What the jobs leave for a scheduler: state, digest, cost and what is left, however they ended; no value."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_spark.cli.results import with_result
from dp_spark.errors import ExitCode, SetupRefused

JOB = Path(__file__).parents[2] / "jobs" / "private_release.py"
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
BUDGET = ["ledger", "budget", "set", "town_people", "--epsilon", "4/3", "--delta", "1e-5", "--unit", "person"]


def started(home: Path, program: list[str | Path], *words: str, code: int = 0) -> str:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("DP_SPARK_PROFILE", None)
    done = subprocess.run(
        [*program, *words], capture_output=True, text=True, check=False, cwd=home, env=environment
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def left(home: Path, step: str, key: str, *more: str, code: int = 0) -> dict[str, Any]:
    """What one job leaves."""
    place = home / "results" / f"{step}.json"
    words = ("--spec", "visits.yaml", "--key", key, "--step", step, "--result", str(place), *more)
    started(home, [sys.executable, JOB], *words, code=code)
    return json.loads(place.read_text())  # type: ignore[no-any-return]


def test_a_release_in_two_steps_leaves_what_a_scheduler_has_to_know(tmp_path: Path) -> None:
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"person": ["p", "q"], "town": ["a", "b"]}), tmp_path / "in" / "rows.parquet")
    script = [Path(sys.executable).with_name("dp-spark")]
    started(tmp_path, script, "ledger", "init")
    started(tmp_path, script, *BUDGET, "--reason", "a test")

    early = left(tmp_path, "publish", "2024-03-01", code=ExitCode.LEDGER)
    assert (early["error"], early["state"], early["may_pass"]) == ("release_not_staged", None, False)
    assert early["left"] == {"epsilon": "4/3", "delta": "1/100000"}

    staged = left(tmp_path, "privatize", "2024-03-01")
    assert (staged["error"], staged["exit_code"], staged["state"]) == (None, 0, "staged")
    assert staged["release"] == "town_people/visits/2024-03-01/0"
    assert staged["charge"] == {"epsilon": "1", "delta": "1/1000000"}
    assert staged["left"]["epsilon"] == "1/3"

    sealed = left(tmp_path, "publish", "2024-03-01")
    assert sealed == {**staged, "state": "sealed"}
    assert sorted(os.listdir(tmp_path / "results")) == ["privatize.json", "publish.json"]

    refused = left(tmp_path, "privatize", "2024-03-02", code=ExitCode.BUDGET)
    assert refused["error"] == "budget_exhausted"
    assert refused["way_out"]
    assert refused["may_pass"] is False
    assert refused["state"] is None
    assert refused["left"]["epsilon"] == "1/3"


def test_an_attempt_leaves_nothing_of_the_one_before_it(tmp_path: Path) -> None:
    place = tmp_path / "result.json"
    place.write_text("of an earlier attempt")

    def action() -> None:
        assert not place.exists()
        raise ValueError("SECRET")

    with pytest.raises(ValueError, match="SECRET"):
        with_result(action, place, lambda: {"state": "reading"})()
    assert json.loads(place.read_text()) == {
        "error": "unexpected",
        "exit_code": 1,
        "may_pass": True,
        "state": "reading",
    }


def test_facts_that_cannot_be_told_do_not_hide_how_it_ended(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "result.json"
    with_result(lambda: None, place, lambda: {"x": 1 / 0})()
    assert json.loads(place.read_text()) == {"error": None, "exit_code": 0}


def test_a_result_that_cannot_be_written_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    def action() -> None:
        pytest.fail("it has begun")

    with pytest.raises(SetupRefused) as refused:
        with_result(action, tmp_path / "file" / "result.json", dict)()
    assert refused.value.code == "result_not_writable"
