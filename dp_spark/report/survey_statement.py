"""Statements of waves on disk: the facts as JSON and as a page."""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path

from dp_spark import __version__
from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger.waves import SurveyAccount, WaveId, WaveRecord
from dp_spark.release.survey import SurveyPlan
from dp_spark.report.statement import StatementPaths, write_both
from dp_spark.report.survey_facts import sealed_wave, survey_facts
from dp_spark.report.survey_page import survey_html


def survey_statement_paths(wave_id: WaveId, directory: Path) -> StatementPaths:
    """The files of a wave's statement: directory/population/survey/waves/WAVE.json and .html.

    A release of the survey's name has its files one directory up.
    """
    folder = directory / wave_id.population / wave_id.survey / "waves"
    return StatementPaths(folder / f"{wave_id.wave}.json", folder / f"{wave_id.wave}.html")


def write_survey_statement(
    plan: SurveyPlan,
    record: WaveRecord,
    account: SurveyAccount | None,
    *,
    reports: Mapping[tuple[str, ...], int],
    small: Collection[tuple[str, ...]],
    sealed_at: datetime,
    directory: Path,
) -> StatementPaths:
    """Write the statement of a published wave; the same facts give the same bytes, however often.

    Args:
        plan: of the wave.
        record: with counts and estimates.
        account: which the wave was charged to.
        reports: how many people of each group have one; groups that are not there have none.
        small: the groups whose reports are too few to tell much.
        sealed_at: when nothing can follow any more.
        directory: of all statements.

    Raises:
        LedgerRefused: the wave is not closed and estimated.
        SetupRefused: the directory cannot be written.
    """
    if record.counts is None or record.estimates is None or record.closed_at is None:
        raise LedgerRefused(
            "statement_without_wave",
            f"wave {record.wave_id} is {record.state}: it has no counts and estimates to state",
            way_out="close it and estimate it first",
        )
    sealed = sealed_wave(plan, record, reports, frozenset(small), sealed_at=sealed_at, version=__version__)
    facts = survey_facts(plan, account, sealed=sealed)
    paths = survey_statement_paths(record.wave_id, directory)
    write_both(paths, survey_html(facts), facts.as_json())
    return paths
