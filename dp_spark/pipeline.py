"""The life of a release, from spec to seal: the only module that calls every room.

A run can be killed anywhere and started again: the ledger knows the state, and each step either changes
nothing the second time or is decided by the ledger's compare-and-set.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dp_spark.checks import check_artefact
from dp_spark.errors import InputRefused, PublishRefused, ReleaseHeld
from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.bound import Integers
from dp_spark.frames.collect import collect_totals
from dp_spark.frames.expressions import reads_moments
from dp_spark.frames.groups import table_keys
from dp_spark.frames.privatize import estimates, noisy_totals
from dp_spark.frames.rows import Rows, SparkSource
from dp_spark.frames.selection import Selected, select_groups, selected_groups
from dp_spark.frames.session import TIME_ZONE
from dp_spark.frames.sources import check_columns
from dp_spark.publish import (
    Part,
    artefact_digest,
    local_root,
    publish_parquet,
    read_artefact,
    released_table,
    require_free,
    with_released_groups,
    write_artefact,
)
from dp_spark.release.enrolling import plan_for
from dp_spark.release.ledger import (
    BudgetWarning,
    Claim,
    Decision,
    Known,
    Ledger,
    ReleaseId,
    ReleaseRecord,
    ReleaseState,
    Reservation,
    StoredFile,
    noise_of,
    require_same_protection,
    utc_now,
    warning_of,
)
from dp_spark.release.listing import with_listed_files
from dp_spark.release.period import PeriodWindow, period_window
from dp_spark.release.places import open_ledger, release_record
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec, SinkSpec, canonical_document
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes
from dp_spark.report import RunResult, file_digest, release_facts, sealed_release, write_statement

Observer: TypeAlias = "Callable[[Step], None]"


class Step(StrEnum):
    """What a run is about to do, in the words that progress shows: the part, and what of it."""

    PLAN = "plan: calibrate the noise"
    START = "start: Spark, and the columns of the input"
    RESERVE = "reserve: charge the ledger"
    RESUME = "resume: take up the plan that was charged for"
    SELECT = "privatize: select the groups on Spark"
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


def run_release(  # noqa: PLR0913  # a run has as many sides
    spec: ReleaseSpec,
    key: str,
    *,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None = None,
    revise: str | None = None,
    observe: Observer = lambda step: None,
    warn: Callable[[BudgetWarning], None] = lambda warning: None,
) -> RunResult:
    """Privatize, check, publish and seal the release of one period, or whatever of it is still to be done.

    Args:
        spec: what to release.
        key: first day of the period, YYYY-MM-DD.
        profile: where ledger, restricted zone and statements are.
        spark: gives the session; called only if rows must be read, and not with a frame, which has its own.
        frame: the rows, of a spec without `input`. While none are staged, each attempt reads it anew.
        revise: why the period is released again, with noise and a charge of its own. Without it, the run is
            about the revision that stands. The same reason names the same revision, whenever it is run.
        observe: told each step before it begins.
        warn: told, once the release is sealed, that 20 % or 5 % of the budget is left, or less.

    Raises:
        Refusal: with a code and a way out. A failure never depends on a row, and running again goes on
            where this run stopped, at no further charge.
    """
    window = period_window(spec.period, key)
    ledger = open_ledger(profile)
    rows = Rows(spec.input, f"release {spec.release!r}", spark, frame, one_machine=ledger.one_machine)
    first = ReleaseId(spec.budget.population, spec.release, key)
    release = ledger.current_revision(first) if revise is None else ledger.revision_for(first, revise)
    claim = _reserved(ledger, release, window, spec, rows, revise, observe)
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    result = _brought_home(_Run(ledger, claim, plan, window, profile, rows, observe))
    if result.warning is not None:
        warn(result.warning)
    return result


def publish_held(
    release: ReleaseId, reason: str, *, profile: Profile, observe: Observer = lambda step: None
) -> RunResult:
    """Publish and seal a held release, by somebody's decision and without asking its checks again.

    Raises:
        LedgerRefused: the release is not held, or the reason is blank.
        Refusal: as `run_release`; the decision stands, and running the release goes on with it.
    """
    ledger = open_ledger(profile)
    ledger.decide(release, Decision.PUBLISH, reason)
    claim = ledger.resume(release)
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    window = period_window(plan.spec.period, release.period_key)
    rows = Rows(plan.spec.input, str(release), _no_spark, None, one_machine=ledger.one_machine)
    return _brought_home(_Run(ledger, claim, plan, window, profile, rows, observe))


def _no_spark() -> SparkSession:
    raise AssertionError("a held release is staged: nothing of it is read again")


def _brought_home(run: "_Run") -> RunResult:
    """Whatever is still to be done of a release."""
    claim = run.claim
    artefact = claim.artefact or _stage(run)
    table = read_artefact(Path(artefact.path), artefact.digest)
    if claim.state is ReleaseState.SEALED:
        _restore(run, table)
    else:
        if claim.state is not ReleaseState.PUBLISHED:
            if not claim.cleared:
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
    rows: Rows
    observe: Observer

    @property
    def release_id(self) -> str:
        """The id as text, as the released rows hold it."""
        return str(self.claim.release_id)


def _reserved(
    ledger: Ledger,
    release: ReleaseId,
    window: PeriodWindow,
    spec: ReleaseSpec,
    rows: Rows,
    revise: str | None,
    observe: Observer,
) -> Claim:
    """The charge and the plan: a new one, or those of the attempt that this run continues."""
    if ledger.find(release) is not None:
        observe(Step.RESUME)
        return ledger.resume(release, Known(spec.digest, revise, canonical_document(spec)))
    observe(Step.PLAN)
    # Refusals first, before Spark starts and anything is charged; `reserve` decides.
    account = ledger.budget(release.population)
    require_same_protection(account, spec.unit.protected, spec.neighbours)
    rows.require()
    _require_sinks(spec, rows, window, release)
    private = ledger.sources() | rows.private()
    plan = with_listed_files(plan_for(account, spec), private)
    asked = Reservation(
        release_id=release,
        spec_digest=spec.digest,
        plan_bytes=plan_to_bytes(plan),
        tables={digest: table.to_bytes() for digest, table in plan.tables.items()},
        charge=plan.guarantee,
        unit=spec.unit.protected,
        neighbours=spec.neighbours,
        noise=noise_of(plan),
        period=spec.period,
        pool=spec.budget.pool,
        revision_reason=revise,
        source=rows.source(),
    )
    ledger.require_admitted(asked)
    observe(Step.START)
    plan = _with_listed_table(plan, window, rows, private)
    _require_input(plan, window, rows)
    observe(Step.RESERVE)
    # The groups are those that were read now, whatever their file or table becomes.
    return ledger.reserve(replace(asked, plan_bytes=plan_to_bytes(plan)))


def _with_listed_table(
    plan: ReleasePlan, window: PeriodWindow, rows: Rows, private: frozenset[str]
) -> ReleasePlan:
    """The plan with the groups that its spec has in a table; any other plan as it is."""
    if plan.spec.groups.public_table is None:
        return plan
    session = rows.session()
    with rows.pinned():
        return replace(plan, listed=table_keys(session, plan.spec, window, private))


def _require_sinks(spec: ReleaseSpec, rows: Rows, window: PeriodWindow, release: ReleaseId) -> None:
    """Refuse a sink that cannot take the period, or that lies within the input, or holds it."""
    for sink in spec.publish:
        require_free(sink.path, part=Part.of_period(window.start), release_id=str(release))
        rows.require_apart(sink.path, local_root(sink.path))


def _require_zone(spec: ReleaseSpec, rows: Rows) -> None:
    """Refuse a frame of another time zone where the spec has to know which day a moment lies in."""
    if rows.frame is None or not reads_moments(rows.frame.schema, spec):
        return
    zone = rows.session().conf.get(TIME_ZONE)
    if zone != "UTC":
        raise InputRefused(
            "frame_time_zone",
            f"{TIME_ZONE} = {zone!r}: where, derive and unit.per read timestamps in UTC, and a frame "
            "keeps the zone that it was made for",
            way_out=f"spark.conf.set({TIME_ZONE!r}, 'UTC') before the frame is made; period.timezone "
            "says whose midnight ends a day",
        )


def _require_input(plan: ReleasePlan, window: PeriodWindow, rows: Rows) -> None:
    """Refuse an input that lacks what the plan reads; the whole query is built, and not run."""
    session = rows.session()
    _require_zone(plan.spec, rows)
    with rows.pinned():
        try:
            frame = rows.opened(session)
            rows.require_no_stream(frame)
            check_columns(frame, plan.spec)
            # Connect looks at a query only when it is asked for its columns.
            if plan.selection is not None:
                _ = selected_groups(frame, plan=plan, window=window, release_key=bytes(32)).columns
                plan = plan.with_selected((("",) * len(plan.spec.group_by),))  # whichever they will be
            _ = exact_totals(frame, plan=plan, window=window, bounding_key=bytes(32)).columns
        except InputRefused:
            raise
        except Exception as failure:  # noqa: BLE001  # whatever Spark says, it is said before the charge
            raise InputRefused(
                "input_not_usable",
                f"Spark cannot build the release's query over the input ({type(failure).__name__})",
                way_out="look at the columns that the spec names, at their types, and that no two have one "
                "name; nothing was charged",
            ) from None


def _stage(run: _Run) -> StoredFile:
    """The one artefact of the release: this attempt's, or that of whoever was first."""
    run.rows.require()
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


