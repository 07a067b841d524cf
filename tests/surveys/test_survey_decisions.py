"""Waves that people end: abandoned or burned, with a run at work meanwhile, and what is left of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from survey_world import POPULATION, SURVEY, UNGROUPED, WAVE, World, no_spark
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import BudgetRefused, ExitCode, LedgerRefused, Refusal
from dp_spark.release.ledger import WaveEnd, WaveId, WaveRecord, WaveState
from dp_spark.release.spec import parse_survey
from dp_spark.surveys import WaveStep, end_survey

WHO = "the board, 1 March"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    made = World(tmp_path, spark)
    made.spec = parse_survey(UNGROUPED)
    (tmp_path / "survey.yaml").write_text(UNGROUPED)
    return made


def ended(world: World, end: WaveEnd) -> WaveRecord:
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
    assert f"{WAVE:<20} abandoned  epsilon 1, 0 reports, deleted" in told("show")
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
    assert "out/work: it stays there" in said
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
