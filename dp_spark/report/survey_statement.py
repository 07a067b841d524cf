"""Statements of waves on disk: the facts as JSON and as a page."""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path

from dp_spark import __version__
from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.release.ledger.waves import SurveyAccount, WaveId, WaveRecord
from dp_spark.release.survey import SurveyPlan
from dp_spark.report.statement import StatementPaths, put_file, write_both
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


def remove_survey_statement(wave_id: WaveId, directory: Path) -> None:
    """Remove the statement of a wave that is not sealed and never will be, if there is one.

    Raises:
        SetupRefused: it cannot be removed.
    """
    paths = survey_statement_paths(wave_id, directory)
    try:
        for path in (paths.json, paths.html):
            path.unlink(missing_ok=True)
    except OSError as failure:
        raise SetupRefused(
            "statement_not_removed",
            f"the statement {paths.html} of a wave that is not sealed cannot be removed ({failure.strerror})",
            way_out="give this user write access to its directory, then run the same command again",
        ) from None


def mark_burned(wave_id: WaveId, page: Path) -> Path:
    """Say beside the statement of a burned wave that it is no longer true; the file that says so.

    The statement keeps its bytes, which the ledger knows by their digest. A second time changes nothing.

    Raises:
        SetupRefused: the directory cannot be written.
    """
    mark = page.with_suffix(".burned.txt")
    text = (
        f"BURNED: the key or the reports of wave {wave_id} have leaked.\n"
        f"What {page.name} beside this file promises is no longer true: its epsilon counts as infinite, and "
        f"the survey {wave_id.population}/{wave_id.survey} has stopped.\n"
        f"`dp-spark ledger history {wave_id.population}` has who decided it, when and why.\n"
    )
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        put_file(mark, text)
    except OSError as failure:
        raise SetupRefused(
            "statement_unmarked",
            f"the wave is burned, and {mark}, which says that its statement is no longer true, cannot be "
            f"written ({failure.strerror})",
            way_out="the decision stands: give this user write access there and run the same command again",
        ) from None
    return mark
