"""The life of a release, from spec to seal: the only module that calls every room.

A run can be killed anywhere and started again: the ledger knows the state, and each step either changes
nothing the second time or is decided by the ledger's compare-and-set.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from dp_spark import __version__
from dp_spark.checks import check_artefact
from dp_spark.errors import InputRefused, LedgerRefused, PublishRefused, Refusal, ReleaseHeld, SetupRefused
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
from dp_spark.publish.durable import make_directories
from dp_spark.release.ledger import (
    Claim,
    Ledger,
    ReleaseId,
    ReleaseRecord,
    ReleaseState,
    create_ledger,
    create_master_key_file,
    load_master_key,
    require_admitted,
    utc_now,
)
from dp_spark.release.period import PeriodWindow, period_window
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec, SinkSpec
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes
from dp_spark.report import ReleaseFacts, SealedRelease, release_facts, write_statement

Observer: TypeAlias = "Callable[[Step], None]"
SparkSource: TypeAlias = Callable[[], SparkSession]
T = TypeVar("T")


class Step(StrEnum):
    """What a run is about to do, in the words that progress shows."""

    PLAN = "plan: calibrate the noise"
    RESERVE = "reserve: charge the ledger"
    READ = "privatize: read and bound rows on Spark"
    DRAW = "privatize: draw the noise"
    STAGE = "stage: write the artefact"
    COMMIT = "stage: record the artefact"
    CHECK = "check: run the gates"
    PUBLISH = "publish: copy to the sinks"
    RECORD = "publish: record the copies"
    STATE = "seal: write the statement"
    SEAL = "seal: close the release"
    DONE = "done"


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
    release = ReleaseId(spec.budget.population, spec.release, key)
    ledger = open_ledger(profile)
    claim = _reserved(ledger, release, spec, spark, observe)
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    if claim.artefact is None:
        claim = _staged(ledger, claim, plan, window, profile, spark, observe)
    assert claim.artefact is not None
    table = read_artefact(Path(claim.artefact.path), claim.artefact.digest)
    if claim.state is not ReleaseState.SEALED:
        if claim.state is not ReleaseState.PUBLISHED:
            _check(ledger, claim, plan, window, table, observe)
            _publish(ledger, claim, plan, window, table, observe)
        _seal(ledger, claim, plan, profile, observe)
    observe(Step.DONE)
    return _result(ledger, claim, table)


def open_ledger(profile: Profile) -> Ledger:
    """The profile's ledger, with its master key."""
    return Ledger.open(profile.ledger_url, load_master_key(profile.master_key))


def make_places(profile: Profile) -> None:
    """The ledger, its master key and the restricted zone, made where they are missing; never by a run.

    Raises:
        SetupRefused: a place cannot be made, or holds something else.
    """
    kind, _, place = profile.master_key.partition(":")
    _make_private(profile.staging)
    if kind == "file" and not Path(place).exists():
        _make_private(Path(place).parent)
        create_master_key_file(Path(place))
    load_master_key(profile.master_key)  # refused here rather than by the first run
    create_ledger(profile.ledger_url)


def _make_private(directory: Path) -> None:
    try:
        make_directories(directory, 0o700)
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"the directory {directory} cannot be made ({failure.strerror})",
            way_out="name a place in the profile that you may write",
        ) from None


def planned_facts(spec: ReleaseSpec, profile: Profile) -> tuple[ReleaseFacts, Refusal | None]:
    """What a release of `spec` costs and is worth, and what its account has left; no row is read.

    Without an account the facts leave the remainder out, and the refusal says why.
    """
    plan = plan_release(spec)
    try:
        budget = open_ledger(profile).budget(spec.budget.population)
    except Refusal as refusal:
        return release_facts(plan), refusal
    return release_facts(plan, budget=budget), None


def sealed_facts(ledger: Ledger, release: str) -> ReleaseFacts:
    """The facts of a sealed release, from the plan that the ledger keeps.

    Raises:
        LedgerRefused: there is no such release, or it is not sealed.
    """
    record = _record(ledger, ReleaseId.parse(release))
    if record.statement is None:
        raise LedgerRefused(
            "not_sealed",
            f"release {release} is {record.state}: it has no statement yet",
            way_out="run it again with `dp-spark run`; it goes on where it stopped",
        )
    plan = plan_from_bytes(record.plan_bytes, ledger.tables(record.release_id))
    return release_facts(plan, sealed=_sealed(record, record.events[-1].at))


def _reserved(
    ledger: Ledger, release: ReleaseId, spec: ReleaseSpec, spark: SparkSource, observe: Observer
) -> Claim:
    """The charge and the plan: a new one, or those of the attempt that this run continues."""
    plan_bytes, tables = b"", dict[str, bytes]()
    if ledger.find(release) is None:
        observe(Step.PLAN)
        # The cheap refusal first, before Spark starts; `reserve` decides.
        require_admitted(ledger.budget(release.population), spec.guarantee, str(release))
        plan = plan_release(spec)
        check_columns(open_source(spark(), spec.input), spec)
        plan_bytes = plan_to_bytes(plan)
        tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    observe(Step.RESERVE)
    return ledger.reserve(
        release,
        spec_digest=spec.digest,
        plan_bytes=plan_bytes,
        tables=tables,
        charge=spec.guarantee,
        unit=PrivacyUnit(spec.unit.column),
        neighbours=spec.neighbours,
    )


