"""What people decide on an account: its limit, its pools, its schedules, its windows; each with a reason.

Whatever is dear to prove is proved before the transaction, for the account as it was read; the transaction
then only compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import Every, PrivacyGuarantee
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.accounts import (
    Budget,
    BudgetChange,
    budget,
    has_account,
    require_same_protection,
    set_budget,
)
from dp_spark.release.ledger.adhoc import Pool, open_pool
from dp_spark.release.ledger.admission import Asked, pool_of, with_cost
from dp_spark.release.ledger.cost import late_cost, require_within_limit
from dp_spark.release.ledger.exact import show
from dp_spark.release.ledger.persons import WHOLE
from dp_spark.release.ledger.schedule import Schedule
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.terms import (
    Enrolled,
    add_schedule,
    has_releases,
    put_pools,
    put_standing,
    standing_of,
)
from dp_spark.release.ledger.windows import put_window
from dp_spark.release.spec import PoolKind


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A schedule that is to be added to an account.

    Attributes:
        together: the pair that all slots keep, for one that comes after the first release: what sums are
            charged with.
        pool: the kind of pool that pays then; None for the only one.
    """

    schedule: Schedule
    spec_digest: str
    plan_bytes: bytes
    together: PrivacyGuarantee | None = None
    pool: PoolKind | None = None


def divided(account: Budget, pools: Mapping[PoolKind, PrivacyGuarantee]) -> Budget:
    """The account with these pools in the place of those that it had.

    Raises:
        BudgetRefused: with the schedules that are there they exceed the limit.
    """
    opened: dict[PoolKind, Pool] = {kind: open_pool(kind, pair) for kind, pair in pools.items()}
    require_within_limit(account.population, account.limit, account.in_time, tuple(opened.values()))
    return replace(account, pools=opened)


def limited(account: Budget, limit: PrivacyGuarantee) -> Budget:
    """The account with another limit.

    Raises:
        BudgetRefused: what was set aside exceeds it.
    """
    if account.pools is not None or account.in_time:
        pools = tuple(account.terms.pools.values())
        try:
            require_within_limit(account.population, limit, account.in_time, pools)
        except BudgetRefused as refused:
            way_out = (
                "a limit stays at or above what was set aside; before the account's first release, "
                "`dp-spark ledger pools set` makes pools smaller"
            )
            raise BudgetRefused(refused.code, refused.message, way_out=way_out) from None
    return replace(account, limit=limit)


def enrolled(account: Budget, asked: Enrolment, *, late: bool) -> Enrolled:
    """The schedule as the account would have it.

    Raises:
        BudgetRefused: with what is there it exceeds the limit, or no pool pays for one that comes late.
        LedgerRefused: there is one of this name, its noise is for other neighbours, or it is late where units
            have periods.
    """
    schedule = asked.schedule
    require_unknown(account, schedule.name)
    require_same_protection(account, account.unit, schedule.noise.neighbours)
    new = Enrolled(schedule, asked.spec_digest, asked.plan_bytes)
    if not late:
        after = replace(account, enrolled={**account.enrolled, schedule.name: new})
        require_within_limit(
            account.population, account.limit, after.in_time, tuple(after.terms.pools.values())
        )
        return new
    if account.unit.per is not None:
        raise LedgerRefused(
            "schedule_late",
            f"population {account.population} has releases already, and its units are those of one "
            f"{account.unit.per}: a schedule would have to be paid by each of them",
            way_out="charge the pool by each release, without a schedule",
        )
    if asked.together is None:
        raise pair_missing(account.population)
    asks = Asked(f"schedule {schedule.name}", schedule.noise, asked.together, pool=asked.pool)
    pool = pool_of(account.terms, asks)
    cost = late_cost(schedule, pool, asked.together)
    _, receipt = with_cost(account.standing, pool, cost, asks.text, asked.together)
    return replace(new, receipt=receipt)


def store_limit(connection: sa.Connection, before: Budget | None, change: BudgetChange, stamp: Stamp) -> None:
    """Open an account, if `before` is None, or move the limit of one that has set aside what `before` has.

    Raises:
        LedgerRefused: somebody opened it, moved its limit or set something aside meanwhile.
    """
    if (before is not None) != has_account(connection, change.population):
        raise _changed(change.population)
    if before is not None:
        now = budget(connection, change.population)
        # Charges do not matter: they come from what is set aside.
        if (now.limit, now.pools, now.enrolled) != (before.limit, before.pools, before.enrolled):
            raise _changed(change.population)
    set_budget(connection, change, stamp)


