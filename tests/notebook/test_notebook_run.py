"""A release of a frame in a session that is there: one charge, same bytes, settings kept, refusals first."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from postgres_server import Server
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from dp_spark import Release
from dp_spark.cli.main import app
from dp_spark.errors import BudgetRefused, InputRefused, LedgerRefused, PublishRefused, Refusal, SetupRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.pipeline import Step
from dp_spark.release.ledger import ReleaseId, ReleaseState
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import embedded_profile

ROOT = Path(__file__).parents[2]
KEY = "2024-03-01"
POISON = "7700-secret-person"


def release() -> Release:
    return (
        Release.named("visits")
        .period("at", every="day")
        .where("euros IS NOT NULL")
        .of_units("person")
        .bounded(max_groups=2, max_rows_per_group=2)
        .grouped_by("town", public=["a", "b", "nobody"])
        .count("visits")
        .mean("spent", "euros", lower=0, upper=50)
        .guaranteed(epsilon=1, delta="1e-6")
        .paid_by("town_people")
        .published(parquet="out")
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    return tmp_path


@pytest.fixture
def ledger(home: Path) -> Path:
    make_places(embedded_profile(home))
    open_ledger(embedded_profile(home)).set_budget(
        "town_people",
        PrivacyGuarantee(Fraction(3), Fraction(3, 10**6)),
        unit=PrivacyUnit(("person",)),
        neighbours=Neighbours.ADD_REMOVE,
        reason="a test",
    )
    return home


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    rows = [(f"{POISON}-{i % 60}", "abc"[i % 3], float(i % 70), f"2024-03-0{1 + i % 2}") for i in range(300)]
    return spark.createDataFrame(rows, "person string, town string, euros double, at string")


def spent(home: Path) -> Fraction:
    return open_ledger(embedded_profile(home)).budget("town_people").spent.epsilon


def state(home: Path) -> ReleaseState | None:
    record = open_ledger(embedded_profile(home)).find(ReleaseId("town_people", "visits", KEY))
    return record and record.state


def test_a_frame_is_released_once_and_served_again(
    ledger: Path, spark: SparkSession, frame: DataFrame
) -> None:
    first = release().run(spark, frame, key=KEY)
    copy = ledger / "out" / f"period_start={KEY}" / "part-0.parquet"
    written = copy.read_bytes()
    again = release().run(spark, frame.limit(3), key=date(2024, 3, 1))
    assert (first.charged, again.charged) == (PrivacyGuarantee(Fraction(1), Fraction(1, 10**6)), None)
    assert (again.digest, again.table, copy.read_bytes()) == (first.digest, first.table, written)
    assert (spent(ledger), state(ledger)) == (1, ReleaseState.SEALED)
    assert first.to_pandas()["town"].to_list() == ["a", "b", "nobody"]
    assert first.statement.is_file()


def test_bins_quantiles_and_totals_of_all_groups_are_released_by_their_words(
    ledger: Path, spark: SparkSession, frame: DataFrame
) -> None:
    """Every bin has a column, quantiles are in the order of their shares and within the edges."""
    edges = {"start": 0, "stop": 80, "step": 20}
    asked = (
        release()
        .histogram("bin", "euros", edges=edges)
        .quantiles("euro", "euros", edges=edges, at=["0.25", "0.75"], weight={"column": "euros", "upper": 70})
        .rolled_up([])
        .run(spark, frame, key=KEY)
    )
    table = asked.to_pandas()
    assert sorted(table["town"]) == ["(all)", "a", "b", "nobody"]
    assert {f"bin_{place}" for place in (1, 2, 3, 4)} < set(table) >= {"euro_p25_low", "euro_p75_high"}
    assert "bin_5" not in table
    assert (table["euro_p25"] <= table["euro_p75"]).all()
    assert table[["euro_p25_low", "euro_p75_high"]].stack().between(0, 80).all()
    assert (asked.charged, spent(ledger)) == (PrivacyGuarantee(Fraction(1), Fraction(1, 10**6)), 1)


def test_a_result_tells_charge_and_places_and_no_row(
    ledger: Path, spark: SparkSession, frame: DataFrame
) -> None:
    result = release().run(spark, frame, key=KEY)
    for told in (repr(result), result._repr_html_()):
        for word in (f"town_people/visits/{KEY}/0 (3 rows)", "epsilon 1, delta 1e-6", *result.published):
            assert word in told
        assert POISON not in told
    assert "nothing: this release was paid before" in repr(release().run(spark, frame, key=KEY))
    assert "left after" in str(release().explain())


def test_a_frame_keeps_the_zone_it_was_made_for(ledger: Path, spark: SparkSession) -> None:
    """Texts that Spark reads as moments late: three in the morning of Tokyo is the day before in UTC.

    Epsilon 50 shows true counts to a few rows. What depends on our zone is refused before the charge.
    """
    people = [f"p{i},a,1,2024-03-01 03:00:00" for i in range(300)]
    (ledger / "in").mkdir()
    (ledger / "in" / "moments.csv").write_text("\n".join(["person,town,euros,at", *people]))
    open_ledger(embedded_profile(ledger)).set_budget(
        "town_people",
        PrivacyGuarantee(Fraction(100), Fraction(1, 10**4)),
        unit=PrivacyUnit(("person",)),
        neighbours=Neighbours.ADD_REMOVE,
        reason="counts that can be told from none",
    )
    own = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    before = {name: spark.conf.get(name) for name in own}
    for name, value in own.items():
        spark.conf.set(name, value)
    try:
        schema = "person string, town string, euros double, at timestamp"
        frame = spark.read.schema(schema).option("header", True).csv(f"file:{ledger / 'in'}")
        with pytest.raises(InputRefused) as refusal:
            release().where("at > timestamp '2024-01-01 00:00:00'").run(spark, frame, key="2024-02-29")
        assert (refusal.value.code, spent(ledger)) == ("frame_time_zone", 0)
        day_of_utc = release().guaranteed(epsilon=50, delta="1e-6").run(spark, frame, key="2024-02-29")
        assert abs(day_of_utc.to_pandas()["visits"][0] - 300) < 30
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_the_session_keeps_its_settings(ledger: Path, spark: SparkSession, frame: DataFrame) -> None:
    own = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    before = {name: spark.conf.get(name) for name in own}
    for name, value in own.items():
        spark.conf.set(name, value)
    try:
        release().run(spark, frame, key=KEY)
        assert {name: spark.conf.get(name) for name in own} == own
        with pytest.raises(InputRefused):
            release().run(spark, frame.drop("town"), key="2024-03-02")
        assert {name: spark.conf.get(name) for name in own} == own
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def streamed(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate").load()
    return rows.selectExpr(
        "string(value) AS person", "'a' AS town", "double(value) AS euros", "date(timestamp) AS at"
    )


REFUSED: dict[str, tuple[Callable[[SparkSession, DataFrame], Any], str]] = {
    "no frame": (lambda spark, frame: release().run(spark, key=KEY), "input_missing"),
    "frame and path": (
        lambda spark, frame: release().reading(parquet="in").run(spark, frame, key=KEY),
        "input_twice",
    ),
    "a column is not there": (
        lambda spark, frame: release().run(spark, frame.drop("euros"), key=KEY),
        "input_columns",
    ),
    "a column is there twice": (
        lambda spark, frame: release().run(spark, frame.selectExpr("*", "upper(town) AS town"), key=KEY),
        "input_not_usable",
    ),
    "a stream": (lambda spark, frame: release().run(spark, streamed(spark), key=KEY), "input_streams"),
    "pandas": (lambda spark, frame: release().run(spark, pd.DataFrame(), key=KEY), "no_frame"),  # type: ignore[arg-type]
    "no session": (lambda spark, frame: release().run(frame, key=KEY), "no_session"),  # type: ignore[arg-type]
    "no such key": (lambda spark, frame: release().run(spark, frame, key="March"), "key_not_a_date"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_serve_is_refused_before_the_charge(
    ledger: Path, spark: SparkSession, frame: DataFrame, name: str
) -> None:
    run, code = REFUSED[name]
    with pytest.raises(Refusal) as refusal:
        run(spark, frame)
    assert (refusal.value.code, spent(ledger), state(ledger)) == (code, 0, None)


def test_a_sink_among_the_files_of_the_frame_is_refused(ledger: Path, spark: SparkSession) -> None:
    table = pd.DataFrame({"person": ["p"], "town": ["a"], "euros": [1.0]})
    for day in (1, 2):
        place = ledger / "out" / f"at=2024-03-0{day}"
        place.mkdir(parents=True)
        table.to_parquet(place / "rows.parquet")
    with pytest.raises(PublishRefused) as refusal:
        release().run(spark, spark.read.parquet(str(ledger / "out")), key=KEY)
    assert (refusal.value.code, spent(ledger)) == ("sink_in_input", 0)


def test_without_a_ledger_or_an_account_the_refusal_names_the_command(
    home: Path, spark: SparkSession, frame: DataFrame
) -> None:
    with pytest.raises(SetupRefused, match="dp-spark ledger init"):
        release().run(spark, frame, key=KEY)
    assert not list(home.iterdir())
    make_places(embedded_profile(home))
    with pytest.raises(BudgetRefused, match="dp-spark ledger budget set"):
        release().run(spark, frame, key=KEY)


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("spark.sql.extensions", "com.example.Fast", "unknown_engine"),
        ("spark.master", "spark://elsewhere:7077", "ledger_of_one_machine"),
    ],
)
def test_a_session_that_is_not_safe_is_refused(
    ledger: Path, spark: SparkSession, setting: str, value: str, code: str
) -> None:
    class Settings:
        def get(self, key: str, default: str | None = None) -> str | None:
            return value if key == setting else default

    class Session:
        conf = Settings()
        createDataFrame = None  # noqa: N815

    with pytest.raises(SetupRefused) as refusal:
        release().reading(parquet="in").run(Session(), key=KEY)  # type: ignore[arg-type]
    assert (refusal.value.code, spent(ledger)) == (code, 0)


def test_another_release_under_the_same_name_is_refused(
    ledger: Path, spark: SparkSession, frame: DataFrame
) -> None:
    release().run(spark, frame, key=KEY)
    with pytest.raises(LedgerRefused) as refusal:
        release().ids("people").run(spark, frame, key=KEY)
    assert (refusal.value.code, spent(ledger)) == ("other_spec", 1)


@pytest.mark.parametrize("step", [Step.READ, Step.DRAW, Step.STAGE, Step.COMMIT])
def test_killed_while_it_reads_it_goes_on_with_the_same_frame_at_no_further_charge(
    ledger: Path, spark: SparkSession, frame: DataFrame, step: Step
) -> None:
    """A fork shares the running Spark, to which nothing is under way between two steps."""
    child = os.fork()
    if child == 0:
        try:
            release().run(
                spark, frame, key=KEY, observe=lambda at: os.kill(os.getpid(), 9) if at == step else None
            )
        finally:
            os._exit(1)  # it should not have come so far
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert (spent(ledger), state(ledger)) == (1, ReleaseState.READING)
    with pytest.raises(InputRefused) as refusal:
        release().run(spark, key=KEY)
    assert refusal.value.code == "input_missing"
    result = release().run(spark, frame, key=KEY)
    assert (result.charged, spent(ledger), state(ledger)) == (None, 1, ReleaseState.SEALED)


def test_a_frame_that_fails_on_a_value_tells_nothing(
    ledger: Path, spark: SparkSession, frame: DataFrame
) -> None:
    failing = frame.selectExpr("person", "town", "CAST(person AS double) AS euros", "at")
    with pytest.raises(InputRefused) as refusal:
        release().run(spark, failing, key=KEY)
    assert refusal.value.code == "reading_failed"
    assert POISON not in str(refusal.value)


def test_the_command_line_plans_a_spec_without_input_and_says_how_to_run_it(ledger: Path) -> None:
    Path("visits.yaml").write_text(release().to_yaml())
    planned = CliRunner().invoke(app, ["plan", "visits.yaml"])
    assert planned.exit_code == 0
    assert "the frame that the run is given" in planned.stdout
    told = CliRunner().invoke(app, ["run", "visits.yaml", "--key", KEY, "--json"])
    refusal = json.loads(told.stdout.splitlines()[-1])
    assert (told.exit_code, refusal["error"]) == (8, "input_missing")
    assert "input: {format: parquet, path: PATH}" in refusal["way_out"]
    assert spent(ledger) == 0


@pytest.mark.whole
def test_a_connect_session_serves_as_well(
    home: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a ledger in PostgreSQL: who else is connected to a server, nobody here can tell."""
    places = {name: f".dp_spark/{name}" for name in ("staging", "statements")}
    written = {
        "ledger_url": postgres.url(postgres.new_database()),
        "master_key": "file:.dp_spark/master.key",
        **places,
    }
    profile = home / "dp_spark.toml"
    profile.write_text("".join(f'{key} = "{value}"\n' for key, value in written.items()))
    monkeypatch.setenv("DP_SPARK_PROFILE", str(profile))
    budget = ["ledger", "budget", "set", "people", "--epsilon", "1", "--delta", "1e-6", "--unit", "p"]
    for words in (["ledger", "init"], [*budget, "--reason", "a test"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    script = Path(__file__).with_name("connect_release.py")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, script], cwd=home, env=own, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kind"].startswith("pyspark.sql.connect")
    assert told["charged"] == [True, False]
    assert len(set(told["digests"])) == 1
    assert (told["groups"], told["settings_kept"]) == (["a", "b"], True)


def test_the_example_of_the_docs_runs(
    home: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "notebook.md").read_text()
    names: dict[str, Any] = {"spark": spark}
    for language, block in re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL):
        if language == "sh":
            for line in block.replace("\\\n", " ").splitlines():
                words = re.findall(r'"[^"]*"|\S+', line.partition("#")[0])
                assert CliRunner().invoke(app, [word.strip('"') for word in words[1:]]).exit_code == 0
        else:
            exec(block, names)
    assert "nothing: this release was paid before" in repr(names["again"])
    assert names["result"].table["place"].to_pylist() == ["harbour", "market", "station"]
    assert f"release {names['release'].spec.release}" not in capsys.readouterr().err
