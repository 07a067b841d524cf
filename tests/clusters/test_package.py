"""What `make package` makes is enough: for jobs outside the checkout, for workers without dp_spark."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from postgres_server import Server
from running import (
    APART,
    JOB,
    ROOT,
    Place,
    environment,
    make_life,
    make_place,
    profile_of,
    run_job,
    spent,
    standalone_cluster,
)
from submitting import killed, submit_command, submitted

import dp_spark
from dp_spark.errors import ExitCode
from dp_spark.release.places import open_ledger

PERIOD = "2024-03-04"
UV = Path(sys.executable).with_name("uv")
PEOPLE = 1000
RELEASE = """
release: visits
input: {format: parquet, path: in}
period: {column: at, every: week, timezone: Europe/Berlin}
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
input: {format: parquet, path: answers}
unit: {column: person, on_null: drop}
answer: work
domain: {categories: {at school: false, at work: false, ill: true, unemployed: true}}
first: answered_at
epsilon: 1
budget: {population: town_people}
publish: [{sink: parquet, path: out/work}]
"""


def told(*command: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """What a program says that must go well."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has(python: Path, module: str) -> bool:
    """Whether a Python finds a module; a directory of its name that holds none does not count."""
    search = (
        f"import importlib.util as u; print(getattr(u.find_spec({module!r}), 'origin', None) is not None)"
    )
    return told(python, "-c", search, cwd=python.parent).strip() == "True"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    told(
        UV,
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "-o",
        place,
        ROOT,
    )
    (file,) = place.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel; what it needs comes from our environment, but for dp_spark itself.

    A directory that a .pth file names is searched; its own .pth files, as that of the checkout, are not read.
    """
    place = tmp_path_factory.mktemp("installed")
    told(UV, "venv", "--quiet", "--python", sys.executable, place / "env")
    python = place / "env" / "bin" / "python"
    site = Path(told(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "others.pth").write_text(str(Path(pa.__file__).parents[1]))
    assert not has(python, "dp_spark")
    told(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel)
    return python


def test_the_wheel_has_every_file_of_the_package_and_the_examples(wheel: Path) -> None:
    package = Path(dp_spark.__file__).parent
    files = (file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    expected = {str(file.relative_to(package.parent)) for file in files}
    expected |= {f"dp_spark/examples/{file.name}" for file in (ROOT / "examples").iterdir()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert {Path(name).suffix for name in packed} >= {
        ".jinja",
        ".sql",
        ".properties",
        ".typed",
        ".pyi",
        ".yaml",
    }


def test_jobs_run_from_the_wheel_and_return_their_exit_codes_through_the_launcher(
    place: Place, installed: Path
) -> None:
    """The profile names the workers' Python, here one that leaves a mark."""
    python = place.path / "workers_python"
    python.write_text(f'#!/bin/sh\ntouch "{place.marks}/worker"\nexec "{installed}" "$@"\n')
    python.chmod(0o700)
    make_life(place, {"spark.pyspark.python": str(python), "spark.sql.shuffle.partitions": 1})
    (place.path / "release.yaml").write_text(RELEASE)
    (place.path / "wrong.yaml").write_text("release: trial\n")
    job = place.path / "private_release.py"
    job.write_bytes((ROOT / "jobs" / "private_release.py").read_bytes())
    outside = replace(place, python=str(installed))

    def code(file: str) -> int:
        ended = submitted(outside, "local[2]", str(job), "--spec", file, "--key", PERIOD)
        assert "Traceback" not in ended.err
        return ended.code

    assert code("wrong.yaml") == ExitCode.SPEC
    assert code("release.yaml") == ExitCode.OK
    assert (place.marks / "worker").exists()
    assert spent(place) == 1
    assert list((place.path / ".dp_spark" / "statements").rglob("*.html"))


# --- the archive, on a cluster ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What `make package` makes, and the archive unpacked for the driver, as `driver`."""
    place = tmp_path_factory.mktemp("package")
    told(ROOT / "scripts" / "package", sys.executable, place)
    (place / "driver").mkdir()
    told("tar", "-xzf", place / "env.tar.gz", "-C", place / "driver")
    yield place
    shutil.rmtree(place)


@pytest.fixture
def bare(place: Place) -> Iterator[Place]:
    """The place with a Python that has nothing: no dp_spark, no Spark, no NumPy.

    What executors unpack there, 800 MB each, does not outlive the test.
    """
    told(UV, "venv", "--quiet", "--python", sys.executable, place.path / "bare")
    python = place.path / "bare" / "bin" / "python"
    assert not has(python, "dp_spark")
    assert not has(python, "numpy")
    yield replace(place, python=str(python))
    for copied in (*place.path.glob("work-*"), place.path / "local"):
        shutil.rmtree(copied, ignore_errors=True)


