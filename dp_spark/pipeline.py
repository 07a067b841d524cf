"""The life of a release, from spec to seal: the only module that calls every room.

A run can be killed anywhere and started again: the ledger knows the state, and each step either changes
nothing the second time or is decided by the ledger's compare-and-set.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from dp_spark.checks import check_artefact
from dp_spark.errors import InputRefused, PublishRefused, ReleaseHeld
from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.bound import Integers
from dp_spark.frames.privatize import collect_totals, estimates, noisy_totals
from dp_spark.frames.session import pinned
from dp_spark.frames.sources import check_columns, open_source
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.publish import (
    artefact_digest,
    local_root,
    publish_parquet,
    read_artefact,
    released_table,
    require_free,
    write_artefact,
)
from dp_spark.release.ledger import (
    Claim,
    Ledger,
    ReleaseId,
    ReleaseRecord,
    ReleaseState,
    StoredFile,
    require_admitted,
    require_same_protection,
    utc_now,
)
from dp_spark.release.period import PeriodWindow, period_window
from dp_spark.release.places import open_ledger, release_record
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec, SinkSpec
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes
from dp_spark.report import file_digest, release_facts, sealed_release, write_statement

Observer: TypeAlias = "Callable[[Step], None]"
SparkSource: TypeAlias = Callable[[], SparkSession]
T = TypeVar("T")


class Step(StrEnum):
    """What a run is about to do, in the words that progress shows: the part, and what of it."""

    PLAN = "plan: calibrate the noise"
    START = "start: Spark, and the columns of the input"
    RESERVE = "reserve: charge the ledger"
    RESUME = "resume: take up the plan that was charged for"
    READ = "privatize: read and bound rows on Spark"
    DRAW = "privatize: draw the noise"
    STAGE = "stage: write the artefact"
    COMMIT = "stage: record the artefact"
    CHECK = "check: run the gates"
    PUBLISH = "publish: copy to a sink"
    RECORD = "publish: record the copy"
    STATE = "seal: write the statement"
    SEAL = "seal: close the release"

    @property
    def part(self) -> str:
        """The part of the run that the step belongs to."""
        return self.partition(":")[0]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did.

    Attributes:
        release: the release's id.
        charged: what this run charged; None where an earlier run had paid.
        digest: SHA-256 of the released rows.
        published: where the copies are.
        statement: the page that says what was promised.
        table: the released rows.
    """

    release: ReleaseId
    charged: PrivacyGuarantee | None
    digest: str
    published: tuple[str, ...]
    statement: Path
    table: pa.Table


def run_release(
    spec: ReleaseSpec,
    key: str,
    *,
    profile: Profile,
    spark: SparkSource,
    observe: Observer = lambda step: None,
) -> RunResult:
    """Privatize, check, publish and seal the release of one period, or whatever of it is still to be done.

    Args:
        spec: what to release.
        key: first day of the period, YYYY-MM-DD.
        profile: where ledger, restricted zone and statements are.
        spark: gives the session; called only if rows must be read.
        observe: told each step before it begins.

    Raises:
        Refusal: with a code and a way out. A failure never depends on a row, and running again goes on
            where this run stopped, at no further charge.
    """
    window = period_window(spec.period, key)
    ledger = open_ledger(profile)
    release = ReleaseId(spec.budget.population, spec.release, key)
    claim = _reserved(ledger, release, spec, window, spark, observe)
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    run = _Run(ledger, claim, plan, window, profile, spark, observe)
    artefact = claim.artefact or _stage(run)
    table = read_artefact(Path(artefact.path), artefact.digest)
    if claim.state is ReleaseState.SEALED:
        _restore(run, table)
    else:
        if claim.state is not ReleaseState.PUBLISHED:
            _check(run, table, artefact)
            _publish(run, table, artefact)
        _seal(run)
    _keep_only(Path(artefact.path))
    return _result(run, table)


@dataclass(frozen=True, slots=True)
class _Run:
    """One attempt at a release: its claim and stored plan, and what it works with."""

    ledger: Ledger
    claim: Claim
    plan: ReleasePlan
    window: PeriodWindow
    profile: Profile
    spark: SparkSource
    observe: Observer

    @property
    def release_id(self) -> str:
        """The id as text, as the released rows hold it."""
        return str(self.claim.release_id)


