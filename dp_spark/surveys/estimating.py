"""Estimates of a closed wave: shares are decoded, checked, published and sealed."""

import os
from pathlib import Path

import pyarrow as pa

from dp_spark.errors import LedgerRefused
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.rows import SparkSource
from dp_spark.frames.stored_reports import counted_reports
from dp_spark.frames.survey_estimates import decoded
from dp_spark.publish import artefact_digest, delete_artefact, read_artefact, write_artefact
from dp_spark.publish.survey_tables import GroupEstimate, estimates_table, group_estimate, group_estimates
from dp_spark.release.ledger import StoredFile, WaveRecord, WaveState
from dp_spark.release.profile import Profile
from dp_spark.release.spec import SurveySpec
from dp_spark.release.spec.groups import TOTAL_LABEL
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, REPORT_COLUMN
from dp_spark.surveys.closing import keep_staged, tidied
from dp_spark.surveys.publishing import check_tables, publish_tables, seal_survey
from dp_spark.surveys.run import ESTIMATES, Estimated, WaveObserver, WaveRun, WaveStep, taken_up
from dp_spark.uldp import ReportCounts
from dp_spark.uldp.pooling import weighted


def estimate_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    spark: SparkSource,
    observe: WaveObserver = lambda step: None,
) -> Estimated:
    """Estimate shares from the counts of a closed wave, check, publish both tables and seal.

    Raises:
        ReleaseHeld: a gate failed; nothing was published.
        Refusal: with a code and a way out; running again goes on.
    """
    run = taken_up(spec, wave, profile, spark, None, observe)
    with run.unless_ended():
        return _estimated(run)


def _estimated(run: WaveRun) -> Estimated:
    record = run.record()
    if record.counts is None:
        raise LedgerRefused(
            "wave_open",
            f"wave {run.wave_id} is open: its reports are not counted yet",
            way_out=f"dp-spark survey close SPEC --wave {run.wave_id.wave}; nobody can be added to it then",
        )
    if record.state is WaveState.SEALED and not _is_kept(record):
        assert record.statement is not None
        return Estimated(record, None, Path(record.statement.path))
    counts = read_artefact(Path(record.counts.path), record.counts.digest)
    tidied(run)
    staged = record.estimates or _stage_estimates(run, counts, record.counts)
    keep_staged(run.home, ESTIMATES, staged)
    table = read_artefact(Path(staged.path), staged.digest)
    if record.state in (WaveState.CLOSED, WaveState.HELD):
        if not record.cleared:
            check_tables(run, counts, table)
        publish_tables(run, counts, table)
    if run.record().state is not WaveState.SEALED:
        seal_survey(run, table)
    sealed = run.record()
    assert sealed.statement is not None
    return Estimated(sealed, table, Path(sealed.statement.path))


def _is_kept(record: WaveRecord) -> bool:
    """Whether the staged tables of a sealed wave are still in the restricted zone."""
    return all(each is None or Path(each.path).exists() for each in (record.counts, record.estimates))


def _stage_estimates(run: WaveRun, counts: pa.Table, counted: StoredFile) -> StoredFile:
    run.observe(WaveStep.DECODE)
    found = _decoded(run, counts, counted)
    table = estimates_table(run.plan, str(run.wave_id), found)
    path = run.home / f"{ESTIMATES}-{os.urandom(8).hex()}.parquet"
    write_artefact(table, path)
    try:
        return run.ledger.stage_estimates(run.wave_id, StoredFile(str(path), artefact_digest(table)))
    except LedgerRefused:
        delete_artefact(path)  # the wave was ended
        raise


def _decoded(run: WaveRun, counts: pa.Table, counted: StoredFile) -> list[GroupEstimate]:
    """An estimate of each group that has reports, in the order of the groups, and of everybody."""
    plan = run.plan
    asked = plan.spec.estimate
    everybody = ReportCounts(counts[REPORT_COLUMN].to_numpy(), counts[COUNT_COLUMN].to_numpy())
    total = plan.mechanism.estimate(everybody, method=asked.method, consistency=asked.consistency)
    if not plan.spec.group_columns:
        return [group_estimate(plan, (), total)]

    def on_workers() -> pa.Table:
        stored = counted_reports(run.rows.session(), counted.path, plan)
        return to_arrow(decoded(stored, plan=plan))

    groups = group_estimates(plan, run.rows.on_spark(on_workers))
    if plan.weights is not None:
        of_group = dict(zip(plan.groups, map(float, plan.weights), strict=True))
        total = weighted([group.estimate for group in groups], [of_group[group.key] for group in groups])
    return [*groups, group_estimate(plan, (TOTAL_LABEL,) * len(plan.spec.group_columns), total)]
