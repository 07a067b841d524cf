"""Plans that come from an account: of a schedule that is enrolled, or that is to be."""

from dataclasses import replace

from dp_spark.errors import BudgetRefused, PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.release.ledger import (
    Asked,
    Budget,
    Enrolment,
    Receipt,
    Schedule,
    Standing,
    admit,
    enrolled,
    noise_of,
    pair_missing,
    require_unknown,
    room,
)
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_from_budget, plan_release
from dp_spark.release.spec import FROM_BUDGET, PoolKind, ReleaseSpec
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes


def plan_for(account: Budget, spec: ReleaseSpec) -> ReleasePlan:
    """The plan of a release of this account: the one that was enrolled, its share, or by itself.

    Raises:
        PlanRefused: it takes its guarantee from the budget, and is not enrolled; or as in `plan_release`.
    """
    known = account.enrolled.get(spec.release)
    if known is not None and (known.spec_digest == spec.digest or spec.guarantee == FROM_BUDGET):
        tables = {table.digest: table.to_bytes() for table in known.schedule.noise.tables}
        plan = plan_from_bytes(known.plan_bytes, tables)
        if known.spec_digest == spec.digest:
            return plan
        if plan.share is not None:
            return plan_from_budget(spec, plan.share.whole, plan.share.horizon)
    if spec.guarantee == FROM_BUDGET:
        raise _not_enrolled(account, spec)
    return plan_release(spec)


def expected_receipt(account: Budget, plan: ReleasePlan) -> Receipt:
    """What a release of this plan would take of its account, if there is room.

    Raises:
        BudgetRefused: the account has no pool that would pay.
    """
    return account.would_take(_asked(account, plan))


def require_room(account: Budget, plan: ReleasePlan) -> None:
    """Check that an account has room for one more release of this plan; a window of time is another matter.

    Raises:
        BudgetRefused: it has not; says what would fit.
    """
    admit(account, _asked(account, plan))


def _asked(account: Budget, plan: ReleasePlan) -> Asked:
    spec = plan.spec
    scheduled = spec.release in account.enrolled and spec.budget.pool is None
    return Asked(
        f"release {spec.release}",
        noise_of(plan),
        plan.guarantee,
        schedule=spec.release if scheduled else None,
        pool=spec.budget.pool,
    )


def enrolment_of(
    account: Budget,
    spec: ReleaseSpec,
    *,
    together: PrivacyGuarantee | None = None,
    pool: PoolKind | None = None,
) -> tuple[Enrolment, ReleasePlan]:
    """The schedule that a spec asks for, and its plan: `budget.horizon` slots.

    Args:
        account: that is to have it.
        spec: what each release is.
        together: what all its releases are to keep; None for what limit, pools and schedules leave.
        pool: who pays, where the account has releases already.

    Raises:
        PlanRefused: the spec has no horizon, or no noise meets the guarantee.
        BudgetRefused: the limit leaves nothing.
        LedgerRefused: there is a schedule of its name, or a pool has to pay and nobody said how much.
    """
    require_unknown(account, spec.release)
    if together is None and spec.guarantee == FROM_BUDGET and account.standing != Standing():
        raise pair_missing(account.population)
    slots = spec.budget.horizon
    if slots is None:
        raise PlanRefused(
            "horizon_missing",
            f"release {spec.release} is to be enrolled for nobody knows how many periods",
            way_out="add `horizon: 365`, the number of releases, to `budget`",
        )
    if spec.guarantee == FROM_BUDGET:
        # A unit of one period meets one release of the schedule, and gets all that the limit leaves.
        times = slots if account.unit.per is None else 1
        plan = plan_from_budget(spec, together or _rest(account), times)
    else:
        plan = plan_release(spec)
    schedule = Schedule(spec.release, noise_of(plan), slots)
    return Enrolment(schedule, spec.digest, plan_to_bytes(plan), together, pool), plan


def as_enrolled(account: Budget, spec: ReleaseSpec) -> tuple[Budget, ReleasePlan]:
    """The account with the schedule that a spec asks for, and the plan, before anybody has decided on it.

    Raises:
        PlanRefused: as `enrolment_of`, or the account has releases: a pool would have to pay.
        BudgetRefused: it does not fit.
    """
    if account.standing != Standing():
        raise _not_enrolled(account, spec)
    asked, plan = enrolment_of(account, spec)
    new = enrolled(account, asked, late=False)
    return replace(account, enrolled={**account.enrolled, spec.release: new}), plan


def _not_enrolled(account: Budget, spec: ReleaseSpec) -> PlanRefused:
    return PlanRefused(
        "not_enrolled",
        f"release {spec.release} takes its guarantee from the budget of {account.population}, which "
        "has no schedule of this name that does",
        way_out="`dp-spark ledger schedule add SPEC --reason WHY` before the account's first release",
    )


def _rest(account: Budget) -> PrivacyGuarantee:
    rest = room(account.limit, account.in_time, tuple(account.terms.pools.values()))
    if rest is None:
        raise BudgetRefused(
            "no_room",
            f"population {account.population} is not divided: one pool has all of its limit"
            if account.pools is None
            else f"pools and schedules of population {account.population} leave nothing of its limit",
            way_out="set smaller pools before its first release: `dp-spark ledger pools set POPULATION "
            "[--sums EPSILON,DELTA] [--zcdp EPSILON,DELTA] --reason WHY`",
        )
    return rest