def _reserved(
    ledger: Ledger,
    release: ReleaseId,
    spec: ReleaseSpec,
    window: PeriodWindow,
    spark: SparkSource,
    observe: Observer,
) -> Claim:
    """The charge and the plan: a new one, or those of the attempt that this run continues."""
    plan_bytes, tables = b"", dict[str, bytes]()
    known = ledger.find(release) is not None
    if not known:
        observe(Step.PLAN)
        # Cheap refusals first, before Spark starts and anything is charged; `reserve` decides.
        account = ledger.budget(release.population)
        require_same_protection(account, spec.unit.protected, spec.neighbours)
        require_admitted(account, spec.stated_guarantee, str(release))
        _require_sinks(spec, window, release)
        plan = plan_release(spec)
        observe(Step.START)
        _require_input(plan, window, spark())
        plan_bytes = plan_to_bytes(plan)
        tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    observe(Step.RESUME if known else Step.RESERVE)
    return ledger.reserve(
        release,
        spec_digest=spec.digest,
        plan_bytes=plan_bytes,
        tables=tables,
        charge=spec.stated_guarantee,
        unit=spec.unit.protected,
        neighbours=spec.neighbours,
    )


def _require_sinks(spec: ReleaseSpec, window: PeriodWindow, release: ReleaseId) -> None:
    """Refuse a sink that cannot take the period, or that lies within the input, or holds it."""
    source = Path(os.path.realpath(spec.input.path.removeprefix("file:")))
    for sink in spec.publish:
        require_free(sink.path, period_start=window.start, release_id=str(release))
        root = local_root(sink.path)
        if root.is_relative_to(source) or source.is_relative_to(root):
            raise PublishRefused(
                "sink_in_input",
                f"publish path {sink.path!r} and input.path {spec.input.path!r} lie within each other",
                way_out="publish to a directory of its own (a link between the two does not make it one)",
            )


def _require_input(plan: ReleasePlan, window: PeriodWindow, session: SparkSession) -> None:
    """Refuse an input that lacks what the plan reads; the whole query is built, and not run."""
    with pinned(session):
        frame = open_source(session, plan.spec.input)
        check_columns(frame, plan.spec)
        try:
            exact_totals(frame, plan=plan, window=window, bounding_key=bytes(32))
        except Exception as failure:  # noqa: BLE001  # whatever Spark says, it is said before the charge
            raise InputRefused(
                "input_not_usable",
                f"Spark cannot build the release's query over the input ({type(failure).__name__})",
                way_out="look at the types of the columns that the spec names; nothing was charged",
            ) from None


def _stage(run: _Run) -> StoredFile:
    """The one artefact of the release: this attempt's, or that of whoever was first."""
    run.ledger.start_reading(run.claim)
    table = _privatized(run, run.ledger.release_key(run.claim))
    run.observe(Step.STAGE)
    path = _staging(run) / f"attempt-{run.claim.fence}.parquet"
    write_artefact(table, path)
    run.observe(Step.COMMIT)
    outcome = run.ledger.stage(run.claim, artefact_digest=artefact_digest(table), artefact_path=str(path))
    if outcome.discard is not None:
        Path(outcome.discard).unlink(missing_ok=True)
    return outcome.artefact


def _privatized(run: _Run, release_key: bytes) -> pa.Table:
    """The released rows: exact totals from Spark, noise and answers on the driver."""
    session = run.spark()
    run.observe(Step.READ)

    def totals_of_input() -> Integers:
        frame = open_source(session, run.plan.spec.input)
        return collect_totals(frame, plan=run.plan, window=run.window, release_key=release_key)

    totals = _on_spark(totals_of_input, session)
    run.observe(Step.DRAW)
    noisy = noisy_totals(totals, plan=run.plan, window=run.window, release_key=release_key)
    return released_table(
        run.plan,
        estimates(noisy, run.plan),
        period_start=run.window.start,
        release_id=run.release_id,
        revision=run.claim.release_id.revision,
    )


