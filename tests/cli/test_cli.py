"""The commands as an operator types them: what they print, what they refuse, how they exit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dp_spark.cli.guard import guarded
from dp_spark.cli.main import app
from dp_spark.errors import ExitCode
from dp_spark.release.profile import render_profile

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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    (tmp_path / "visits.yaml").write_text(SPEC)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"person": ["p", "q"], "town": ["a", "b"]}), tmp_path / "in" / "rows.parquet")
    return tmp_path


def told(*words: str, code: int = 0) -> str:
    """What a command prints; checks how it exits."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stdout


def opened_ledger() -> None:
    told("ledger", "init")
    told(*BUDGET, "--reason", "a test")


def test_a_plan_reads_a_public_file_and_says_what_the_run_will_read(home: Path) -> None:
    listed = SPEC.replace("{public: [a, b]}", "{public_file: towns.csv}")
    (home / "visits.yaml").write_text(listed)
    assert "groups_not_readable" in told("plan", "visits.yaml", "--json", code=ExitCode.INPUT)
    (home / "towns.csv").write_text("town\na\nb\nc\n")
    groups = json.loads(told("plan", "visits.yaml", "--json"))["groups"]
    assert (groups["count"], groups["source"]) == (3, "from public_file towns.csv")
    assert len(groups["digest"]) == 64
    (home / "visits.yaml").write_text(listed.replace("towns.csv", "in/rows.parquet"))
    assert "groups_from_private_source" in told("plan", "visits.yaml", "--json", code=ExitCode.INPUT)
    (home / "visits.yaml").write_text(listed.replace("public_file: towns.csv", "public_table: {table: t}"))
    assert "read from public_table t at the run" in " ".join(told("plan", "visits.yaml").split())
    opened_ledger()
    told("ledger", "source", "add", "towns.csv", "--population", "town_people")
    (home / "visits.yaml").write_text(listed)
    assert "groups_from_private_source" in told("plan", "visits.yaml", "--json", code=ExitCode.INPUT)


def test_the_console_script_says_its_version() -> None:
    script = Path(sys.executable).with_name("dp-spark")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.1.0"


def test_init_writes_files_that_plan_accepts_and_overwrites_nothing(home: Path) -> None:
    told("init", "new")
    plan = json.loads(told("plan", "new/release.yaml", "--profile", "new/dp_spark.toml", "--json"))
    assert plan["release"] == "first_release"
    told("init", "new", code=ExitCode.SETUP)


def test_a_plan_shows_cost_error_and_what_is_left(home: Path) -> None:
    opened_ledger()
    plan = json.loads(told("plan", "visits.yaml", "--json"))
    assert plan["cost"]["left_after"]["epsilon"]["float"] == 1.0
    (total,) = plan["totals"]
    assert 1.3 < total["std"] < 1.42  # discrete Laplace of scale 1
    text = told("plan", "visits.yaml")
    assert "visits" in text
    assert "person" in text


def test_a_plan_without_a_ledger_says_what_it_does_not_know(home: Path) -> None:
    result = CliRunner().invoke(app, ["plan", "visits.yaml"])
    assert result.exit_code == 0
    assert "dp-spark ledger init" in result.stderr


def test_a_plan_without_an_account_is_printed_and_has_the_code_of_that(home: Path) -> None:
    told("ledger", "init")
    plan = json.loads(told("plan", "visits.yaml", "--json", code=ExitCode.BUDGET))
    assert (plan["refused"]["error"], plan["release"]) == ("unknown_population", "visits")


