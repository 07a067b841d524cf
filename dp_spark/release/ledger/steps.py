"""Compare-and-set: one step of a release, by the newest attempt only, with its line in the events."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.claims import Claim
from dp_spark.release.ledger.records import is_release
from dp_spark.release.ledger.states import ReleaseState, successors


@dataclass(frozen=True, slots=True)
class Stamp:
    """When, where and by whom a step was made; never a reason for anything."""

    at: str
    host: str
    pid: int
    os_user: str


@dataclass(frozen=True, slots=True)
class Move:
    """A step as the events tell it; a new attempt or a repeated step has the same state on both sides."""

    from_state: ReleaseState | None
    to_state: ReleaseState
    fence: int
    failed_checks: Sequence[str] = ()


def release_row(connection: sa.Connection, claim: Claim) -> sa.Row[Any]:
    """The row of the claim's release, whichever attempt is the newest.

    Raises:
        LedgerRefused: this ledger never gave out the claim; it may have been restored from a backup.
    """
    row = connection.execute(sa.select(store.releases).where(is_release(claim.release_id))).one_or_none()
    if row is None or not 1 <= claim.fence <= row.fence:
        raise LedgerRefused(
            "unknown_claim",
            f"this ledger never gave out attempt {claim.fence} of release {claim.release_id}",
            way_out="if the ledger was restored from a backup, charge what was released since: "
            "`dp-spark ledger charge`",
        )
    return row


def newest_row(connection: sa.Connection, claim: Claim) -> sa.Row[Any]:
    """The row of the claim's release, if the claim is its newest attempt.

    Raises:
        LedgerRefused: a later attempt exists, or the claim is unknown.
    """
    row = release_row(connection, claim)
    if row.fence != claim.fence:
        raise _superseded(claim, row.fence)
    return row


def step(
    connection: sa.Connection,
    claim: Claim,
    to: ReleaseState,
    stamp: Stamp,
    *,
    failed_checks: Sequence[str] = (),
    **values: str,
) -> None:
    """Move the release to `to` and set `values` in its row, if the claim is the newest and the step is legal.

    Raises:
        LedgerRefused: a later attempt exists, or `to` does not follow the release's state.
    """
    row = newest_row(connection, claim)
    state = ReleaseState(row.state)
    if to not in successors(state):
        raise illegal_step(claim, state, to)
    columns = store.releases.c
    unchanged = sa.and_(columns.id == row.id, columns.state == row.state, columns.fence == claim.fence)
    if rows.update(connection, store.releases, unchanged, state=to.value, **values) != 1:
        raise _superseded(claim, claim.fence + 1)
    record_step(connection, row.id, Move(state, to, claim.fence, failed_checks), stamp)


def record_step(connection: sa.Connection, release: int, move: Move, stamp: Stamp) -> None:
    """Append a line to the events."""
    line = {
        "release": release,
        "from_state": move.from_state and move.from_state.value,
        "to_state": move.to_state.value,
        "fence": move.fence,
        "failed_checks": json.dumps(list(move.failed_checks)) if move.failed_checks else None,
        "at": stamp.at,
        "host": stamp.host,
        "pid": stamp.pid,
    }
    rows.insert(connection, store.events, **line)


def illegal_step(claim: Claim, state: ReleaseState, to: ReleaseState) -> LedgerRefused:
    """The refusal of a step that does not follow the state."""
    return LedgerRefused(
        "illegal_step",
        f"release {claim.release_id} is {state} and cannot become {to}",
        way_out="run the release again: a new attempt goes on from where it stands",
    )


def _superseded(claim: Claim, newest: int) -> LedgerRefused:
    return LedgerRefused(
        "superseded",
        f"attempt {claim.fence} of release {claim.release_id} was superseded by attempt {newest}",
        way_out="let this run end; the later attempt finishes the release",
    )