@pytest.fixture(scope="module")
def archived(package: Path) -> dict[str, str]:
    """Settings by which workers run in the archive, and the driver where it was unpacked."""
    return {
        "spark.archives": f"{package}/env.tar.gz#env",
        "spark.pyspark.python": "./env/bin/python",
        "spark.pyspark.driver.python": str(package / "driver" / "bin" / "python"),
    }


@pytest.mark.whole
def test_a_release_from_the_archive_is_the_same_one_also_when_an_executor_is_killed(
    bare: Place, package: Path, archived: dict[str, str], postgres: Server, tmp_path: Path
) -> None:
    at_home = make_place(tmp_path / "at_home")
    (expected,) = run_job(at_home, {"spark.master": "local[2]"}).digests
    make_life(bare, {}, postgres.url(postgres.new_database()))
    life = [str(JOB), *bare.arguments(), "--life", "--meddle", "hold"]
    nightly = [str(package / "jobs" / "private_release.py"), "--spec", "release.yaml", "--key", PERIOD]
    without = {**archived, "spark.archives": "", "spark.pyspark.python": bare.python}
    with standalone_cluster(bare) as master:
        (bare.path / "release.yaml").write_text(RELEASE)
        refused = submitted(bare, master, *nightly, settings=without)
        assert [line["error"] for line in refused.lines] == ["workers_python"]
        assert (refused.code, spent(bare)) == (ExitCode.SETUP, 0)
        ended = killed(bare, submit_command(bare, master, *life, settings=archived))
        assert (ended.digests, spent(bare)) == ({expected}, 1)
        again = submitted(bare, master, *nightly, settings=archived)
    assert (again.digests, [line["charged"] for line in again.lines]) == ({expected}, [None])
    assert spent(bare) == 1


@pytest.mark.whole
def test_a_session_that_python_starts_has_the_workers_of_its_settings(
    bare: Place, archived: dict[str, str]
) -> None:
    """Without the launcher: the driver is ours, the workers are the archive's."""
    ours = replace(bare, python=sys.executable)
    (expected,) = run_job(ours, {"spark.master": "local[2]"}).digests
    with standalone_cluster(bare) as master:
        settings = {**APART, **archived, "spark.master": master}
        assert run_job(ours, settings, PYSPARK_PYTHON=bare.python).digests == {expected}


@pytest.mark.whole
def test_a_survey_runs_from_the_archive_its_commands_too(
    bare: Place, package: Path, archived: dict[str, str], postgres: Server
) -> None:
    make_life(bare, {}, postgres.url(postgres.new_database()))
    (bare.path / "work.yaml").write_text(SURVEY)
    write_answers(bare.path / "answers")
    about = ("work.yaml", "--wave", "w1")

    libraries = bare.spark_home / "python" / "lib"  # Spark's own, as docs/clusters.md says
    search = {"PYTHONPATH": ":".join(str(file) for file in libraries.glob("*.zip"))}

    def commanded(*words: str) -> str:
        command = package / "driver" / "bin" / "dp-spark"
        return told(command, *words, cwd=bare.path, env=environment(bare, **search))

    commanded(
        *("survey", "budget", "set", "town_people", "work_status", "--epsilon", "1", "--unit", "person"),
        *("--reason", "a test"),
    )
    commanded("survey", "open", *about, "--reason", "a test")
    with standalone_cluster(bare) as master:

        def job(script: str, *more: str) -> dict[str, Any]:
            application = [str(package / "jobs" / script), "--spec", *about, *more]
            ended = submitted(bare, master, *application, settings=archived)
            assert ended.code == 0, ended.err[-4000:]
            return ended.lines[-1]

        nights = [job("randomize_survey.py")["new"] for _ in range(2)]
        sealed = job("estimate_survey.py", "--close")
    assert nights == [PEOPLE, 0]
    assert sealed["state"] == "sealed"
    assert open_ledger(profile_of(bare)).survey_account("town_people", "work_status").spent == 1


def write_answers(place: Path) -> None:
    """One answer of each person."""
    place.mkdir()
    work = ["at school", "at work", "ill", "unemployed"]
    answers = {
        "person": [f"p{i}" for i in range(PEOPLE)],
        "work": [work[i % 4] for i in range(PEOPLE)],
        "answered_at": [1] * PEOPLE,
    }
    pq.write_table(pa.table(answers), place / "answers.parquet")