def test_a_plan_as_a_page(home: Path) -> None:
    told("plan", "visits.yaml", "--html", "plan.html")
    assert (home / "plan.html").read_text().startswith("<!doctype html>")
    told("plan", "visits.yaml", "--html", "no/such/plan.html", code=ExitCode.SETUP)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["plan", "missing.yaml"], ExitCode.SPEC, "spec_not_found"),
        (["run", "visits.yaml", "--key", "2024-02-30"], ExitCode.SPEC, "key_not_a_date"),
        (["run", "visits.yaml", "--key", "2024-03-01"], ExitCode.SETUP, "master_key"),
        (["statement", "a/b/c/0"], ExitCode.SETUP, "master_key"),
        (["plan", "visits.yaml", "--profile", "nowhere.toml"], ExitCode.SETUP, "profile_refused"),
        ([*BUDGET[:4], "--epsilon", "1_0", *BUDGET[6:], "--reason", "x"], ExitCode.SPEC, "limit_invalid"),
    ],
)
def test_refusals_have_a_code_a_way_out_and_an_exit_code(
    home: Path, words: list[str], code: ExitCode, error: str
) -> None:
    refusal = json.loads(told(*words, "--json", code=code))
    assert refusal["error"] == error
    assert refusal["way_out"]
    assert refusal["exit_code"] == code


UNITS = [
    (["--unit", "person"], '"person"', "add_remove"),
    (["--unit", "person", "--unit", "household"], '"household" + "person"', "add_remove"),
    (["--unit", "person", "--per", "day"], '"person" per day', "add_remove"),
    (["--unit-row"], "row", "add_remove"),
    (["--unit", "person", "--neighbours", "replace"], '"person"', "replace"),
]


@pytest.mark.parametrize(("words", "unit", "neighbours"), UNITS)
def test_an_account_is_opened_for_any_unit_and_relation(
    home: Path, words: list[str], unit: str, neighbours: str
) -> None:
    told("ledger", "init")
    account = json.loads(told(*BUDGET[:-2], *words, "--reason", "a test", "--json"))
    assert (account["unit"], account["neighbours"]) == (unit, neighbours)
    assert f"of each unit {unit}, neighbours {neighbours}" in told(*BUDGET[:-2], *words, "--reason", "again")


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ([], "unit_invalid", "no unit is named"),
        (["--unit-row", "--unit", "a"], "unit_invalid", "two kinds of unit are named"),
        (["--unit", "a", "--unit", "a"], "spec_invalid", "is listed twice"),
        (["--unit-row", "--per", "day"], "spec_invalid", "a row is a unit by itself"),
        (["--unit", "a", "--per", "year"], "spec_invalid", "per = 'year': is not known (allowed: day | week"),
        (["--unit", "a", "--neighbours", "swap"], "neighbours_invalid", "(allowed: add_remove | replace)"),
    ],
)
def test_a_unit_that_makes_no_sense_opens_no_account(
    home: Path, words: list[str], error: str, said: str
) -> None:
    told("ledger", "init")
    asked = [*BUDGET[:-2], *words, "--reason", "x", "--json"]
    refusal = json.loads(told(*asked, code=ExitCode.SPEC))
    assert refusal["error"] == error
    assert said in refusal["message"]
    assert refusal["way_out"]


def test_an_account_of_another_unit_is_refused_with_both_sides(home: Path) -> None:
    opened_ledger()
    asked = [*BUDGET[:-2], "--unit-row", "--neighbours", "replace", "--reason", "x", "--json"]
    refusal = json.loads(told(*asked, code=ExitCode.LEDGER))
    assert (
        'unit "person" with neighbours add_remove, not unit row with neighbours replace' in refusal["message"]
    )


def test_a_plan_says_that_an_account_counts_another_unit(home: Path) -> None:
    told("ledger", "init")
    told(*BUDGET[:-2], "--unit-row", "--reason", "a test")
    assert "left    not known" in told("plan", "visits.yaml", code=ExitCode.LEDGER)
    plan = json.loads(told("plan", "visits.yaml", "--json", code=ExitCode.LEDGER))
    assert (plan["refused"]["error"], plan["release"]) == ("other_protection", "visits")


