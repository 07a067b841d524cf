"""A worker whose Python is not fit is noticed before the charge."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import dp_spark
from dp_spark.errors import ExitCode

PROGRAM = Path(sys.executable).with_name("dp-spark")
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
BUDGET = ["ledger", "budget", "set", "town_people", "--epsilon", "2", "--delta", "1e-5", "--unit", "person"]
RUN = ["run", "visits.yaml", "--key", "2024-03-01", "--json"]


def test_workers_without_the_libraries_or_of_another_version_cost_nothing(tmp_path: Path) -> None:
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"person": ["p", "q"], "town": ["a", "b"]}), tmp_path / "in" / "rows.parquet")
    told(tmp_path, sys.executable, "ledger", "init")
    told(tmp_path, sys.executable, *BUDGET, "--reason", "a test")
    bare, older = bare_python(tmp_path / "bare"), python_of_older(tmp_path / "older")
    assert "run no function of ours" in refusal(tmp_path, bare)
    assert f"have dp_spark 0.0.1, the driver has {dp_spark.__version__}" in refusal(tmp_path, older)
    spent = json.loads(told(tmp_path, sys.executable, "ledger", "show", "town_people", "--json"))
    assert [each["spent"]["epsilon"] for each in spent] == ["0"]
    charged = json.loads(told(tmp_path, sys.executable, *RUN).splitlines()[-1])["charged"]
    assert charged == {"epsilon": "1", "delta": "1/1000000"}


def bare_python(place: Path) -> str:
    """A Python of the same version that has nothing."""
    venv.create(place, with_pip=False, symlinks=True)
    return str(place / "bin" / "python")


def python_of_older(place: Path) -> str:
    """This Python, with a dp_spark that says that it is older."""
    package, own = place / "dp_spark", Path(dp_spark.__file__).parent
    package.mkdir(parents=True)
    for each in own.iterdir():
        if each.name != "__init__.py":
            (package / each.name).symlink_to(each)
    text = (own / "__init__.py").read_text().replace(dp_spark.__version__, "0.0.1")
    (package / "__init__.py").write_text(text)
    program = place / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={place}:$PYTHONPATH exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return str(program)


def refusal(home: Path, python: str) -> str:
    found = json.loads(told(home, python, *RUN, code=ExitCode.SETUP).splitlines()[-1])
    assert found["error"] == "workers_python"
    return str(found["message"])


def told(home: Path, python: str, *words: str, code: int = 0) -> str:
    environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("DP_SPARK_PROFILE", None)
    done = subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, check=False, cwd=home, env=environment
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
