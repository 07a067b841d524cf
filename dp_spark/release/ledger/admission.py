"""What a reservation decides: a slot of a schedule or a charge to a pool, from a few stored sums.

Nothing here grows with the number of earlier releases: the state of an account is its running sums.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dp_spark.errors import BudgetRefused
from dp_spark.guarantee import PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger.adhoc import (
    NOTHING,
    Cost,
    Pool,
    charged,
    cost_in,
)
from dp_spark.release.ledger.exact import decode, encode, show
from dp_spark.release.ledger.schedule import ReleaseNoise, Schedule, canonical, may_take
from dp_spark.release.spec import PoolKind


@dataclass(frozen=True, slots=True)
class Terms:
    """What is fixed before the account's first release: its schedules by name, its pools by kind.

    `slots_per_period`: None where a unit meets every release; else the unit is one period's, and takes from
    each schedule at most so many slots.
    """

    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    pools: Mapping[PoolKind, Pool] = field(default_factory=dict)
    slots_per_period: int | None = None

    def slots(self, schedule: Schedule) -> int:
        """How many slots of a schedule one unit may meet."""
        return schedule.slots if self.slots_per_period is None else self.slots_per_period

    def met(self) -> tuple[Schedule, ...]:
        """The schedules as one unit meets them: what `require_within_limit` has to price."""
        return tuple(replace(each, slots=self.slots(each)) for each in self.schedules.values())


@dataclass(frozen=True, slots=True)
class Standing:
    """What an account has used: the whole state that a decision needs, for one period where units have one.

    Attributes:
        taken: slots taken, by schedule.
        spent: exact sums, by kind of pool.
    """

    taken: Mapping[str, int] = field(default_factory=dict)
    spent: Mapping[PoolKind, Cost] = field(default_factory=dict)

    def plus(self, other: "Standing") -> "Standing":
        """Both together."""
        taken, spent = dict(self.taken), dict(self.spent)
        for name, slots in other.taken.items():
            taken[name] = taken.get(name, 0) + slots
        for kind, cost in other.spent.items():
            spent[kind] = spent.get(kind, NOTHING) + cost
        return Standing(taken, spent)

    def minus(self, other: "Standing") -> "Standing":
        """Without `other`, which it holds."""
        taken, spent = dict(self.taken), dict(self.spent)
        for name, slots in other.taken.items():
            taken[name] = taken.get(name, 0) - slots
        for kind, cost in other.spent.items():
            spent[kind] = spent.get(kind, NOTHING) - cost
        return Standing(taken, spent)

    def holds(self, other: "Standing") -> bool:
        """Whether everything in `other` is in here at least."""
        return all(self.taken.get(name, 0) >= slots for name, slots in other.taken.items()) and all(
            cost.fits(self.spent.get(kind, NOTHING)) for kind, cost in other.spent.items()
        )

    def to_text(self) -> str:
        """The canonical text, fractions exact."""
        spent = {kind.value: _cost_text(cost) for kind, cost in self.spent.items()}
        return canonical({"spent": spent, "taken": dict(self.taken)})

    @staticmethod
    def from_text(text: str) -> "Standing":
        """The standing with this text."""
        stored = json.loads(text)
        spent = {PoolKind(kind): _cost_from(cost) for kind, cost in stored["spent"].items()}
        return Standing(stored["taken"], spent)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a release, or a schedule that comes late, wants: its noise, what it promises, from where.

    Attributes:
        text: what errors call it: `release p/name/2013-01-01/0`.
        noise: of its stored plan.
        promised: the pair that the plan certified for it.
        schedule: the schedule whose slot it takes; None for a pool.
        pool: the kind of pool that pays otherwise; None for the only one.
    """

    text: str
    noise: ReleaseNoise
    promised: PrivacyGuarantee
    schedule: str | None = None
    pool: PoolKind | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a reservation took, under each of its labels; stored with the release: a refund gives it back."""

    schedule: str | None = None
    pool: PoolKind | None = None
    cost: Cost = NOTHING
    labels: tuple[str, ...] = ("",)

    @property
    def took(self) -> Standing:
        """What it took under each label, as a standing."""
        return Standing(
            {} if self.schedule is None else {self.schedule: 1},
            {} if self.pool is None else {self.pool: self.cost},
        )

    def to_text(self) -> str:
        """The canonical text."""
        cost, labels = _cost_text(self.cost), list(self.labels)
        return canonical({"cost": cost, "labels": labels, "pool": self.pool, "schedule": self.schedule})

    @staticmethod
    def from_text(text: str) -> "Receipt":
        """The receipt with this text."""
        stored = json.loads(text)
        pool = None if stored["pool"] is None else PoolKind(stored["pool"])
        return Receipt(stored["schedule"], pool, _cost_from(stored["cost"]), tuple(stored["labels"]))


def reserved(terms: Terms, standing: Standing, asked: Asked) -> tuple[Standing, Receipt]:
    """The standing after the reservation and its receipt; both are stored in the same transaction.

    Raises:
        BudgetRefused: no slot is free or fits, or the pool does not admit it. Nothing else is tried in its
            place: which budget pays is chosen before, not by what happens to fit.
    """
    if asked.schedule is not None:
        return _slot_taken(terms, standing, asked), Receipt(schedule=asked.schedule)
    pool = pool_of(terms, asked)
    cost = cost_in(pool, asked.noise, asked.promised)
    return with_cost(standing, pool, cost, asked.text, asked.promised)


def pool_of(terms: Terms, asked: Asked) -> Pool:
    """The pool that pays for a release.

    Raises:
        BudgetRefused: the account has none of its kind, or several where none is named.
    """
    if asked.pool is None and len(terms.pools) == 1:
        return next(iter(terms.pools.values()))
    if asked.pool is not None and asked.pool in terms.pools:
        return terms.pools[asked.pool]
    known = " and ".join(terms.pools) or "none"
    raise BudgetRefused(
        "no_pool",
        f"{asked.text} asks for {'a pool' if asked.pool is None else f'the pool of {asked.pool}'}; "
        f"the account's pools: {known}",
        way_out="name one of them: `pool: KIND` in the spec's `budget`, or --pool for a schedule"
        if terms.pools
        else "only slots of its schedules can be used: pools are set before the account's first release",
    )


def with_cost(
    standing: Standing, pool: Pool, cost: Cost, text: str, promised: PrivacyGuarantee
) -> tuple[Standing, Receipt]:
    """The standing after a charge of `cost` to a pool: of a release, or of a schedule that comes late.

    Raises:
        BudgetRefused: the pool does not admit it.
    """
    after = charged(pool, standing.spent.get(pool.kind, NOTHING), cost, text, promised)
    spent = {**standing.spent, pool.kind: after}
    return replace(standing, spent=spent), Receipt(pool=pool.kind, cost=cost)


def require_in_window(
    window: str, limit: PrivacyGuarantee, spent: Cost, asked: str, promised: PrivacyGuarantee
) -> Cost:
    """The sums of what releases promised in a window, such as a month, if they stay within its limit.

    A window only tightens: it is asked beside everything else, whoever pays.

    Raises:
        BudgetRefused: they would not.
    """
    after = spent + Cost(promised.epsilon, promised.delta)
    if after.fits(Cost(limit.epsilon, limit.delta)):
        return after
    left = Cost(max(limit.epsilon - spent.loss, Fraction(0)), max(limit.delta - spent.delta, Fraction(0)))
    raise BudgetRefused(
        "window_exhausted",
        f"{asked} promises epsilon = {show(promised.epsilon)} and delta = {show(promised.delta)}; {window} "
        f"has epsilon = {show(left.loss)} and delta = {show(left.delta)} left",
        way_out="wait for the next window, or ask for at most what is left",
    )


def _slot_taken(terms: Terms, standing: Standing, asked: Asked) -> Standing:
    assert asked.schedule is not None
    schedule = terms.schedules.get(asked.schedule)
    if schedule is None:
        known = ", ".join(sorted(terms.schedules)) or "none"
        raise BudgetRefused(
            "no_schedule",
            f"{asked.text} asks for a slot of {asked.schedule}; the account has the schedules: {known}",
            way_out="a schedule is enrolled before the account's first release; charge the ad hoc pool",
        )
    taken, slots = standing.taken.get(schedule.name, 0), terms.slots(schedule)
    if taken >= slots:
        raise BudgetRefused(
            "schedule_full",
            f"{asked.text} asks for a slot of {schedule.name}; all {slots} are taken",
            way_out="charge the ad hoc pool; a schedule is not extended after its first release",
        )
    if not may_take(asked.noise, schedule):
        raise BudgetRefused(
            "slot_too_small",
            f"{asked.text} cannot be shown to cost at most what a slot of {schedule.name} costs, at every "
            f"epsilon; {slots - taken} of {slots} slots are left",
            way_out="run the plan that was enrolled, or less of it; or charge the ad hoc pool",
        )
    return replace(standing, taken={**standing.taken, schedule.name: taken + 1})


def slots_per_period(unit: PrivacyUnit) -> int | None:
    """1 where a unit is one period's: a schedule reads each period once; None where it meets them all."""
    return None if unit.per is None else 1


def _cost_text(cost: Cost) -> list[str]:
    return [encode(cost.loss), encode(cost.delta)]


def _cost_from(stored: list[str]) -> Cost:
    return Cost(decode(stored[0]), decode(stored[1]))
