"""From rows to the one artefact of a release."""

from pathlib import Path

import pyarrow as pa

from dp_spark.frames.bound import Integers
from dp_spark.frames.collect import collect_totals
from dp_spark.frames.privatize import estimates, noisy_totals
from dp_spark.frames.selection import Selected, select_groups
from dp_spark.pipeline.run import Run, Step, staging_of
from dp_spark.publish import (
    artefact_digest,
    delete_artefact,
    released_table,
    write_artefact,
)
from dp_spark.release.ledger import (
    StoredFile,
)
from dp_spark.release.plan import ReleasePlan


def stage(run: Run) -> StoredFile:
    """The one artefact of the release: this attempt's, or that of whoever was first."""
    run.rows.require()
    run.ledger.start_reading(run.claim)
    table = _privatized(run, run.ledger.release_key(run.claim))
    run.observe(Step.STAGE)
    path = staging_of(run) / f"attempt-{run.claim.fence}.parquet"
    write_artefact(table, path)
    run.observe(Step.COMMIT)
    outcome = run.ledger.stage(run.claim, artefact_digest=artefact_digest(table), artefact_path=str(path))
    if outcome.discard is not None:
        delete_artefact(Path(outcome.discard))
    return outcome.artefact


def _privatized(run: Run, release_key: bytes) -> pa.Table:
    """The released rows: exact totals from Spark, noise and answers on the driver."""
    plan, noisy_units = _with_selected(run, release_key)
    session = run.rows.session()
    run.observe(Step.READ)

    def totals_of_input() -> list[Integers]:
        frame = run.rows.opened(session)
        return collect_totals(frame, plan=plan, window=run.window, release_key=release_key)

    totals = run.rows.on_spark(totals_of_input)
    run.observe(Step.DRAW)
    noisy = noisy_totals(
        totals, plan=plan, window=run.window, release_key=release_key, noisy_units=noisy_units
    )
    return released_table(
        plan,
        estimates(noisy, plan),
        period_start=run.window.start,
        release_id=run.release_id,
        revision=run.claim.release_id.revision,
    )


def _with_selected(run: Run, release_key: bytes) -> tuple[ReleasePlan, Integers | None]:
    """The plan with the groups that it selects, and their noisy numbers of units; a public plan as it is."""
    if run.plan.selection is None:
        return run.plan, None
    session = run.rows.session()
    run.observe(Step.SELECT)

    def groups_of_input() -> Selected:
        frame = run.rows.opened(session)
        return select_groups(frame, plan=run.plan, window=run.window, release_key=release_key)

    selected = run.rows.on_spark(groups_of_input)
    return run.plan.with_selected(selected.keys), selected.noisy_units
