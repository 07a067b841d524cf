"""The close of a wave: its reports are counted, its key and what tells whose report is whose deleted."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.errors import LedgerRefused, PublishRefused
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.rows import SparkSource
from dp_spark.frames.stored_reports import stored_reports
from dp_spark.frames.survey import people_of, report_counts
from dp_spark.publish import artefact_digest, delete_artefact, write_artefact
from dp_spark.publish.survey_tables import counts_table
from dp_spark.release.ledger import StoredFile, WaveRecord
from dp_spark.release.profile import Profile
from dp_spark.release.spec import SurveySpec
from dp_spark.release.spec.survey_columns import GROUP_COLUMN, REPORT_COLUMN
from dp_spark.surveys.batches import tidy, verified
from dp_spark.surveys.run import COUNTS, WaveObserver, WaveRun, WaveStep, taken_up
from dp_spark.uldp.block_mechanism import BlockMechanism


def close_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    spark: SparkSource,
    observe: WaveObserver = lambda step: None,
) -> WaveRecord:
    """Count the reports of a wave, destroy its key, and delete what tells whose report is whose.

    Raises:
        Refusal: with a code and a way out; running again goes on.
    """
    run = taken_up(spec, wave, profile, spark, None, observe)
    with run.unless_ended():
        if run.record().counts is None:
            _close(run)
        return tidied(run)


def _close(run: WaveRun) -> None:
    """Count the reports of all batches, and close the wave with what was counted, if no other run has."""
    record = run.record()
    _require_reports(record)
    batches = verified(run, record)
    run.observe(WaveStep.COUNT)
    table = run.rows.on_spark(lambda: _counted(run, batches))
    path = run.home / f"{COUNTS}-{os.urandom(8).hex()}.parquet"
    write_artefact(table, path)
    run.observe(WaveStep.CLOSE)
    counts = StoredFile(str(path), artefact_digest(table))
    try:
        run.ledger.close_wave(run.wave_id, len(record.batches), counts)
    except LedgerRefused:
        delete_artefact(path)  # nobody's: the wave was ended, or has other batches by now
        raise


def _require_reports(record: WaveRecord) -> None:
    if not record.reports:
        raise LedgerRefused(
            "wave_empty",
            f"wave {record.wave_id} has no report: closed now, nobody could be asked any more",
            way_out="randomize the answers first; or give the wave up, which deletes its key: "
            f"dp-spark survey abandon SPEC --wave {record.wave_id.wave} --reason WHY; its charge stands",
        )


def tidied(run: WaveRun) -> WaveRecord:
    """The closed wave, when nothing is left of it but its counts."""
    record = run.record()
    assert record.counts is not None
    tidy(run.home, record)
    keep_staged(run.home, COUNTS, record.counts)
    return record


def keep_staged(zone: Path, kind: str, standing: StoredFile | None) -> None:
    """Delete the tables of a kind but the one that stands: of runs that lost or died."""
    for found in zone.glob(f"{kind}-*.parquet"):
        if standing is None or found.name != Path(standing.path).name:
            delete_artefact(found)


def _counted(run: WaveRun, batches: list[str]) -> pa.Table:
    session = run.rows.session()
    stored = stored_reports(session, batches, run.plan)
    _require_one_each(run, to_arrow(people_of(stored)))
    counted = to_arrow(report_counts(stored))
    _require_own_reports(run, counted)
    return counts_table(run.plan, run.wave_id.wave, counted)


def _require_own_reports(run: WaveRun, counted: pa.Table) -> None:
    """Refuse to count what the wave's mechanism never sends, in no group of it, or NULL.

    Raises:
        PublishRefused: there is some; nothing is counted, and the key stays.
    """
    assert isinstance(run.plan.mechanism, BlockMechanism)  # a survey's reports are numbers
    sizes = {
        REPORT_COLUMN: run.plan.mechanism.sampler.reports.size,
        GROUP_COLUMN: len(run.plan.groups) if run.plan.spec.group_columns else 1,
    }
    for column, size in sizes.items():
        values = counted[column]
        if values.null_count or not _lie_below(values.to_numpy(), size):
            raise PublishRefused(
                "reports_unknown",
                f"the batches of {run.wave_id} hold numbers in {column!r} that its plan does not have: there "
                f"are {size:,}, from 0 on",
                way_out="restore the restricted zone of the wave, or the ledger, from a backup; nothing was "
                "counted",
            )


def _lie_below(numbers: NDArray[np.integer[Any]], size: int) -> bool:
    return bool(((numbers >= 0) & (numbers < size)).all())


def _require_one_each(run: WaveRun, people: pa.Table) -> None:
    """Refuse to count reports that are not those which the ledger knows, one of each person.

    Raises:
        PublishRefused: they are others; nothing is counted, and the key stays.
    """
    (told,) = people.to_pylist()
    if not told["people"] == told["reports"] == run.record().reports:
        raise PublishRefused(
            "reports_not_one_each",
            f"the batches of {run.wave_id} hold {told['reports']:,} reports of {told['people']:,} people, "
            f"and the ledger knows of {run.record().reports:,}",
            way_out="restore the restricted zone of the wave, or the ledger, from a backup; nothing was "
            "counted",
        )