def test_a_plan_that_does_not_fit_is_printed_and_refused(home: Path) -> None:
    """What takes all that is left fits; what takes more is planned in full, with the code of its refusal."""
    opened_ledger()
    plan = json.loads(told("plan", "visits.yaml", "--json"))
    assert plan["refused"] is None
    (home / "visits.yaml").write_text(SPEC.replace("epsilon: 1,", "epsilon: 2,"))
    assert json.loads(told("plan", "visits.yaml", "--json"))["refused"] is None
    (home / "visits.yaml").write_text(SPEC.replace("epsilon: 1,", "epsilon: 3,"))
    plan = json.loads(told("plan", "visits.yaml", "--json", code=ExitCode.BUDGET))
    assert plan["refused"]["error"] == "budget_exhausted"
    assert "ask for at most epsilon = 2" in plan["refused"]["way_out"]
    result = CliRunner().invoke(app, ["plan", "visits.yaml", "--html", "plan.html"])
    assert (result.exit_code, "(budget_exhausted)" in result.stderr) == (ExitCode.BUDGET, True)
    for text in (result.stdout, (home / "plan.html").read_text()):
        assert "this release does not fit; raise the limit" in " ".join(text.split())
        assert "epsilon -1" not in text


def test_an_unknown_population_is_refused_with_the_nearest_name(home: Path) -> None:
    told("ledger", "init")
    told(*BUDGET[:3], "town_poeple", *BUDGET[4:], "--reason", "a test")
    refusal = json.loads(told("run", "visits.yaml", "--key", "2024-03-01", "--json", code=ExitCode.BUDGET))
    assert "town_poeple" in refusal["message"] + refusal["way_out"]


def test_a_wrong_option_is_a_usage_error(home: Path) -> None:
    told("run", "visits.yaml", code=ExitCode.USAGE)


def test_what_is_unexpected_keeps_its_text_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    def burst() -> None:
        raise ValueError("row 17: secret person")

    assert guarded(burst, as_json=True) == ExitCode.UNEXPECTED
    seen = "".join(capsys.readouterr())
    assert "ValueError" in seen
    assert "secret" not in seen


def test_a_missing_extra_is_named_with_its_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    def without_spark() -> None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    assert guarded(without_spark, as_json=True) == ExitCode.SETUP
    assert "dp-spark[spark]" in capsys.readouterr().out


def test_doctor_names_what_is_missing_and_is_content_when_nothing_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "dp-spark ledger init" in told("doctor", code=ExitCode.SETUP)
    told("ledger", "init")
    findings = json.loads(told("doctor", "--json"))
    assert {finding["what"] for finding in findings} >= {"java", "spark", "ledger", "master key"}
    assert all(finding["fine"] for finding in findings)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "lack java" in told("doctor", code=ExitCode.SETUP)


def test_doctor_asks_connections_and_shows_no_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told("ledger", "init")
    profile = home / "dp_spark.toml"
    (home / "file").write_text("")
    profile.write_text(
        render_profile()
        + """
[connections.fine]
url = "duckdb:///w.duckdb"
[connections.web]
url = "https://catalog.example.org"
[connections.within]
url = "duckdb:///file/w.duckdb"
[connections.dead]
url = "postgresql+psycopg://u@127.0.0.1:1/d"
password = "env:WAREHOUSE_PASSWORD"
[connections.strange]
url = "snowflake://u@account/d"
"""
    )
    monkeypatch.setenv("WAREHOUSE_PASSWORD", "hunter2-s3cr3t")
    shown = told("doctor", "--json", code=ExitCode.SETUP)
    assert "hunter2-s3cr3t" not in shown
    findings = {each["what"]: each for each in json.loads(shown.splitlines()[0])}
    fine = {
        name: findings[f"connection {name}"]["fine"] for name in ("fine", "web", "within", "dead", "strange")
    }
    assert fine == {"fine": True, "web": True, "within": False, "dead": False, "strange": False}
    assert "there is no answer (OperationalError)" in findings["connection dead"]["seen"]
    monkeypatch.delenv("WAREHOUSE_PASSWORD")
    assert "WAREHOUSE_PASSWORD is not set" in told("doctor", code=ExitCode.SETUP)


