"""Accounts: what a population may lose over its lifetime, what it has lost, what fits."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_UP
from fractions import Fraction

import sqlalchemy as sa

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.adhoc import (
    NOTHING,
    cost_in,
    left_in,
    open_pool,
    releases_that_fit,
    spent_pair,
)
from dp_spark.release.ledger.admission import (
    Asked,
    Receipt,
    Standing,
    Terms,
    pool_of,
    reserved,
    slots_per_period,
)
from dp_spark.release.ledger.cost import pools_pair
from dp_spark.release.ledger.exact import decode, encode, show
from dp_spark.release.ledger.persons import WHOLE
from dp_spark.release.ledger.schedule import Schedule
from dp_spark.release.ledger.states import check_name, is_name
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.terms import (
    Enrolled,
    Pools,
    labels_of,
    pools_of,
    schedules_of,
    standing_of,
)
from dp_spark.release.ledger.windows import windows_of
from dp_spark.release.spec import PoolKind

_SET = "dp-spark ledger budget set"


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum of charges, or a remainder of a limit; unlike a guarantee it can be nothing at all."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Budget:
    """An account: whom it protects, its lifetime limit, what it has set aside and what of that is used.

    Attributes:
        pools: as they were set; None where the one pool is of sums and the whole limit.
        enrolled: the schedules by name.
        standing: what is used; where units have periods, of the period that has used the largest share.
        windows: limits of what releases may promise in a day, week or month.
        periods: of units of one period, how many anything was charged to.
    """

    population: str
    unit: PrivacyUnit
    neighbours: Neighbours
    limit: PrivacyGuarantee
    pools: Pools | None
    enrolled: Mapping[str, Enrolled]
    standing: Standing
    windows: Mapping[Every, PrivacyGuarantee]
    periods: int = 0

    @property
    def terms(self) -> Terms:
        """What a reservation is decided by."""
        pools = self.pools
        if pools is None:
            pools = {PoolKind.SUMS: open_pool(PoolKind.SUMS, self.limit)}
        schedules = {name: each.schedule for name, each in self.enrolled.items()}
        return Terms(schedules, pools, slots_per_period(self.unit))

    @property
    def in_time(self) -> tuple[Schedule, ...]:
        """The schedules that were there before the first release, as one unit meets them."""
        terms = self.terms
        return tuple(
            replace(each.schedule, slots=terms.slots(each.schedule))
            for each in self.enrolled.values()
            if each.receipt is None
        )

    @property
    def scheduled(self) -> Amount:
        """What the limit has beside the pools, for all schedules together; nothing without a schedule."""
        if not self.in_time:
            return Amount(Fraction(0), Fraction(0))
        epsilon, delta = pools_pair(self.terms.pools.values())
        return Amount(self.limit.epsilon - epsilon, self.limit.delta - delta)

    @property
    def ad_hoc(self) -> Amount:
        """What all pools together keep."""
        return Amount(*pools_pair(self.terms.pools.values()))

    @property
    def spent(self) -> Amount:
        """What is used of the pools: exact for sums; for zCDP the pair that its sums come to now."""
        used = [
            spent_pair(pool, self.standing.spent.get(kind, NOTHING))
            for kind, pool in self.terms.pools.items()
        ]
        return (
            Amount(*(sum(column, Fraction(0)) for column in zip(*used, strict=True)))
            if used
            else NOTHING_LEFT
        )

    @property
    def left(self) -> Amount:
        """What the pools leave; nothing in both, where one of either is used up."""
        rest = self.rest
        return NOTHING_LEFT if rest.epsilon < 0 or rest.delta < 0 else rest

    @property
    def rest(self) -> Amount:
        """The pools without what is used of them; negative where the limit was lowered under that."""
        return Amount(self.ad_hoc.epsilon - self.spent.epsilon, self.ad_hoc.delta - self.spent.delta)

    @property
    def share_left(self) -> Fraction:
        """The scarcest share that is left, of a pool or of slots; 1 where each period begins anew."""
        if self.unit.per is not None:
            return Fraction(1)
        shares = [Fraction(1)]
        for kind, pool in self.terms.pools.items():
            left = left_in(pool, self.standing.spent.get(kind, NOTHING))
            shares += [
                have / limit
                for have, limit in ((left.loss, pool.limit.loss), (left.delta, pool.limit.delta))
                if limit
            ]
        for each in self.enrolled.values():
            shares.append(1 - Fraction(self.standing.taken.get(each.schedule.name, 0), each.schedule.slots))
        return min(shares)

    def more_of(self, receipt: Receipt) -> int:
        """How many more releases fit that take what this one took."""
        terms = self.terms
        if receipt.schedule is not None:
            schedule = terms.schedules[receipt.schedule]
            return terms.slots(schedule) - self.standing.taken.get(receipt.schedule, 0)
        assert receipt.pool is not None
        spent = self.standing.spent.get(receipt.pool, NOTHING)
        return releases_that_fit(terms.pools[receipt.pool], spent, receipt.cost)

    def after(self, receipt: Receipt) -> "Budget":
        """The account once somebody has taken this, whether it fits or not."""
        return replace(self, standing=self.standing.plus(receipt.took))

    def before(self, receipt: Receipt) -> "Budget":
        """The account had nobody taken this."""
        return replace(self, standing=self.standing.minus(receipt.took))

    def would_take(self, asked: Asked) -> Receipt:
        """What a release would take, if there is room: a slot, or a cost of a pool."""
        if asked.schedule is not None:
            return Receipt(schedule=asked.schedule)
        pool = pool_of(self.terms, asked)
        return Receipt(pool=pool.kind, cost=cost_in(pool, asked.noise, asked.promised))


NOTHING_LEFT = Amount(Fraction(0), Fraction(0))


def budget(connection: sa.Connection, population: str) -> Budget:
    """The account of `population`.

    Raises:
        BudgetRefused: there is none.
    """
    row = _account(connection, population)
    if row is None:
        raise _unknown(connection, population)
    account = Budget(
        population=population,
        unit=PrivacyUnit.parse(row.unit),
        neighbours=Neighbours(row.neighbours),
        limit=PrivacyGuarantee(decode(row.limit_epsilon), decode(row.limit_delta)),
        pools=pools_of(connection, population),
        enrolled=schedules_of(connection, population),
        standing=standing_of(connection, population, WHOLE),
        windows=windows_of(connection, population),
    )
    if account.unit.per is None:
        return account
    each = [standing_of(connection, population, label) for label in labels_of(connection, population)]
    fullest = max(each, key=lambda one: _used(account, one), default=account.standing)
    return replace(account, standing=fullest, periods=len(each))


def _used(account: Budget, standing: Standing) -> Fraction:
    """The largest share of a pool that is used, then the number of slots."""
    pools = account.terms.pools
    shares = [cost.loss / pools[kind].limit.loss for kind, cost in standing.spent.items() if kind in pools]
    return max(shares, default=Fraction(0)) + sum(standing.taken.values())


def require_left(account: Budget, charge: PrivacyGuarantee, text: str) -> None:
    """Check that an account which was never divided has room for a charge.

    Raises:
        BudgetRefused: it has not; says what was asked, what is left and what would fit.
    """
    limit, spent, left = account.limit, account.spent, account.left
    after = Amount(spent.epsilon + charge.epsilon, spent.delta + charge.delta)
    if after.epsilon <= limit.epsilon and after.delta <= limit.delta:
        return
    fits = f"ask for at most {_show(left)}, or " if left.epsilon > 0 else "nothing fits; "
    need = Amount(max(limit.epsilon, after.epsilon), max(limit.delta, after.delta))
    raise BudgetRefused(
        "budget_exhausted",
        f"{text} asks for {_show(charge, rounding=ROUND_UP)}; population {account.population} "
        f"has {_show(left)} left of {_show(limit)}",
        way_out=f"{fits}raise the limit to {_show(need, rounding=ROUND_UP)} or more with `{_SET}`",
    )


def admit(account: Budget, asked: Asked) -> tuple[Standing, Receipt]:
    """The standing of an account after a release, and what it takes; nothing is written.

    Raises:
        BudgetRefused: it has no room, in the slot or the pool that is to pay.
    """
    if account.pools is None and asked.schedule is None and asked.pool is not PoolKind.ZCDP:
        require_left(account, asked.promised, asked.text)
    return reserved(account.terms, account.standing, asked)


def require_same_protection(account: Budget, unit: PrivacyUnit, neighbours: Neighbours) -> None:
    """Check that a release protects what its account counts.

    Raises:
        LedgerRefused: the unit or the neighbours are others.
    """
    if (account.unit, account.neighbours) != (unit, neighbours):
        raise LedgerRefused(
            "other_protection",
            f"population {account.population} counts unit {account.unit} with neighbours "
            f"{account.neighbours}, not unit {unit} with neighbours {neighbours}",
            way_out="charges of different units or neighbours do not add up: use another population",
        )


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """An explicit decision on the limit of a population."""

    population: str
    limit: PrivacyGuarantee
    unit: PrivacyUnit
    neighbours: Neighbours
    reason: str

    def __post_init__(self) -> None:
        check_name("population", self.population)
        if not self.reason.strip():
            raise BudgetRefused(
                "reason_missing",
                f"the limit of population {self.population} cannot be set without a reason",
                way_out="say who decided it and why; it is kept for good",
            )


def set_budget(connection: sa.Connection, change: BudgetChange, stamp: Stamp) -> None:
    """Open the account or move its limit, and record who did.

    Raises:
        LedgerRefused: the account counts another unit or other neighbours.
    """
    new = {"limit_epsilon": encode(change.limit.epsilon), "limit_delta": encode(change.limit.delta)}
    row = _account(connection, change.population)
    if row is None:
        names = {
            "population": change.population,
            "unit": str(change.unit),
            "neighbours": change.neighbours.value,
        }
        rows.insert(connection, store.accounts, **names, **new)
    else:
        require_same_protection(budget(connection, change.population), change.unit, change.neighbours)
        here = store.accounts.c.population == change.population
        rows.update(connection, store.accounts, here, **new)
    record = {
        "population": change.population,
        "old_epsilon": row and row.limit_epsilon,
        "old_delta": row and row.limit_delta,
        "new_epsilon": new["limit_epsilon"],
        "new_delta": new["limit_delta"],
        "reason": change.reason,
        "os_user": stamp.os_user,
        "at": stamp.at,
    }
    rows.insert(connection, store.budget_changes, **record)


def has_account(connection: sa.Connection, population: str) -> bool:
    """Whether the ledger knows a population."""
    return _account(connection, population) is not None


def _account(connection: sa.Connection, population: str) -> sa.Row[tuple[str, str, str, str, str]] | None:
    if not is_name(population):
        return None  # nor might a database take such a text
    return connection.execute(
        sa.select(store.accounts).where(store.accounts.c.population == population)
    ).one_or_none()


def _unknown(connection: sa.Connection, population: str) -> BudgetRefused:
    known = connection.scalars(sa.select(store.accounts.c.population)).all()
    nearest = difflib.get_close_matches(population, known, n=1, cutoff=0)
    hint = f"the nearest name is {nearest[0]!r}" if nearest else "it has none yet"
    return BudgetRefused(
        "unknown_population",
        f"the ledger has no population {population[:200]!r}; {hint}",
        way_out=f"correct the name, or open the account with `{_SET}`",
    )


def _show(amount: Amount | PrivacyGuarantee, **rounding: str) -> str:
    return f"epsilon = {show(amount.epsilon, **rounding)} and delta = {show(amount.delta, **rounding)}"
