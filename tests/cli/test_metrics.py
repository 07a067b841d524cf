"""The line that each run leaves in the profile's metrics file."""

import json
import os
from pathlib import Path

import pytest
from runs_world import NIGHT, POISON, WAVE, laid, of_strangers, open_wave, told

from dp_spark.errors import ExitCode
from dp_spark.release.profile import PROFILE_FILE, load_profile, render_profile


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return laid(tmp_path, monkeypatch, 'metrics = "logs/metrics.jsonl"\n')


def lines(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "logs" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("spark")
def test_each_run_leaves_one_line_with_what_it_did_and_no_row(home: Path) -> None:
    told("privatize", *NIGHT)
    told("publish", *NIGHT)
    told("run", *NIGHT)
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
    of_strangers(home)
    told("run", *NIGHT, code=ExitCode.BUDGET)
    (line,) = lines(home)
    assert (line["refusal"], line["exit_code"]) == ("unknown_population", ExitCode.BUDGET)
    assert (line["state"], line["charge"], line["left"]) == (None, None, None)


@pytest.mark.usefixtures("spark")
def test_a_wave_leaves_lines_too(home: Path) -> None:
    open_wave()
    told("survey", "randomize", *WAVE)
    opened, randomized = lines(home)
    assert (opened["command"], randomized["command"]) == ("survey open", "survey randomize")
    assert (opened["wave"], opened["state"]) == ("us_persons/work_status/w1", "open")
    assert (opened["charge"], randomized["charge"]) == ({"epsilon": "1", "delta": "0"}, None)
    assert opened["left"] == {"epsilon": "3", "delta": "0"}


def test_a_file_that_cannot_be_written_is_told_and_changes_nothing(home: Path) -> None:
    (home / "logs").write_text("a file where a directory should be")
    of_strangers(home)
    assert "metrics cannot be written" in told("run", *NIGHT, code=ExitCode.BUDGET)


def test_a_pipe_that_nobody_reads_is_not_waited_for(home: Path) -> None:
    text = 'metrics = "metrics.pipe"\nlineage = "lineage.pipe"\n' + render_profile()
    (home / PROFILE_FILE).write_text(text)
    for name in ("metrics.pipe", "lineage.pipe"):
        os.mkfifo(home / name)
    of_strangers(home)
    said = told("run", *NIGHT, code=ExitCode.BUDGET)
    assert "metrics cannot be written" in said
    assert "lineage cannot be written" in said


def test_without_the_key_there_is_no_file(home: Path) -> None:
    (home / PROFILE_FILE).write_text(render_profile())
    assert load_profile().metrics is None
    of_strangers(home)
    told("run", *NIGHT, code=ExitCode.BUDGET)
    assert not (home / "logs").exists()


def test_it_is_a_file_of_this_machine(home: Path) -> None:
    assert load_profile().metrics == home / "logs" / "metrics.jsonl"
    (home / PROFILE_FILE).write_text('metrics = "s3://bucket/metrics"\n' + render_profile())
    assert "is a URL" in told("ledger", "show", code=ExitCode.SETUP)
