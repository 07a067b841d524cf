"""The life of a release, from spec to seal: the only module that calls every room.

A run can be killed anywhere and started again: the ledger knows the state, and each step either changes
nothing the second time or is decided by the ledger's compare-and-set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dp_spark.checks import check_artefact
from dp_spark.errors import InputRefused, PublishRefused, ReleaseHeld
from dp_spark.frames.privatize import collect_totals, estimates, noisy_totals
from dp_spark.frames.session import pinned
from dp_spark.frames.sources import check_columns, open_source
from dp_spark.guarantee import PrivacyGuarantee, PrivacyUnit
from dp_spark.publish import (
    artefact_digest,
    publish_parquet,
    read_artefact,
    released_table,
    write_artefact,
)
from dp_spark.release.ledger import (
    Claim,
    Ledger,
    ReleaseId,
    ReleaseState,
    StoredFile,
    require_admitted,
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
    claim = _reserved(ledger, ReleaseId(spec.budget.population, spec.release, key), spec, spark, observe)
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    run = _Run(ledger, claim, plan, window, profile, spark, observe)
    artefact = claim.artefact or _stage(run)
    table = read_artefact(Path(artefact.path), artefact.digest)
    if claim.state is not ReleaseState.SEALED:
        if claim.state is not ReleaseState.PUBLISHED:
            _check(run, table, artefact)
            _publish(run, table, artefact)
        _seal(run, artefact)
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
    ledger: Ledger, release: ReleaseId, spec: ReleaseSpec, spark: SparkSource, observe: Observer
) -> Claim:
    """The charge and the plan: a new one, or those of the attempt that this run continues."""
    plan_bytes, tables = b"", dict[str, bytes]()
    known = ledger.find(release) is not None
    if not known:
        observe(Step.PLAN)
        # The cheap refusal first, before Spark starts; `reserve` decides.
        require_admitted(ledger.budget(release.population), spec.guarantee, str(release))
        plan = plan_release(spec)
        check_columns(open_source(spark(), spec.input), spec)
        plan_bytes = plan_to_bytes(plan)
        tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    observe(Step.RESUME if known else Step.RESERVE)
    return ledger.reserve(
        release,
        spec_digest=spec.digest,
        plan_bytes=plan_bytes,
        tables=tables,
        charge=spec.guarantee,
        unit=PrivacyUnit(spec.unit.column),
        neighbours=spec.neighbours,
    )


def _stage(run: _Run) -> StoredFile:
    """The one artefact of the release: this attempt's, or that of whoever was first."""
    frame = open_source(run.spark(), run.plan.spec.input)
    run.ledger.start_reading(run.claim)
    table = _privatized(run, frame, run.ledger.release_key(run.claim))
    run.observe(Step.STAGE)
    path = _staging(run) / f"attempt-{run.claim.fence}.parquet"
    write_artefact(table, path)
    run.observe(Step.COMMIT)
    outcome = run.ledger.stage(run.claim, artefact_digest=artefact_digest(table), artefact_path=str(path))
    if outcome.discard is not None:
        Path(outcome.discard).unlink(missing_ok=True)
    return outcome.artefact


def _privatized(run: _Run, frame: DataFrame, release_key: bytes) -> pa.Table:
    """The released rows: exact totals from Spark, noise and answers on the driver."""
    run.observe(Step.READ)
    totals = _on_spark(
        lambda: collect_totals(frame, plan=run.plan, window=run.window, release_key=release_key), run.spark()
    )
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


def _seal(run: _Run, artefact: StoredFile) -> None:
    """Write the statement, close the release, and delete what attempts that died have left."""
    run.observe(Step.STATE)
    budget = run.ledger.budget(run.claim.release_id.population)
    sealed = sealed_release(release_record(run.ledger, run.claim.release_id), utc_now())
    paths = write_statement(release_facts(run.plan, budget=budget, sealed=sealed), run.profile.statements)
    run.observe(Step.SEAL)
    run.ledger.seal(run.claim, statement_path=str(paths.html), statement_digest=file_digest(paths.html))
    for other in _staging(run).iterdir():
        if other != Path(artefact.path):
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