def _staged(
    ledger: Ledger,
    claim: Claim,
    plan: ReleasePlan,
    window: PeriodWindow,
    profile: Profile,
    spark: SparkSource,
    observe: Observer,
) -> Claim:
    """The claim with the one artefact of its release: this attempt's, or that of whoever was first."""
    frame = open_source(spark(), plan.spec.input)
    ledger.start_reading(claim)
    release_key = ledger.release_key(claim)
    observe(Step.READ)
    totals = _on_spark(
        lambda: collect_totals(frame, plan=plan, window=window, release_key=release_key), spark()
    )
    observe(Step.DRAW)
    noisy = noisy_totals(totals, plan=plan, window=window, release_key=release_key)
    table = released_table(
        plan,
        estimates(noisy, plan),
        period_start=window.start,
        release_id=str(claim.release_id),
        revision=claim.release_id.revision,
    )
    observe(Step.STAGE)
    path = _release_directory(profile.staging, claim.release_id) / f"attempt-{claim.fence}.parquet"
    digest = artefact_digest(table)
    write_artefact(table, path)
    observe(Step.COMMIT)
    outcome = ledger.stage(claim, artefact_digest=digest, artefact_path=str(path))
    _keep_only(Path(outcome.artefact.path))
    return replace(claim, state=ReleaseState.STAGED, artefact=outcome.artefact)


def _keep_only(artefact: Path) -> None:
    """Delete, unread, whatever attempts that lost or died have left beside the artefact."""
    for other in artefact.parent.iterdir():
        if other != artefact:
            other.unlink(missing_ok=True)


def _on_spark(action: Callable[[], T], session: SparkSession) -> T:
    """The action's result; a failure keeps its class and loses its text, which may hold a row's values."""
    try:
        with pinned(session):
            return action()
    except Refusal:
        raise
    except Exception as failure:  # noqa: BLE001
        condition = getattr(failure, "getCondition", lambda: None)()
        raise InputRefused(
            "reading_failed",
            f"Spark failed while it read the input ({condition or type(failure).__name__}); "
            "its message is withheld, for it may quote rows",
            way_out="look at the cluster (memory, lost executors, files replaced while they were read) and "
            "run again: the charge stands and is not taken twice",
        ) from None


def _check(
    ledger: Ledger, claim: Claim, plan: ReleasePlan, window: PeriodWindow, table: pa.Table, observe: Observer
) -> None:
    """Run the gates on the staged artefact; one that fails holds the release."""
    observe(Step.CHECK)
    failed = check_artefact(table, plan, release_id=str(claim.release_id), period_start=window.start)
    if failed:
        ledger.hold(claim, failed)
        assert claim.artefact is not None
        raise ReleaseHeld(
            "release_held",
            f"release {claim.release_id} is held: its staged artefact fails {'; '.join(failed)}",
            way_out=f"nothing was published and the charge stands; look at {claim.artefact.path}, mend the "
            "cause and run again: the checks are repeated on the same artefact",
        )


def _publish(
    ledger: Ledger, claim: Claim, plan: ReleasePlan, window: PeriodWindow, table: pa.Table, observe: Observer
) -> None:
    """Copy the artefact to every sink; one that is down delays its own copy only."""
    observe(Step.PUBLISH)
    assert claim.artefact is not None
    refused: list[PublishRefused] = []
    for sink in plan.spec.publish:
        try:
            target = publish_parquet(
                table,
                sink.path,
                period_start=window.start,
                release_id=str(claim.release_id),
                digest=claim.artefact.digest,
            )
        except PublishRefused as refusal:
            refused.append(refusal)
        else:
            observe(Step.RECORD)
            ledger.record_publication(claim, _sink_name(sink), str(target), claim.artefact.digest)
    if refused:
        raise refused[0]
    ledger.publish(claim, [_sink_name(sink) for sink in plan.spec.publish])


def _sink_name(sink: SinkSpec) -> str:
    return f"{sink.sink}:{sink.path}"


def _seal(ledger: Ledger, claim: Claim, plan: ReleasePlan, profile: Profile, observe: Observer) -> None:
    """Write the statement and close the release."""
    observe(Step.STATE)
    sealed = _sealed(_record(ledger, claim.release_id), utc_now())
    facts = release_facts(plan, budget=ledger.budget(claim.release_id.population), sealed=sealed)
    paths = write_statement(facts, Path(profile.statements))
    observe(Step.SEAL)
    ledger.seal(
        claim,
        statement_path=str(paths.json),
        statement_digest=hashlib.sha256(paths.json.read_bytes()).hexdigest(),
    )


def _sealed(record: ReleaseRecord, sealed_at: datetime) -> SealedRelease:
    assert record.artefact is not None
    return SealedRelease(
        release_id=str(record.release_id),
        state=ReleaseState.SEALED,
        artefact_digest=record.artefact.digest,
        published=tuple(copy.target for copy in record.publications),
        reserved_at=record.reserved_at,
        sealed_at=sealed_at,
        library_version=__version__,
    )


def _result(ledger: Ledger, claim: Claim, table: pa.Table) -> RunResult:
    record = _record(ledger, claim.release_id)
    assert record.artefact is not None
    assert record.statement is not None
    return RunResult(
        release=claim.release_id,
        charged=record.charge if claim.charged_now else None,
        digest=record.artefact.digest,
        published=tuple(copy.target for copy in record.publications),
        statement=Path(record.statement.path),
        table=table,
    )


def _record(ledger: Ledger, release: ReleaseId) -> ReleaseRecord:
    record = ledger.find(release)
    if record is None:
        raise LedgerRefused(
            "unknown_release",
            f"the ledger knows no release {release}",
            way_out="name it population/release/period/revision, as `dp-spark run` printed it",
        )
    return record


def _release_directory(zone: Path, release: ReleaseId) -> Path:
    return zone / release.population / release.name / f"{release.period_key}-r{release.revision}"
