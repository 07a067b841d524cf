"""Every entry of docs/runbook.md: its trouble is brought about, its commands are run, and it is over."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode
from dp_spark.release.ledger import Budget, ReleaseId, ReleaseState, SurveyAccount, WaveId, WaveState
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile, render_profile

TEXT = (Path(__file__).parents[1] / "docs" / "runbook.md").read_text()
ENTRIES = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", TEXT, re.MULTILINE))
SPEC = """
release: visits
input: {format: parquet, path: in}
period: {column: at, every: day}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 1}
group_by: [town]
groups: {public: [a, b]}
guarantee: {epsilon: 0.5, delta: 1e-6}
queries: [{name: visits, kind: count}]
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""
SURVEY = """
survey: work_status
input: {format: parquet, path: answers}
unit: {column: person, on_null: drop}
answer: work
domain: {categories: {at work: false, ill: true}}
epsilon: 1
budget: {population: us_persons}
publish: [{sink: parquet, path: out_work}]
"""
HISTORY = "checks: {history: {against: previous}}\n"
ONE = 0.5  # epsilon of one release
EVERY_CODE = set(ExitCode) - {ExitCode.OK, ExitCode.UNEXPECTED, ExitCode.INTERRUPTED}
# What is wrong in what was written, or where nothing is set up yet: no night goes so.
OF_OPERATORS = {ExitCode.USAGE, ExitCode.SPEC, ExitCode.PLAN, ExitCode.SETUP}