def _on_spark(action: Callable[[], T], session: SparkSession) -> T:
    """The action's result; a failure keeps its class and loses its text, which may hold a row's values."""
    try:
        with pinned(session):
            return action()
    except InputRefused:
        raise
    except Exception as failure:  # noqa: BLE001  # whatever it is, its text stays here
        condition = getattr(failure, "getCondition", lambda: None)()
        raise InputRefused(
            "reading_failed",
            f"Spark failed while it read the input ({condition or type(failure).__name__}); "
            "its message is withheld, for it may quote rows",
            way_out="look at the cluster (memory, lost executors, files replaced while they were read) and "
            "run again: the charge stands and is not taken twice",
        ) from None


def _check(run: _Run, table: pa.Table, artefact: StoredFile) -> None:
    """Run the gates on the staged artefact; one that fails holds the release."""
    run.observe(Step.CHECK)
    failed = check_artefact(table, run.plan, release_id=run.release_id, period_start=run.window.start)
    if failed:
        run.ledger.hold(run.claim, failed)
        raise ReleaseHeld(
            "release_held",
            f"release {run.release_id} is held: its staged artefact fails {'; '.join(failed)}",
            way_out=f"nothing was published and the charge stands; look at {artefact.path}, mend the "
            "cause and run again: the checks are repeated on the same artefact",
        )


def _publish(run: _Run, table: pa.Table, artefact: StoredFile) -> None:
    """Copy the artefact to every sink; one that is down delays its own copy only."""
    refused: list[PublishRefused] = []
    for sink in run.plan.spec.publish:
        run.observe(Step.PUBLISH)
        try:
            target = publish_parquet(
                table,
                sink.path,
                period_start=run.window.start,
                release_id=run.release_id,
                digest=artefact.digest,
            )
        except PublishRefused as refusal:
            refused.append(refusal)
        else:
            run.observe(Step.RECORD)
            run.ledger.record_publication(run.claim, _sink_name(sink), str(target), artefact.digest)
    if refused:
        raise refused[0]
    run.ledger.publish(run.claim, [_sink_name(sink) for sink in run.plan.spec.publish])


def _sink_name(sink: SinkSpec) -> str:
    return f"{sink.sink}:{sink.path}"


def _seal(run: _Run) -> None:
    """Write the statement and close the release."""
    run.observe(Step.STATE)
    page = _write_statement(run, release_record(run.ledger, run.claim.release_id), utc_now())
    run.observe(Step.SEAL)
    run.ledger.seal(run.claim, statement_path=str(page), statement_digest=file_digest(page))


def _write_statement(run: _Run, record: ReleaseRecord, sealed_at: datetime) -> Path:
    budget = run.ledger.budget(record.release_id.population)
    facts = release_facts(run.plan, budget=budget, sealed=sealed_release(record, sealed_at))
    return write_statement(facts, run.profile.statements).html


def _restore(run: _Run, table: pa.Table) -> None:
    """Put back a copy or a statement of a sealed release that somebody has removed since."""
    record = release_record(run.ledger, run.claim.release_id)
    assert record.artefact is not None
    assert record.statement is not None
    for copy in record.publications:
        publish_parquet(
            table,
            Path(copy.target).parents[1],
            period_start=run.window.start,
            release_id=run.release_id,
            digest=record.artefact.digest,
        )
    if not Path(record.statement.path).exists():
        _write_statement(run, record, record.events[-1].at)


def _keep_only(artefact: Path) -> None:
    """Delete, unread, what attempts that lost or died have left beside the artefact of a sealed release."""
    for other in artefact.parent.iterdir():
        if other != artefact:
            other.unlink(missing_ok=True)


def _result(run: _Run, table: pa.Table) -> RunResult:
    record = release_record(run.ledger, run.claim.release_id)
    assert record.artefact is not None
    assert record.statement is not None
    return RunResult(
        release=record.release_id,
        charged=record.charge if run.claim.charged_now else None,
        digest=record.artefact.digest,
        published=tuple(copy.target for copy in record.publications),
        statement=Path(record.statement.path),
        table=table,
    )


def _staging(run: _Run) -> Path:
    release = run.claim.release_id
    place = run.profile.staging / release.population / release.name
    return place / f"{release.period_key}-r{release.revision}"
