"""Accounts: what a population may lose over its lifetime, what it has lost, what fits."""

import difflib
from dataclasses import dataclass
from decimal import ROUND_UP
from fractions import Fraction

import sqlalchemy as sa

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.exact import decode, encode, show
from dp_spark.release.ledger.states import ReleaseState, check_name
from dp_spark.release.ledger.steps import Stamp

_SET = "dp-spark ledger budget set"


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum of charges, or a remainder of a limit; unlike a guarantee it can be nothing at all."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Budget:
    """An account: whom it protects, its lifetime limit and the exact sum of all charges."""

    population: str
    unit: PrivacyUnit
    neighbours: Neighbours
    limit: PrivacyGuarantee
    spent: Amount

    @property
    def left(self) -> Amount:
        """What the limit leaves; nothing in both, where it was lowered under what is spent in either."""
        epsilon, delta = self.limit.epsilon - self.spent.epsilon, self.limit.delta - self.spent.delta
        if epsilon < 0 or delta < 0:
            return Amount(Fraction(0), Fraction(0))
        return Amount(epsilon, delta)

    def admits(self, charge: PrivacyGuarantee) -> bool:
        """Whether all charges and this one, composed by addition, stay within the limit."""
        return (
            self.spent.epsilon + charge.epsilon <= self.limit.epsilon
            and self.spent.delta + charge.delta <= self.limit.delta
        )


def budget(connection: sa.Connection, population: str) -> Budget:
    """The account of `population`.

    Raises:
        BudgetRefused: there is none.
    """
    row = _account(connection, population)
    if row is None:
        raise _unknown(connection, population)
    return Budget(
        population=population,
        unit=PrivacyUnit.parse(row.unit),
        neighbours=Neighbours(row.neighbours),
        limit=PrivacyGuarantee(decode(row.limit_epsilon), decode(row.limit_delta)),
        spent=_spent(connection, population),
    )


def require_admitted(account: Budget, charge: PrivacyGuarantee, release: str) -> None:
    """Check that the account admits the charge.

    Raises:
        BudgetRefused: it does not; the text says what was asked, what is left and what would fit.
    """
    if account.admits(charge):
        return
    left, limit, spent = account.left, account.limit, account.spent
    fits = f"ask for at most {_show(left)}, or " if left.epsilon > 0 else "nothing fits; "
    need = Amount(
        max(limit.epsilon, spent.epsilon + charge.epsilon), max(limit.delta, spent.delta + charge.delta)
    )
    raise BudgetRefused(
        "budget_exhausted",
        f"release {release} asks for {_show(charge, rounding=ROUND_UP)}; population {account.population} "
        f"has {_show(left)} left of {_show(limit)}",
        way_out=f"{fits}raise the limit to {_show(need, rounding=ROUND_UP)} or more with `{_SET}`",
    )


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


def _account(connection: sa.Connection, population: str) -> sa.Row[tuple[str, str, str, str, str]] | None:
    return connection.execute(
        sa.select(store.accounts).where(store.accounts.c.population == population)
    ).one_or_none()


def _spent(connection: sa.Connection, population: str) -> Amount:
    charges = store.releases.c.charge_epsilon, store.releases.c.charge_delta
    rows = connection.execute(
        sa.select(*charges, sa.func.count().label("times"))
        .where(
            store.releases.c.population == population,
            store.releases.c.state != ReleaseState.ABORTED.value,  # given back
        )
        .group_by(*charges)
    ).all()
    return Amount(
        epsilon=sum((decode(row.charge_epsilon) * row.times for row in rows), Fraction(0)),
        delta=sum((decode(row.charge_delta) * row.times for row in rows), Fraction(0)),
    )


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