def _with_selected(run: _Run, release_key: bytes) -> tuple[ReleasePlan, Integers | None]:
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


def _check(run: _Run, table: pa.Table, artefact: StoredFile) -> None:
    """Run the gates on the staged artefact; one that fails holds the release."""
    run.observe(Step.CHECK)
    plan = with_released_groups(run.plan, table)
    failed = check_artefact(table, plan, release_id=run.release_id, period_start=run.window.start)
    if failed:
        run.ledger.hold(run.claim, failed)
        raise ReleaseHeld(
            "release_held",
            f"release {run.release_id} is held: its staged artefact fails {'; '.join(failed)}",
            way_out=f"nothing was published and the charge stands; look at {artefact.path}, mend the "
            "cause and run again: the checks are repeated on the same artefact; or decide, with "
            "`dp-spark release publish-held` or `dp-spark release abandon`",
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
                part=Part.of_period(run.window.start),
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
    sealed = sealed_release(record, sealed_at)
    facts = release_facts(run.plan, budget=budget, sealed=sealed, receipt=record.took)
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
            part=Part.of_period(run.window.start),
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
    )


def _staging(run: _Run) -> Path:
    release = run.claim.release_id
    place = run.profile.staging / release.population / release.name
    return place / f"{release.period_key}-r{release.revision}"
