"""`dp-spark noise plot` as an operator types it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode


def run(*words: str):
    return CliRunner().invoke(app, ["noise", "plot", *words])


def test_one_picture_is_written_as_png_and_svg_into_a_new_directory(tmp_path: Path) -> None:
    told = run(str(tmp_path / "new"), "--only", "separation", "--epsilon", "1/2", "--json")
    assert told.exit_code == ExitCode.OK, told.output
    paths = [tmp_path / "new" / f"noise_separation.{ending}" for ending in ("png", "svg")]
    assert json.loads(told.stdout) == {"written": [str(path) for path in paths]}
    assert sorted((tmp_path / "new").iterdir()) == paths
    assert all(path.stat().st_size > 0 for path in paths)


def test_progress_goes_to_standard_error_and_files_to_standard_output(tmp_path: Path) -> None:
    told = run(str(tmp_path), "--only", "separation")
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["written", "written"]
    assert "separation" in told.stderr


def test_an_unknown_picture_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    told = run(str(tmp_path), "--only", "horizn")
    assert told.exit_code == ExitCode.SPEC
    assert "did you mean 'horizon'?" in told.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value"), [("--epsilon", "0"), ("--epsilon", "11"), ("--delta", "0"), ("--delta", "much")]
)
def test_numbers_that_cannot_be_drawn_are_refused(tmp_path: Path, option: str, value: str) -> None:
    told = run(str(tmp_path), option, value, "--json")
    assert told.exit_code == ExitCode.SPEC
    assert json.loads(told.stdout)["error"] == "guarantee_invalid"


def test_a_directory_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = run(str(tmp_path / "file" / "below"), "--json")
    assert told.exit_code == ExitCode.SETUP
    assert json.loads(told.stdout)["error"] == "not_writable"
