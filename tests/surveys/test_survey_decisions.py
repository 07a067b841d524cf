"""Waves that people end: abandoned or burned, with a run at work meanwhile, and what is left of them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from survey_world import POPULATION, SURVEY, UNGROUPED, WAVE, World, no_spark
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import BudgetRefused, ExitCode, LedgerRefused, Refusal, SetupRefused
from dp_spark.release.ledger import WaveEnd, WaveId, WaveState
from dp_spark.release.profile import Connection
from dp_spark.release.spec import parse_survey
from dp_spark.surveys import Ended, WaveStep, end_survey

WHO = "the board, 1 March"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    made = World(tmp_path, spark)
    made.spec = parse_survey(UNGROUPED)
    (tmp_path / "survey.yaml").write_text(UNGROUPED)
    return made


def ended(world: World, end: WaveEnd) -> Ended:
    return end_survey(WaveId(POPULATION, SURVEY, WAVE), end, WHO, profile=world.profile)


def code_of(action: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(Refusal) as refused:
        action(**given)
    return refused.value.code


def told(*words: str) -> str:
    result = CliRunner().invoke(app, ["survey", *words], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def meanwhile(world: World, at: WaveStep, end: WaveEnd) -> Callable[[WaveStep], None]:
    """An observer that ends the wave as a run is about to do `at`."""

    def observe(step: WaveStep) -> None:
        if step is at and world.record().state is not WaveState(end.value):
            ended(world, end)

    return observe


def test_a_wave_without_reports_is_abandoned_from_the_command_line(world: World) -> None:
    world.open()
    with pytest.raises(LedgerRefused) as refused:
        world.close()
    assert f"dp-spark survey abandon SPEC --wave {WAVE}" in str(refused.value)
    Path("survey.yaml").write_text(UNGROUPED.replace("epsilon: 1", "epsilon: 2"))  # by its name alone
    for _ in range(2):
        said = told("abandon", "survey.yaml", "--wave", WAVE, "--reason", WHO)
        assert "abandoned" in said
        assert "published  nothing" in said
    assert f"{WAVE:<20} abandoned  epsilon 1, 0 reports\n" in told("show")
    for step in (world.open, world.randomize, world.close, world.estimate):
        assert code_of(step) == "wave_abandoned"
    assert not any(world.wrapped_key())
    assert world.open("2024q2").record.opened_now
    assert world.account.spent == 2


@pytest.mark.parametrize("at", [WaveStep.VERIFY, WaveStep.RANDOMIZE, WaveStep.COMMIT])
def test_abandoned_while_a_run_adds_reports_it_keeps_none(world: World, at: WaveStep) -> None:
    world.open()
    world.randomize()
    assert code_of(world.randomize, observe=meanwhile(world, at, WaveEnd.ABANDON)) == "wave_abandoned"
    assert world.files("*") == []
    assert world.record().state is WaveState.ABANDONED


@pytest.mark.parametrize("at", [WaveStep.COUNT, WaveStep.CLOSE])
def test_abandoned_while_it_is_closed_no_counts_stay(world: World, at: WaveStep) -> None:
    world.open()
    world.randomize()
    assert code_of(world.close, observe=meanwhile(world, at, WaveEnd.ABANDON)) == "wave_abandoned"
    assert world.files("*") == []
    assert world.record().counts is None


def test_closed_first_a_wave_is_not_abandoned_and_keeps_its_counts(world: World) -> None:
    world.open()
    world.randomize()
    world.close()
    assert code_of(lambda: ended(world, WaveEnd.ABANDON)) == "illegal_step"
    assert len(world.files("counts-*")) == 1


@pytest.mark.parametrize("at", [WaveStep.DECODE, WaveStep.PUBLISH])
def test_burned_while_it_is_estimated_nothing_is_published_or_kept(world: World, at: WaveStep) -> None:
    world.open()
    world.randomize()
    world.close()
    assert code_of(world.estimate, observe=meanwhile(world, at, WaveEnd.BURN)) == "wave_burned"
    assert (world.files("*"), (world.home / "out").exists()) == ([], False)


def test_a_sealed_wave_that_is_burned_stays_where_it_is_published_and_nothing_follows(world: World) -> None:
    world.open()
    world.randomize()
    world.close()
    world.estimate()
    before = world.published("estimates")
    said = told("burn", "survey.yaml", "--wave", WAVE, "--reason", "the restricted zone was copied")
    assert f"{world.home}/out/work: it stays there" in said
    assert "incomplete" not in said
    assert "admits no further wave" in said
    assert "epsilon    infinite" in said
    assert world.published("estimates").equals(before)
    assert world.files("*") == []
    assert code_of(world.estimate, spark=no_spark) == "wave_burned"
    with pytest.raises(BudgetRefused) as refused:
        world.open("2024q2")
    assert (refused.value.code, world.account.spent) == ("survey_burned", 1)
    assert f"stopped, as these waves are burned: {WAVE}" in told("show")
    plan = CliRunner().invoke(app, ["survey", "plan", "survey.yaml"])
    assert (plan.exit_code, "(survey_burned)" in plan.stderr) == (ExitCode.BUDGET, True)
    assert "nothing: the survey has stopped" in plan.stdout
    assert f"{WAVE} leaked" in plan.stdout


def estimated(world: World) -> None:
    world.open()
    world.randomize()
    world.close()
    world.estimate()


def killed_at(world: World, at: WaveStep, *, nth: int = 1) -> None:
    """Estimate, and get no further than the nth time that it is about to do `at`."""
    times: list[WaveStep] = []

    def observe(step: WaveStep) -> None:
        if step is at:
            times.append(step)
            if len(times) == nth:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.estimate(observe=observe)


def test_burned_between_its_tables_the_second_is_not_published_and_the_first_is_told(world: World) -> None:
    world.open()
    world.randomize()
    world.close()
    seen: list[WaveStep] = []
    found: list[Ended] = []

    def observe(step: WaveStep) -> None:
        seen.append(step)
        if seen.count(WaveStep.PUBLISH) == 2 and not found:
            found.append(ended(world, WaveEnd.BURN))

    assert code_of(world.estimate, observe=observe) == "wave_burned"
    assert sorted(path.name for path in (world.home / "out" / "work").iterdir()) == ["reports"]
    assert found[0].copies.found == (f"{world.home}/out/work/reports",)
    assert found[0].copies.empty == (f"{world.home}/out/work/estimates",)


def test_a_burn_tells_of_copies_that_no_record_tells_of(world: World) -> None:
    world.open()
    world.randomize()
    world.close()
    killed_at(world, WaveStep.PUBLISH, nth=2)
    assert world.record().publications == {}
    burn = ["burn", "survey.yaml", "--wave", WAVE, "--reason", WHO]
    said = told(*burn)
    assert f"{world.home}/out/work/reports: it stays there" in said
    assert "a copy that was under way may be finished" in said
    assert json.loads(told(*burn, "--json"))["published"] == [f"{world.home}/out/work/reports"]


def test_a_sink_that_cannot_be_looked_at_is_not_known(world: World) -> None:
    sql = "{sink: sql, connection: nowhere, table: work}"
    spec = UNGROUPED.replace("path: out/work}", f"path: out/work}}, {sql}")
    world.profile = replace(
        world.profile, connections={"nowhere": Connection(url="postgresql+psycopg://n@127.0.0.1:9/n")}
    )
    world.spec = parse_survey(spec)
    world.open()
    world.randomize()
    world.close()
    killed_at(world, WaveStep.PUBLISH)
    copies = ended(world, WaveEnd.BURN).copies
    assert copies.unknown == ("sql:nowhere/work_reports", "sql:nowhere/work_estimates")
    assert (copies.recorded, copies.found, len(copies.empty)) == ((), (), 2)


def test_nothing_says_sealed_of_a_wave_that_was_burned_before_its_seal(world: World) -> None:
    """Whether the run meets the burn, or was killed with the statement written."""
    world.open()
    world.randomize()
    world.close()
    statements = world.profile.statements / POPULATION / SURVEY / "waves"
    killed_at(world, WaveStep.SEAL)
    (statements / f"{WAVE}.html").write_text("of a run that was killed before the seal")
    assert code_of(world.estimate, observe=meanwhile(world, WaveStep.SEAL, WaveEnd.BURN)) == "wave_burned"
    assert [path.name for path in statements.iterdir()] == [f"{WAVE}.checks.json"]  # what its gates found


def test_the_statement_of_a_burned_wave_is_named_and_marked(world: World) -> None:
    estimated(world)
    page = Path(world.record().statement.path)
    before = page.read_bytes()
    asked = CliRunner().invoke(app, ["statement", str(world.record().wave_id)])
    assert (asked.exit_code, f"its statement is {page}" in asked.stderr) == (ExitCode.SPEC, True)
    said = told("burn", "survey.yaml", "--wave", WAVE, "--reason", WHO)
    assert f"statement no longer true {page}" in said
    mark = page.with_name(f"{WAVE}.burned.txt")
    assert mark.read_text().startswith(f"BURNED: the key or the reports of wave {world.record().wave_id}")
    assert "is no longer true" in mark.read_text()
    assert page.read_bytes() == before


def test_what_cannot_be_deleted_is_refused_when_all_else_is_deleted(world: World) -> None:
    world.open()
    world.randomize()
    (zone := world.zone).joinpath("batch-0-text").symlink_to(world.home)
    (zone / ".counts-00.parquet.11").write_text("a draft of a run that was killed")
    with pytest.raises(SetupRefused, match="1 of its files or directories are left") as refused:
        ended(world, WaveEnd.ABANDON)
    assert refused.value.code == "wave_not_deleted"
    assert world.files("*") + world.files(".*") == ["batch-0-text"]
    (zone / "batch-0-text").unlink()
    ended(world, WaveEnd.ABANDON)
    assert world.files("*") == []


def test_from_another_directory_the_rest_goes_where_the_first_tables_went(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that a sink has is abandoned."""
    world.spec = parse_survey(
        UNGROUPED.replace("path: out/work}", "path: out/work}, {sink: parquet, path: out/too}")
    )
    world.open()
    world.randomize()
    world.close()
    killed_at(world, WaveStep.PUBLISH, nth=3)
    assert dict(world.record().publications) == {"parquet:out/work": f"{world.home}/out/work"}
    (world.home / "elsewhere").mkdir()
    monkeypatch.chdir(world.home / "elsewhere")
    world.estimate()
    assert sorted(path.name for path in Path().rglob("out/*")) == ["too"]
    assert set(world.record().publications.values()) == {
        f"{world.home}/out/work",
        f"{world.home}/elsewhere/out/too",
    }