def commands(entry: str) -> list[list[str]]:
    lines = re.findall(r"^dp-spark .*$", ENTRIES[entry], re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def told(words: list[str], code: int = 0, refusal: str = "") -> str:
    """What a command prints; it ends with this code, and the refusal of this name where one is given."""
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, (words, result.output)
    assert not refusal or f"({refusal})" in result.output, result.output
    assert not refusal or f"`{refusal}`" in TEXT
    return result.output


def run(key: str, code: int = 0, refusal: str = "") -> str:
    return told(["run", "visits.yaml", "--key", key], code, refusal)


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


def test_every_exit_code_of_a_night_leads_to_an_entry() -> None:
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", TEXT, re.MULTILINE)
    assert {int(code) for code, _ in rows} == EVERY_CODE - OF_OPERATORS
    anchors = {re.sub(r"[^a-z ]", "", title.lower()).replace(" ", "-") for title in ENTRIES}
    linked = set(re.findall(r"\(#([a-z-]+)\)", TEXT))
    assert linked <= anchors


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
    profile = 'retention_days = 1\nmetrics = "metrics.jsonl"\n' + render_profile()
    (tmp_path / "dp_spark.toml").write_text(profile)
    (tmp_path / "visits.yaml").write_text(SPEC)
    write_rows()
    told(["ledger", "init"])
    set_limit("4")
    return tmp_path


def write_rows(people: int = 60, day: str = "at") -> None:
    rows = {
        "person": [f"p{i}" for i in range(people)],
        "town": ["ab"[i % 2] for i in range(people)],
        day: [f"2024-03-0{1 + i % 3}" for i in range(people)],
    }
    Path("in").mkdir(exist_ok=True)
    pq.write_table(pa.table(rows), "in/rows.parquet")


def set_limit(epsilon: str) -> None:
    counts = ["--delta", "1e-5", "--unit", "person", "--reason", "a test"]
    told(["ledger", "budget", "set", "town_people", "--epsilon", epsilon, *counts])


def open_wave() -> None:
    """A wave of four people, whose batch is stored."""
    Path("work_status.yaml").write_text(SURVEY)
    Path("answers").mkdir()
    answers = {"person": ["p", "q", "r", "s"], "work": ["ill", "at work"] * 2}
    pq.write_table(pa.table(answers), "answers/answers.parquet")
    limit = ["us_persons", "work_status", "--epsilon", "4", "--unit", "person", "--reason", "a test"]
    told(["survey", "budget", "set", *limit])
    told([*WAVE_OPEN, "w1"])
    told(["survey", "randomize", "work_status.yaml", "--wave", "w1"])


WAVE_OPEN = ["survey", "open", "work_status.yaml", "--reason", "a test", "--wave"]


def budget() -> Budget:
    return open_ledger(load_profile(None)).budget("town_people")


def spent() -> float:
    """In releases."""
    assert not open_ledger(load_profile(None)).verify().findings
    return float(budget().spent.epsilon) / ONE


def state(key: str, revision: int = 0) -> ReleaseState | None:
    found = open_ledger(load_profile(None)).find(ReleaseId("town_people", "visits", key, revision))
    return found and found.state


def account() -> SurveyAccount:
    return open_ledger(load_profile(None)).survey_account("us_persons", "work_status")


def wave_state() -> WaveState:
    found = open_ledger(load_profile(None)).wave(WaveId("us_persons", "work_status", "w1"))
    assert found is not None
    return found.state


def published(key: str, sink: str = "out") -> str:
    """The release whose rows a sink has; its digest makes it this artefact and no other."""
    labels = pq.read_metadata(f"{sink}/period_start={key}/part-0.parquet").metadata
    return f"{labels[b'dp_spark.release_id'].decode()} {labels[b'dp_spark.digest'].decode()}"


def batches() -> list[Path]:
    return list(load_profile(None).staging.glob("surveys/**/batch*"))


@pytest.mark.usefixtures("spark")
def test_a_gate_failed_and_each_way_out_of_it_leads_on(home: Path, tmp_path_factory: Any) -> None:
    add(HISTORY)
    run("2024-02-29")
    output = run("2024-03-02", ExitCode.HELD, "release_held")
    assert "nothing was published and the charge stands" in " ".join(output.split())
    assert (state("2024-03-02"), spent()) == (ReleaseState.HELD, 2)
    assert not Path("out/period_start=2024-03-02").exists()
    checks, again, publish_held, abandon = commands("A gate failed")
    assert "history    FAILED" in told(checks)
    assert "missing period" in (home / "checks.html").read_text()
    told(again, ExitCode.HELD, "release_held")  # not mended: the same checks, and no charge
    assert spent() == 2
    kept = tmp_path_factory.mktemp("kept") / "home"
    shutil.copytree(home, kept)

    run("2024-03-01")  # the cause
    told(again)
    assert (state("2024-03-02"), spent()) == (ReleaseState.SEALED, 3)

    put_back(kept, home)
    told(publish_held)
    assert (state("2024-03-02"), spent()) == (ReleaseState.SEALED, 2)
    assert published("2024-03-02")

    put_back(kept, home)
    told(abandon)
    assert (state("2024-03-02"), spent()) == (ReleaseState.ABANDONED, 2)
    assert not Path("out/period_start=2024-03-02").exists()
    told(again, ExitCode.LEDGER, "release_ended")
    assert spent() == 2


def add(line: str) -> None:
    path = Path("visits.yaml")
    path.write_text(path.read_text() + line)


def put_back(kept: Path, home: Path) -> None:
    """The directory as it was kept, at the same place."""
    for path in home.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(kept, home, dirs_exist_ok=True)


@pytest.mark.usefixtures("spark")
def test_a_missing_night_is_listed_before_its_rows_are_gone_and_run_before_the_next(home: Path) -> None:
    """2024-03-01 has three more days by the clock of this test."""
    kept_days = (datetime.now(UTC).date() - date(2024, 3, 2)).days + 3
    (home / "visits.yaml").write_text(SPEC.replace("path: in", f"path: in, kept_days: {kept_days}") + HISTORY)
    run("2024-02-29")
    output = run("2024-03-02", ExitCode.HELD, "release_held")
    assert "the period before, 2024-03-01, is not sealed" in " ".join(output.split())
    assert "warning: visits lacks a period: 2024-03-01  never charged for" in " ".join(output.split(" "))
    missing, *runs = commands("A night is missing")
    listed = told(missing, ExitCode.EXPIRING, "periods_expire")
    assert "2024-03-01  never charged for; its rows are kept until" in listed
    assert "2024-03-02  held; waits for a decision" in listed
    for words in runs:
        told(words)
    assert "no period of visits is missing" in told([*missing, "--through", "2024-03-02"])
    assert spent() == 3


@pytest.mark.usefixtures("spark")
def test_late_rows_change_nothing_but_by_a_revision_and_an_early_run_costs_nothing(home: Path) -> None:
    run("2024-03-01")
    first = published("2024-03-01")
    write_rows(90)
    run("2024-03-01")
    assert (published("2024-03-01"), spent()) == (first, 1)
    show, revise = commands("Late data")
    assert "left" in told(show)
    told(revise)
    second = published("2024-03-01")
    assert (second.split()[0], spent()) == ("town_people/visits/2024-03-01/1", 2)
    told(revise)
    assert (published("2024-03-01"), spent()) == (second, 2)
    add("ready: {exists: 'done-{key}', newer_than: 36h}\n")
    run("2024-03-02", ExitCode.INPUT, "input_not_ready")
    assert (state("2024-03-02"), spent()) == (None, 2)
    (home / "done-2024-03-02").touch()
    two_days_ago = time.time() - 2 * 86400
    os.utime("in/rows.parquet", (two_days_ago, two_days_ago))
    run("2024-03-02", ExitCode.INPUT, "input_stale")
    assert (state("2024-03-02"), spent()) == (None, 2)
    write_rows()
    run("2024-03-02")
    assert spent() == 3


@pytest.mark.usefixtures("spark")
def test_after_an_erasure_nothing_that_is_kept_holds_a_row_or_whose_report_is_whose(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(["privatize", "visits.yaml", "--key", "2024-03-01"])
    open_wave()
    write_rows(59)
    publish, dry_run, gc, close = commands("An erasure request")
    assert publish[0] == "publish"
    told(publish)
    assert (state("2024-03-01"), spent()) == (ReleaseState.SEALED, 1)
    staged = list(load_profile(None).staging.glob("town_people/**/*.parquet"))
    assert str(staged[0]) not in told(dry_run)
    monkeypatch.setattr("dp_spark.cli.keeping.utc_now", lambda: datetime.now(UTC) + timedelta(days=1))
    assert str(staged[0]) in told(dry_run)
    assert staged[0].exists()
    told(gc)
    assert not staged[0].exists()
    run("2024-03-01")  # its copy still serves
    assert batches()
    told(close)
    assert (wave_state(), batches()) == (WaveState.CLOSED, [])


@pytest.mark.usefixtures("spark")
def test_a_leaked_key_stops_the_population_and_the_survey_and_is_destroyed(home: Path) -> None:
    run("2024-03-01")
    told(["privatize", "visits.yaml", "--key", "2024-03-02"])
    copy = published("2024-03-01")
    open_wave()
    burn, burn_wave = commands("A key has leaked")
    told(burn)
    assert (state("2024-03-01"), published("2024-03-01")) == (ReleaseState.BURNED, copy)
    assert "admits no further wave" in told(burn_wave)
    assert (wave_state(), batches()) == (WaveState.BURNED, [])
    run("2024-03-02", ExitCode.BUDGET, "population_burned")  # what was under way, too
    run("2024-03-03", ExitCode.BUDGET, "population_burned")
    assert not Path("out/period_start=2024-03-02").exists()
    told([*WAVE_OPEN, "w2"], ExitCode.BUDGET, "survey_burned")
    keys = home / ".dp_spark" / "ledger.db"
    with closing(sqlite3.connect(keys)) as ledger:
        wrapped = ledger.execute("SELECT wrapped FROM release_keys UNION ALL SELECT wrapped FROM wave_keys")
        assert not any(any(key) for (key,) in wrapped)


@pytest.mark.usefixtures("spark")
def test_a_budget_warns_is_exhausted_at_no_charge_and_goes_on_by_decision(home: Path) -> None:
    set_limit("1.2")
    run("2024-03-01")
    assert "warning" not in run("2024-03-01")
    assert "of the budget of town_people is left" in run("2024-03-02")
    run("2024-03-03", ExitCode.BUDGET, "budget_exhausted")
    assert (state("2024-03-03"), spent()) == (None, 2)
    check, history, plan, raise_limit = commands("The budget runs out")
    told(check, ExitCode.LOW, "budget_low")
    assert "2024-03-02" in told(history)
    told(plan, ExitCode.BUDGET, "budget_exhausted")
    told(raise_limit)
    told(plan)
    told(check)
    run("2024-03-03")
    assert spent() == 3


@pytest.mark.usefixtures("spark")
def test_another_schema_is_refused_at_no_charge_until_it_is_mended(home: Path) -> None:
    run("2024-03-01")
    write_rows(day="moment")
    run("2024-03-03", ExitCode.INPUT, "input_columns")
    retyped = SPEC.replace("kind: count", "kind: sum, column: euros, lower: 0, upper: 2, step: 0.5")
    (home / "visits.yaml").write_text(retyped)
    run("2024-03-03", ExitCode.PUBLISH, "column_retyped")
    run("2024-03-01", ExitCode.LEDGER, "other_spec")
    assert (state("2024-03-03"), spent()) == (None, 1)
    write_rows()
    more = SPEC.replace("kind: count}", "kind: count}, {name: people, kind: ids}")
    (home / "visits.yaml").write_text(more)
    for words in commands("The schema changed"):
        told(words)
    assert (state("2024-03-03"), spent()) == (ReleaseState.SEALED, 2)


@pytest.mark.usefixtures("spark")
def test_a_sink_that_is_down_gets_its_copy_later_at_no_charge(home: Path) -> None:
    (publish,) = commands("A sink is down")
    two = SPEC.replace("path: out}", "path: out}, {sink: parquet, path: mirror/deep}")
    (home / "visits.yaml").write_text(two)
    told(publish, ExitCode.LEDGER, "release_not_staged")
    (home / "mirror").write_text("no directory")
    output = run("2024-03-02", ExitCode.PUBLISH, "sink_unreachable")
    assert "copied to: parquet:out; waiting: parquet:mirror/deep" in " ".join(output.split())
    copy = published("2024-03-02")
    told(publish, ExitCode.PUBLISH, "sink_unreachable")
    assert (state("2024-03-02"), spent()) == (ReleaseState.STAGED, 1)
    (home / "mirror").unlink()
    told(publish)
    assert published("2024-03-02") == published("2024-03-02", "mirror/deep") == copy
    assert (state("2024-03-02"), spent()) == (ReleaseState.SEALED, 1)
    shutil.rmtree(home / "mirror")
    (home / "mirror").mkdir()
    (home / "mirror" / "deep").touch()
    run("2024-03-03", ExitCode.PUBLISH, "sink_refuses")
    told([*publish[:-1], "2024-03-03"], ExitCode.LEDGER, "release_not_staged")
    assert spent() == 1


@pytest.mark.usefixtures("spark")
def test_a_restored_ledger_is_charged_what_it_forgot_and_publishes_nothing_twice(home: Path) -> None:
    add(HISTORY)
    run("2024-03-01")
    open_wave()
    with (
        closing(sqlite3.connect(".dp_spark/ledger.db")) as ledger,
        closing(sqlite3.connect("copy.db")) as copy,
    ):
        ledger.backup(copy)
    run("2024-03-02")
    told(["run", "visits.yaml", "--key", "2024-03-01", "--revise", "late rows of 1 March"])
    told(["survey", "close", "work_status.yaml", "--wave", "w1"])
    told([*WAVE_OPEN, "w2"])
    head = json.loads(told(["ledger", "verify", "--json"]))["head"]
    copies = [published(key) for key in ("2024-03-01", "2024-03-02")]
    true_standing = budget().standing

    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (home / ".dp_spark" / name).unlink(missing_ok=True)
    shutil.copy("copy.db", ".dp_spark/ledger.db")
    assert spent() == 1
    told(["ledger", "verify", "--head", head], ExitCode.LEDGER, "ledger_altered")
    verify, history, missing, *charges, lower_survey, abandon = commands(
        "The ledger was restored from a backup"
    )
    assert "verified" in told(verify)
    last = max(line.split()[0] for line in told(history).splitlines())
    lines = map(json.loads, Path("metrics.jsonl").read_text().splitlines())
    forgotten = [
        each["release"] for each in lines if each["charge"] and "release" in each and each["at"] > last
    ]
    assert forgotten == ["town_people/visits/2024-03-02/0", "town_people/visits/2024-03-01/1"]
    assert "2024-03-02  never charged for" in told(missing)
    for words in charges:
        told(words)
    assert budget().standing == true_standing
    for words in charges:
        told(words, ExitCode.LEDGER, "release_known")
    run("2024-03-02", ExitCode.LEDGER, "release_ended")
    assert [published(key) for key in ("2024-03-01", "2024-03-02")] == copies
    assert (spent(), budget().standing) == (3, true_standing)
    told(lower_survey)
    told(["survey", "close", "work_status.yaml", "--wave", "w1"], ExitCode.PUBLISH, "batch_missing")
    told(abandon)
    assert (account().limit - account().spent, wave_state()) == (2, WaveState.ABANDONED)

    run("2024-03-03", ExitCode.HELD, "release_held")  # once, for want of the abandoned night
    told(["release", "publish-held", "town_people/visits/2024-03-03/0", "--reason", "as the runbook says"])
    run("2024-03-04")
    assert spent() == 5
    (home / ".dp_spark" / "master.key").write_text("ab" * 32)
    run("2024-03-05", ExitCode.SETUP, "wrong_master_key")


@pytest.mark.usefixtures("spark")
def test_a_period_that_a_restored_ledger_does_not_know_is_not_charged_again(home: Path) -> None:
    shutil.copy(".dp_spark/ledger.db", "copy.db")
    run("2024-03-01")
    copy = published("2024-03-01")
    shutil.copy("copy.db", ".dp_spark/ledger.db")
    run("2024-03-01", ExitCode.PUBLISH, "period_occupied")
    assert (published("2024-03-01"), spent()) == (copy, 0)