def require_unknown(account: Budget, schedule: str) -> None:
    """Check that an account has no schedule of this name.

    Raises:
        LedgerRefused: it has.
    """
    if schedule in account.enrolled:
        raise LedgerRefused(
            "schedule_known",
            f"population {account.population} has a schedule {schedule} already",
            way_out="a schedule is never changed; enrol a release of another name",
        )


def pair_missing(population: str) -> LedgerRefused:
    """The refusal of a schedule that comes late and does not say what a pool is to pay."""
    return LedgerRefused(
        "schedule_late",
        f"population {population} has releases already: a pool has to pay for the schedule",
        way_out="give --epsilon and --delta, what all its releases together are to keep",
    )


def require_no_release(connection: sa.Connection, population: str) -> None:
    """Check that nothing was ever reserved.

    Raises:
        LedgerRefused: something was: how the account is divided is fixed.
    """
    if has_releases(connection, population):
        raise LedgerRefused(
            "terms_fixed",
            f"population {population} has releases already: what it has set aside stays as it is",
            way_out="a division that is chosen after looking is none; `dp-spark ledger budget set` moves the "
            "limit of an account without pools",
        )


def store_pools(connection: sa.Connection, before: Budget, after: Budget, reason: str, stamp: Stamp) -> None:
    """Write the pools of `after`, if the account still is as `before` and has no release.

    Raises:
        LedgerRefused: it is not.
    """
    _require_unchanged(connection, before)
    require_no_release(connection, before.population)
    assert after.pools is not None
    put_pools(connection, before.population, after.pools)
    detail = "; ".join(f"{kind} {_pair(pool.guarantee)}" for kind, pool in after.pools.items()) or "no pool"
    _record(connection, before.population, "pools", detail, reason, stamp)


def store_schedule(
    connection: sa.Connection, before: Budget, new: Enrolled, reason: str, stamp: Stamp
) -> None:
    """Write a schedule, if the account still is as `before`, and let its pool pay where it comes late.

    Raises:
        LedgerRefused: it is not.
    """
    _require_unchanged(connection, before)
    population = before.population
    if (new.receipt is not None) != has_releases(connection, population):
        raise _changed(population)
    if new.receipt is not None:
        standing = standing_of(connection, population, WHOLE).plus(new.receipt.took)
        put_standing(connection, population, WHOLE, standing)
    add_schedule(connection, population, new)
    schedule = new.schedule
    paid = "" if new.receipt is None else f", paid by the pool of {new.receipt.pool}"
    detail = f"{schedule.name}: {schedule.slots} slots{paid}"
    _record(connection, population, "schedule", detail, reason, stamp)


def store_window(
    connection: sa.Connection,
    population: str,
    every: Every,
    limit: PrivacyGuarantee,
    reason: str,
    stamp: Stamp,
) -> None:
    """Write what may be promised in each day, week or month.

    Raises:
        BudgetRefused: the population is unknown.
    """
    budget(connection, population)
    put_window(connection, population, every, limit)
    _record(connection, population, "window", f"each {every} {_pair(limit)}", reason, stamp)


def _require_unchanged(connection: sa.Connection, before: Budget) -> None:
    """Whether what was proved is about the account that is written."""
    if budget(connection, before.population) != before:
        raise _changed(before.population)


def _changed(population: str) -> LedgerRefused:
    return LedgerRefused(
        "account_changed",
        f"population {population} was changed or charged meanwhile",
        way_out="give the command again",
    )


def _record(
    connection: sa.Connection, population: str, what: str, detail: str, reason: str, stamp: Stamp
) -> None:
    if not reason.strip():
        raise BudgetRefused(
            "reason_missing",
            f"the {what} of population {population} cannot be set without a reason",
            way_out="say who decided it and why; it is kept for good",
        )
    rows.insert(
        connection,
        store.account_changes,
        population=population,
        what=what,
        detail=detail,
        reason=reason,
        os_user=stamp.os_user,
        at=stamp.at,
    )


def _pair(pair: PrivacyGuarantee) -> str:
    return f"epsilon = {show(pair.epsilon)}, delta = {show(pair.delta)}"