def test_the_ledger_is_shown_told_and_checked(home: Path) -> None:
    opened_ledger()
    told("ledger", "source", "add", "in", "--population", "town_people")
    (account,) = json.loads(told("ledger", "show", "--json"))
    assert (account["left"], account["fit"]) == ({"epsilon": "2", "delta": "1/100000"}, None)
    assert "scheduled" not in told("ledger", "show", "town_people", "--check")
    told("ledger", "budget", "set", "town_people", "--epsilon", "2", "--delta", "1e-5", "--unit", "person",
         "--reason", "=cmd()")  # fmt: skip
    rows = told("ledger", "history", "town_people", "--csv").splitlines()
    assert rows[0] == '"at","what","about","epsilon","delta","reason","by","paid"'
    assert '"\'=cmd()"' in rows[-1]
    assert len(json.loads(told("ledger", "history", "town_people", "--json"))) == len(rows) - 1
    told("ledger", "show", "town_peopl", code=ExitCode.BUDGET)


def test_decisions_are_commands_and_the_chain_is_verified(home: Path) -> None:
    opened_ledger()
    verified = json.loads(told("ledger", "verify", "--json"))
    assert told("ledger", "verify", "--head", verified["head"]).startswith("verified")
    for word in ("abort", "abandon", "burn", "publish-held"):
        refused = told(
            "release", word, "town_people/visits/x/0", "--reason", "r", "--json", code=ExitCode.LEDGER
        )
        assert json.loads(refused)["error"] == "unknown_release"
    assert 'TO "runner"' in told("ledger", "grants", "--runner", "runner")


def test_ledger_init_twice_changes_nothing(home: Path) -> None:
    opened_ledger()
    before = (home / ".dp_spark" / "master.key").read_bytes()
    told("ledger", "init")
    assert (home / ".dp_spark" / "master.key").read_bytes() == before
    plan = json.loads(told("plan", "visits.yaml", "--json"))
    assert plan["cost"]["limit"]["epsilon"]["exact"] == "2"


def test_a_row_that_breaks_the_reading_shows_nowhere(home: Path) -> None:
    """A damaged page passes the check of footers and fails while rows are read, on Spark's own threads."""
    opened_ledger()
    rows = home / "in" / "rows.parquet"
    people = pa.table({"person": [f"SECRET-{i:06}" for i in range(5000)], "town": ["a"] * 5000})
    pq.write_table(people, rows, compression="none", use_dictionary=False)
    whole = rows.read_bytes()
    rows.write_bytes(whole[:60] + b"\xff" * 200 + whole[260:])
    script = Path(sys.executable).with_name("dp-spark")
    done = subprocess.run(
        [script, "run", "visits.yaml", "--key", "2024-03-01"], capture_output=True, text=True, check=False
    )
    assert done.returncode == ExitCode.INPUT, done.stderr
    assert "reading_failed" in done.stderr
    assert "SECRET" not in done.stdout + done.stderr
    assert "Exception:" not in done.stderr


def test_a_master_key_that_is_lost_is_not_replaced(home: Path) -> None:
    opened_ledger()
    (home / ".dp_spark" / "master.key").unlink()
    assert json.loads(told("ledger", "init", "--json", code=ExitCode.SETUP))["error"] == "master_key_lost"


@pytest.mark.parametrize("reason", ["\udcff", "", "two\nlines"])
def test_a_reason_that_cannot_be_kept_is_refused(home: Path, reason: str) -> None:
    told("ledger", "init")
    told(*BUDGET, "--reason", reason, code=ExitCode.SPEC)


def test_the_job_of_spark_submit_runs_a_release_that_the_command_line_then_serves(home: Path) -> None:
    opened_ledger()
    job = Path(__file__).parents[2] / "jobs" / "private_release.py"
    submit = Path(sys.executable).with_name("spark-submit")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [submit, "--master", "local[2]", job, "--spec", "visits.yaml", "--key", "2024-03-01"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    submitted = json.loads(done.stdout.splitlines()[-1])
    assert submitted["charged"] == {"epsilon": "1", "delta": "1/1000000"}
    served = json.loads(told("run", "visits.yaml", "--key", "2024-03-01", "--json"))
    assert served == {**submitted, "charged": None}

    statement = json.loads(told("statement", submitted["release"], "--json"))
    assert statement["sealed"]["artefact_digest"] == submitted["digest"]
    assert submitted["release"] in told("statement", submitted["release"], "--html", "statement.html")
    assert (home / "statement.html").is_file()
    told("statement", "town_people/visits/2024-03-02/0", code=ExitCode.LEDGER)
