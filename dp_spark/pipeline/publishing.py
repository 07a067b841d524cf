"""From the checked artefact to its readers: copies, the statement, the seal."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa

from dp_spark.errors import PublishRefused, Refusal, SetupRefused
from dp_spark.pipeline.gating import record_decision
from dp_spark.pipeline.run import Run, Step
from dp_spark.publish import (
    Part,
    contract_path,
    delete_artefact,
    edition_of,
    open_sink,
    release_contract,
    restored,
    write_contract,
)
from dp_spark.release.ledger import (
    ReleaseRecord,
    ReleaseState,
    StoredFile,
    utc_now,
    warning_of,
)
from dp_spark.release.missing import expiring_periods
from dp_spark.release.places import release_record
from dp_spark.release.spec import SinkSpec
from dp_spark.report import (
    RunResult,
    file_digest,
    read_warnings,
    release_facts,
    sealed_release,
    write_statement,
)


def publish(run: Run, table: pa.Table, artefact: StoredFile) -> None:
    """Copy the artefact to every sink; one that is down delays its own copy only."""
    refused: list[Refusal] = []
    for sink in run.plan.spec.publish:
        run.observe(Step.PUBLISH)
        try:
            target = _placed(run, table, artefact.digest, sink)
        except (PublishRefused, SetupRefused) as refusal:
            refused.append(refusal)
        else:
            run.observe(Step.RECORD)
            run.ledger.record_publication(run.claim, sink.name, target, artefact.digest)
    if refused:
        raise _delayed(refused[0], run)
    run.ledger.publish(run.claim, [sink.name for sink in run.plan.spec.publish])


def _delayed(first: Refusal, run: Run) -> Refusal:
    """The first refusal, which also says where the copies are and which are still to come."""
    record = release_record(run.ledger, run.claim.release_id)
    copied = [copy.sink for copy in record.publications]
    waiting = [sink.name for sink in run.plan.spec.publish if sink.name not in copied]
    told = f"{first.message}; copied to: {', '.join(copied) or 'no sink yet'}; waiting: {', '.join(waiting)}"
    return type(first)(first.code, told, way_out=first.way_out)


def _placed(run: Run, table: pa.Table, digest: str, sink: SinkSpec) -> str:
    """Where a sink has its copy; the contract is beside it."""
    edition = edition_of(run.plan, table, sink, window=run.window, claim=run.claim, digest=digest)
    target = open_sink(sink, run.reach).publish(edition)
    owner = (run.plan.spec.budget.population, run.plan.spec.release)
    path = contract_path(sink, run.profile.statements, owner)
    if not path.exists() or not _has_later(run):
        write_contract(release_contract(run.plan, sink, edition.table.schema), path)
    return target


def _has_later(run: Run) -> bool:
    """Whether a later period of the release is published: the contract beside the table is that one's."""
    own = run.claim.release_id
    return any(
        other.release_id.name == own.name
        and other.release_id.period_key > own.period_key
        and other.state in (ReleaseState.PUBLISHED, ReleaseState.SEALED)
        for other in run.ledger.releases(own.population)
    )


def seal(run: Run) -> None:
    """Write the statement, and close the release."""
    run.observe(Step.STATE)
    if run.claim.cleared:
        record_decision(run)
    page = _write_statement(run, release_record(run.ledger, run.claim.release_id), utc_now())
    run.observe(Step.SEAL)
    run.ledger.seal(run.claim, statement_path=str(page), statement_digest=file_digest(page))


def _write_statement(run: Run, record: ReleaseRecord, sealed_at: datetime) -> Path:
    budget = run.ledger.budget(record.release_id.population)
    sealed = sealed_release(record, sealed_at)
    facts = release_facts(run.plan, budget=budget, sealed=sealed, receipt=record.took)
    return write_statement(facts, run.profile.statements).html


def restore(run: Run, table: pa.Table) -> None:
    """Put back a copy or a statement of a sealed release that somebody has removed since."""
    record = release_record(run.ledger, run.claim.release_id)
    assert record.artefact is not None
    sinks = {sink.name: sink for sink in run.plan.spec.publish}
    for copy in record.publications:
        _placed(run, table, record.artefact.digest, restored(sinks[copy.sink], copy.target))
    _restore_statement(run, record)


def require_copies(run: Run, artefact: StoredFile) -> None:
    """Check that every copy of a sealed release stands, whose artefact is not kept any more.

    Raises:
        PublishRefused: one does not, or its sink cannot be reached; there is nothing to restore it from.
    """
    record = release_record(run.ledger, run.claim.release_id)
    sinks = {sink.name: sink for sink in run.plan.spec.publish}
    part = Part.of_period(run.window.start)
    lost = [
        copy.target
        for copy in record.publications
        if not open_sink(restored(sinks[copy.sink], copy.target), run.reach).holds(
            part, run.release_id, artefact.digest
        )
    ]
    if lost:
        raise PublishRefused(
            "artefact_expired",
            f"release {run.release_id} is sealed, its staged artefact {artefact.path} is not kept any more, "
            f"and its copy is gone from {', '.join(lost)}",
            way_out="restore the copy or the artefact from a backup; a revision costs a new charge",
        )
    _restore_statement(run, record)


def _restore_statement(run: Run, record: ReleaseRecord) -> None:
    assert record.statement is not None
    if not Path(record.statement.path).exists():
        _write_statement(run, record, record.events[-1].at)


def keep_only(artefact: Path) -> None:
    """Delete, unread, what attempts that lost or died have left beside the artefact of a sealed release."""
    for other in artefact.parent.iterdir():
        if other != artefact:
            delete_artefact(other)


def result_of(run: Run, table: pa.Table | None) -> RunResult:
    """What the run tells whoever asked for it; the table is None where its artefact is not kept any more."""
    record, head = release_record(run.ledger, run.claim.release_id), run.ledger.head()
    assert record.artefact is not None
    assert record.statement is not None
    return RunResult(
        release=record.release_id,
        charged=record.charge if run.claim.charged_now else None,
        schedule=record.took.schedule,
        digest=record.artefact.digest,
        published=tuple(copy.target for copy in record.publications),
        statement=Path(record.statement.path),
        table=table,
        warning=warning_of(run.ledger.budget(record.release_id.population)),
        head=None if head is None else str(head),
        source_version=record.source_version,
        expiring=tuple(expiring_periods(run.ledger, run.plan.spec)),
        findings=read_warnings(run.release_id, run.profile.statements),
    )
