"""The gates between a staged release and its readers, and the evidence that they leave."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from dp_spark.checks import Verdict, check_artefact
from dp_spark.errors import ReleaseHeld, SetupRefused
from dp_spark.pipeline.comparing import History, compared
from dp_spark.pipeline.run import Run, Step
from dp_spark.publish import with_released_groups
from dp_spark.release.ledger import StoredFile
from dp_spark.report import evidence_path, gate_facts, mark_decided, write_evidence


def check(run: Run, table: pa.Table, artefact: StoredFile) -> None:
    """Run the gates on the staged artefact, and write what they found; one that fails holds the release.

    Raises:
        ReleaseHeld: one failed; the ledger knows, whether or not the evidence could be written.
        SetupRefused: the evidence cannot be written; nothing is published without.
    """
    run.observe(Step.CHECK)
    plan = with_released_groups(run.plan, table)
    verdict = check_artefact(table, plan, release_id=run.release_id, period_start=run.window.start)
    history = compared(run, table)
    failed = verdict.failed + (() if history is None else history.blocking)
    if not failed:
        _write(run, verdict, history)
        return
    run.ledger.hold(run.claim, failed)
    try:
        told = f"the evidence is {_write(run, verdict, history)}"
    except SetupRefused as refusal:
        told = refusal.message
    raise ReleaseHeld(
        "release_held",
        f"release {run.release_id} is held: its staged artefact fails {'; '.join(failed)}; {told}",
        way_out=f"nothing was published and the charge stands; `dp-spark release checks {run.release_id}` "
        f"tells what was expected of {artefact.path}; mend the cause (a missing period: run it) and run "
        "again: the checks are repeated on the same artefact; or decide, with `dp-spark release "
        "publish-held` or `dp-spark release abandon`",
    )


def record_decision(run: Run) -> None:
    """Say in the evidence that somebody has decided to publish what was held."""
    mark_decided(_path(run), run.release_id)


def _write(run: Run, verdict: Verdict, history: History | None) -> Path:
    gates = {"artefact": gate_facts(verdict.failed, (each.as_json() for each in verdict.outcomes))}
    facts: dict[str, Any] = {"gates": gates}
    if history is not None:
        gates["history"] = gate_facts(history.blocking, (each.as_json() for each in history.outcomes))
        facts |= history.as_json()
    write_evidence(_path(run), run.release_id, facts)
    return _path(run)


def _path(run: Run) -> Path:
    return evidence_path(run.release_id, run.profile.statements)
