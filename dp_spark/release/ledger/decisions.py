"""What people decide about a release, each with a reason that is kept: abort, abandon, burn, publish."""

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.adhoc import Cost
from dp_spark.release.ledger.admission import Receipt
from dp_spark.release.ledger.exact import decode
from dp_spark.release.ledger.keys import WRAPPED_BYTES
from dp_spark.release.ledger.persons import WHOLE
from dp_spark.release.ledger.records import is_release
from dp_spark.release.ledger.states import ENDED, ReleaseId, ReleaseState, successors
from dp_spark.release.ledger.steps import Move, Stamp, record_step
from dp_spark.release.ledger.terms import labels_of, put_standing, standing_of
from dp_spark.release.spec import PoolKind


class Decision(StrEnum):
    """A decision; all but the last are the state that it leads to."""

    ABORT = ReleaseState.ABORTED.value  # nothing was read: the charge is given back
    ABANDON = ReleaseState.ABANDONED.value  # what was read or held is never published; the charge stands
    BURN = ReleaseState.BURNED.value  # the key has leaked; the population stops
    PUBLISH = "publish"  # a held artefact is published although a gate failed


def decide(
    connection: sa.Connection, release_id: ReleaseId, decision: Decision, reason: str, stamp: Stamp
) -> None:
    """Record a decision and take the step that it means; attempts under way are superseded.

    Raises:
        LedgerRefused: there is no such release, the reason is blank, or its state does not allow that.
    """
    if not reason.strip():
        raise LedgerRefused(
            "reason_missing",
            f"release {release_id} cannot be decided on without a reason",
            way_out="say who decided it and why; it is kept for good",
        )
    row = connection.execute(sa.select(store.releases).where(is_release(release_id))).one_or_none()
    if row is None:
        raise LedgerRefused(
            "unknown_release",
            f"the ledger knows no release {release_id}",
            way_out="name it population/release/period/revision, as `dp-spark run` printed it",
        )
    state = ReleaseState(row.state)
    _require_allowed(release_id, state, decision)
    rows.insert(
        connection,
        store.decisions,
        release=row.id,
        decision=decision.value,
        reason=reason,
        os_user=stamp.os_user,
        at=stamp.at,
    )
    if decision is Decision.PUBLISH:
        return
    if decision is Decision.ABORT:
        _give_back(connection, row)
    _end(connection, row, ReleaseState(decision.value), stamp)
    if decision is Decision.BURN:
        _stop_attempts(connection, release_id.population, stamp)


def is_cleared(connection: sa.Connection, release: int) -> bool:
    """Whether somebody decided that a held release is to be published."""
    table = store.decisions
    asked = sa.select(table.c.id).where(
        table.c.release == release, table.c.decision == Decision.PUBLISH.value
    )
    return connection.scalars(asked).first() is not None


def require_not_burned(connection: sa.Connection, population: str) -> None:
    """Check that no release of the population has lost its key to others.

    Raises:
        BudgetRefused: one has: what it spent counts as infinite.
    """
    columns = store.releases.c
    burned = connection.execute(
        sa.select(columns.name, columns.period_key, columns.revision).where(
            columns.population == population, columns.state == ReleaseState.BURNED.value
        )
    ).first()
    if burned is not None:
        raise BudgetRefused(
            "population_burned",
            f"release {population}/{burned.name}/{burned.period_key}/{burned.revision} is burned: its key "
            "has leaked, its epsilon counts as infinite, and its population has stopped",
            way_out="nothing can be released about these people any more; say so to whoever answers for them",
        )


def destroy_key(connection: sa.Connection, release: int) -> None:
    """Overwrite the wrapped key of a release."""
    # Zeros of the same length, not NULL: the row is overwritten where it stands (see store.release_keys).
    keys = store.release_keys
    rows.update(connection, keys, keys.c.release == release, wrapped=bytes(WRAPPED_BYTES))


def _require_allowed(release_id: ReleaseId, state: ReleaseState, decision: Decision) -> None:
    if decision is Decision.PUBLISH:
        allowed = state is ReleaseState.HELD
    else:
        allowed = ReleaseState(decision.value) in successors(state)
    if not allowed:
        raise LedgerRefused(
            "illegal_step",
            f"release {release_id} is {state}: it cannot be {_DONE[decision]}",
            way_out=_WHEN[decision],
        )


_DONE = {
    Decision.ABORT: "aborted",
    Decision.ABANDON: "abandoned",
    Decision.BURN: "burned",
    Decision.PUBLISH: "published by decision",
}
_WHEN = {
    Decision.ABORT: "only a reserved release, of which nothing was read, gives its charge back; a later one "
    "is run again until it is sealed or held",
    Decision.ABANDON: "only a held release is abandoned, or one that was read and has no artefact",
    Decision.BURN: "an aborted release never had noise, and a burned one stays so",
    Decision.PUBLISH: "only a held release needs that; run any other again",
}


def _give_back(connection: sa.Connection, row: sa.Row[Any]) -> None:
    """Take what a release took out of the sums that hold it."""
    if row.receipt is None:
        charge = Cost(decode(row.charge_epsilon), decode(row.charge_delta))
        receipt = Receipt(pool=PoolKind.SUMS, cost=charge)
        if WHOLE not in labels_of(connection, row.population):
            return  # no stored sum holds it
    else:
        receipt = Receipt.from_text(row.receipt)
    for label in receipt.labels:
        standing = standing_of(connection, row.population, label).minus(receipt.took)
        put_standing(connection, row.population, label, standing)


def _end(connection: sa.Connection, row: sa.Row[Any], to: ReleaseState, stamp: Stamp) -> None:
    table = store.releases
    rows.update(connection, table, table.c.id == row.id, state=to.value, fence=row.fence + 1)
    destroy_key(connection, row.id)
    record_step(connection, row.id, Move(ReleaseState(row.state), to, row.fence + 1), stamp)


def _stop_attempts(connection: sa.Connection, population: str, stamp: Stamp) -> None:
    """Supersede whatever is under way in the population."""
    table = store.releases
    ended = [state.value for state in ENDED]
    is_open = sa.and_(table.c.population == population, table.c.state.not_in(ended))
    for row in connection.execute(sa.select(table).where(is_open)).all():
        rows.update(connection, table, table.c.id == row.id, fence=row.fence + 1)
        state = ReleaseState(row.state)
        record_step(connection, row.id, Move(state, state, row.fence + 1), stamp)
