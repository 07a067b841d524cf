"""The charge of a release that this ledger has forgotten: it was made after the backup that was restored.

Nothing of it is read, drawn or published again: it is charged as a run would charge it, and abandoned, in one
transaction. So its charge counts, its key never gives noise, and a run that comes back to it is refused.
"""

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import store
from dp_spark.release.ledger.decisions import Decision, decide
from dp_spark.release.ledger.records import is_release
from dp_spark.release.ledger.reserve import Reservation, reserve
from dp_spark.release.ledger.states import ReleaseId, ReleaseState
from dp_spark.release.ledger.steps import Stamp, step


def charge_forgotten(
    connection: sa.Connection, asked: Reservation, reason: str, master_key: bytes, stamp: Stamp
) -> None:
    """Charge a release that the ledger does not know, and end it as one that was read.

    Raises:
        BudgetRefused: the population is unknown or does not admit the charge.
        LedgerRefused: the release is known, so its charge counts; the account counts another unit; or the
            reason is blank.
    """
    state = connection.scalar(sa.select(store.releases.c.state).where(is_release(asked.release_id)))
    if state is not None:
        raise not_forgotten(asked.release_id, ReleaseState(state))
    claim = reserve(connection, asked, master_key, stamp)
    step(connection, claim, ReleaseState.READING, stamp)
    decide(connection, asked.release_id, Decision.ABANDON, reason, stamp)


def not_forgotten(release: ReleaseId, state: ReleaseState) -> LedgerRefused:
    """The refusal to charge a second time for what the ledger knows."""
    return LedgerRefused(
        "release_known",
        f"release {release} is {state} in this ledger: nothing of it was forgotten",
        way_out="nothing is to be charged for it; go on with the next one, or run it if it is not ended",
    )
