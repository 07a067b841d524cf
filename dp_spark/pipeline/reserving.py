"""The charge of a release, and everything that is refused before it."""

from dataclasses import replace

from dp_spark.errors import InputRefused, PublishRefused
from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.column_checks import check_columns
from dp_spark.frames.expressions import reads_moments
from dp_spark.frames.groups import table_keys
from dp_spark.frames.rows import Rows
from dp_spark.frames.selection import selected_groups
from dp_spark.frames.session import TIME_ZONE
from dp_spark.frames.workers import require_workers
from dp_spark.pipeline.readiness import require_fresh, require_over, require_ready
from dp_spark.pipeline.run import Asked, Step, reach_of
from dp_spark.publish import (
    Part,
    local_path,
    open_sink,
    require_apart,
    schema_for,
)
from dp_spark.release.enrolling import plan_for
from dp_spark.release.ledger import (
    Claim,
    Known,
    ReleaseId,
    Reservation,
    noise_of,
    require_same_protection,
    utc_now,
)
from dp_spark.release.listing import with_listed_files
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.spec import ReleaseSpec, SinkKind, canonical_document
from dp_spark.release.stored import plan_to_bytes


def reserved(asked: Asked) -> Claim:
    """The charge and the plan: a new one, or those of the attempt that this run continues."""
    ledger, release, spec, rows = asked.ledger, asked.release, asked.spec, asked.rows
    if ledger.find(release) is not None:
        return _resumed(asked)
    asked.observe(Step.PLAN)
    # Refusals first, before Spark starts and anything is charged; `reserve` decides.
    account = ledger.budget(release.population)
    require_same_protection(account, spec.unit.protected, spec.neighbours)
    rows.require()
    require_over(spec, asked.window, utc_now())
    require_ready(spec, release.period_key)
    require_fresh(spec, rows, utc_now())
    private = ledger.sources() | rows.private()
    plan = with_listed_files(plan_for(account, spec), private)
    try:
        _require_sinks(asked, plan)
    except PublishRefused:
        if ledger.find(release) is None:
            raise
        return _resumed(asked)  # what stands there is of another run, which began and ended meanwhile
    wanted = reservation(release, spec, plan, revise=asked.revise, source=rows.source())
    ledger.require_admitted(wanted)
    asked.observe(Step.START)
    require_workers(rows.session())
    rows = rows.at_newest()
    plan = _with_listed_table(plan, asked.window, rows, private)
    _require_input(plan, asked.window, rows)
    asked.observe(Step.RESERVE)
    # The groups are those that were read now, whatever their file or table becomes.
    version = None if rows.version is None else str(rows.version)
    return ledger.reserve(replace(wanted, plan_bytes=plan_to_bytes(plan), source_version=version))


def _resumed(asked: Asked) -> Claim:
    asked.observe(Step.RESUME)
    spec = asked.spec
    return asked.ledger.resume(asked.release, Known(spec.digest, asked.revise, canonical_document(spec)))


def reservation(
    release: ReleaseId, spec: ReleaseSpec, plan: ReleasePlan, *, revise: str | None, source: str | None
) -> Reservation:
    """What a release of this spec and plan asks of the ledger."""
    return Reservation(
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
        source=source,
    )


def _with_listed_table(
    plan: ReleasePlan, window: PeriodWindow, rows: Rows, private: frozenset[str]
) -> ReleasePlan:
    """The plan with the groups that its spec has in a table; any other plan as it is."""
    if plan.spec.groups.public_table is None:
        return plan
    session = rows.session()
    with rows.pinned():
        return replace(plan, listed=table_keys(session, plan.spec, window, private | rows.below()))


def _require_sinks(asked: Asked, plan: ReleasePlan) -> None:
    """Refuse a sink that cannot take the period, or that lies within the input or another, or holds it."""
    require_apart([sink.path for sink in plan.spec.publish if sink.path is not None])
    reach, part = reach_of(asked.profile, asked.rows), Part.of_period(asked.window.start)
    for sink in plan.spec.publish:
        if sink.sink is SinkKind.TABLE:
            reach.spark_table(str(sink.table)).require_lasting()
        open_sink(sink, reach).require_free(part, str(asked.release), schema_for(plan, sink))
        if sink.path is not None and (root := local_path(sink.path)) is not None:
            asked.rows.require_apart(sink.path, root)


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
