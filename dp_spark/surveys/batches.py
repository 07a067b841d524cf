"""The batches of an open wave: who has no report yet gets one, and what was lost is deleted."""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from dp_spark.errors import InputRefused, LedgerRefused, Refusal, SetupRefused
from dp_spark.frames.rows import SparkSource
from dp_spark.frames.stored_reports import write_reports
from dp_spark.frames.survey_input import unit_kinds
from dp_spark.publish import count_reports, delete_batch, seal_batch, verify_batch
from dp_spark.publish.durable import make_directories
from dp_spark.release.ledger import Batch, BatchClaim, WaveRecord, WaveState
from dp_spark.release.profile import Profile
from dp_spark.release.spec import SurveySpec
from dp_spark.surveys.run import Added, WaveObserver, WaveRun, WaveStep, opened_input, taken_up

_RACES = 5  # lost to other runs in a row, until a run gives up
BATCH = "batch-"  # of names in the restricted zone: a fence follows


def randomize_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None = None,
    observe: WaveObserver = lambda step: None,
) -> Added:
    """Give a report to everybody of the input who has none yet in this wave.

    Raises:
        Refusal: with a code and a way out. Nothing depends on an answer, and running again goes on.
    """
    run = taken_up(spec, wave, profile, spark, frame, observe)
    run.rows.require()
    opened_input(run)  # refused before the ledger is asked for anything
    for _ in range(_RACES):
        claim = run.ledger.begin_batch(run.wave_id)
        rows = opened_input(run)
        kinds = "-".join(unit_kinds(rows, run.plan.spec))
        home = run.home / f"{BATCH}{claim.fence}-{kinds}"
        try:
            _require_same_kinds(run, kinds)  # after the claim, as all that batches decide
            added = _add_batch(run, claim, rows, home)
        except Refusal:
            if not _is_overtaken(run.record(), claim):
                raise
            added = None
        record = run.record()
        tidy(run.home, record, lost=None if added else home)
        if added is not None:
            return Added(record, added)
    raise LedgerRefused(
        "batches_race",
        f"{_RACES} times in a row another run added reports to {run.wave_id} first",
        way_out="run one randomization of a wave at a time; run it again, nothing was lost",
    )


def _require_same_kinds(run: WaveRun, kinds: str) -> None:
    """Refuse an input whose unit is of another type than before: a number and its text are two people."""
    before = {Path(batch.path).name.split("-", 2)[2] for batch in run.record().batches}
    if before - {kinds}:
        raise InputRefused(
            "unit_type_changed",
            f"unit.column {', '.join(run.plan.spec.unit.columns)} is of type {kinds}, and was "
            f"{' or '.join(sorted(before))} when wave {run.wave_id} was given its first reports: whoever has "
            "one would get another",
            way_out="cast it in the view that writes the input, as it was; nobody was given a report",
        )


def _add_batch(run: WaveRun, claim: BatchClaim, rows: DataFrame, home: Path) -> int | None:
    """How many reports this attempt added; None where another one has its number."""
    batches = verified(run, run.record())
    make_directories(home.parent, 0o700)
    delete_batch(home)  # a ledger that was restored gives fences out again
    run.observe(WaveStep.RANDOMIZE)
    key = run.ledger.wave_key(run.wave_id)
    write = partial(write_reports, rows, plan=run.plan, wave_key=key, batches=batches, path=home)
    run.rows.on_spark(write)
    run.observe(WaveStep.COMMIT)
    digest, reports = seal_batch(home, run.ledger.report_key(run.wave_id)), count_reports(home)
    if not reports:
        return 0
    batch = Batch(claim.number, str(home), digest, reports)
    return reports if run.ledger.commit_batch(claim, batch) else None


def _is_overtaken(record: WaveRecord, claim: BatchClaim) -> bool:
    """Whether this attempt could not count any more, so that whatever befell it does not matter.

    The winner deletes what the losers have written, also while they are at it.
    """
    return record.state is not WaveState.OPEN or len(record.batches) >= claim.number


def verified(run: WaveRun, record: WaveRecord) -> list[str]:
    """The directories of all batches, each as it was when it was committed."""
    run.observe(WaveStep.VERIFY)
    key = run.ledger.report_key(run.wave_id)
    for batch in record.batches:
        verify_batch(batch.path, batch.digest, key)
    return [batch.path for batch in record.batches]


def tidy(zone: Path, record: WaveRecord, *, lost: Path | None = None) -> None:
    """Delete from a wave's `zone`, unread, what can be no batch any more; all unless it is open.

    While the wave is open that is `lost`, if it is no batch, and what attempts have left that began before
    the newest batch did: their numbers are taken. A later attempt may be alive, and win.
    """
    is_open = record.state is WaveState.OPEN
    if not is_open:  # wherever the restricted zone was when they were written
        for batch in record.batches:
            delete_batch(batch.path)
    batches = {Path(batch.path).name for batch in record.batches} if is_open else set[str]()
    newest = max(map(_fence, batches), default=0)
    for found in zone.glob(f"{BATCH}*"):
        if found.name in batches:
            continue
        if not is_open or found == lost:
            delete_batch(found)
        elif _fence(found.name) < newest:
            with suppress(SetupRefused):  # its writer may be alive, and adds files; the close deletes it
                delete_batch(found)


def _fence(name: str) -> int:
    """The fence of an attempt's directory; what somebody else put beside them is as a later attempt's."""
    fence = name.removeprefix(BATCH).partition("-")[0]
    return int(fence) if fence.isdecimal() else sys.maxsize
