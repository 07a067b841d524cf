"""The steps of a release after its reservation."""

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.claims import Claim
from dp_spark.release.ledger.decisions import destroy_key
from dp_spark.release.ledger.keys import unwrap_key
from dp_spark.release.ledger.records import PublicationState, StoredFile, is_release, stored_file
from dp_spark.release.ledger.states import ReleaseState
from dp_spark.release.ledger.steps import (
    Move,
    Stamp,
    illegal_step,
    newest_row,
    record_step,
    release_row,
    step,
)

_KEYED = frozenset({ReleaseState.RESERVED, ReleaseState.READING})
_PUBLISHING = frozenset({ReleaseState.STAGED, ReleaseState.HELD, ReleaseState.PUBLISHED})


def release_key(connection: sa.Connection, claim: Claim, master_key: bytes) -> bytes:
    """The 32 bytes of the release key, for the newest attempt, until an artefact is staged.

    Raises:
        LedgerRefused: an artefact is staged and the key is gone, or a later attempt exists.
        SetupRefused: the key does not open with this master key.
    """
    row = newest_row(connection, claim)
    if row.state not in _KEYED:
        raise LedgerRefused(
            "key_destroyed",
            f"release {claim.release_id} is {row.state}: its key was destroyed when its artefact was staged",
            way_out="go on with the staged artefact; to compute afresh, make a new revision",
        )
    keys = store.release_keys
    wrapped = connection.execute(sa.select(keys.c.wrapped).where(keys.c.release == row.id)).scalar_one()
    return unwrap_key(master_key, wrapped, str(claim.release_id))


def stage(
    connection: sa.Connection, claim: Claim, artefact: StoredFile, stamp: Stamp
) -> tuple[StoredFile, bool]:
    """The release's artefact, and whether this attempt staged it; the first attempt to come here does.

    Older attempts may win: they hold the same key and plan, and what they computed is as good. The key is
    destroyed in the same transaction.

    Raises:
        LedgerRefused: no attempt has started to read.
    """
    columns = store.releases.c
    here = is_release(claim.release_id)
    took = rows.update(
        connection,
        store.releases,
        sa.and_(here, columns.state == ReleaseState.READING.value, columns.fence >= claim.fence),
        state=ReleaseState.STAGED.value,
        artefact_digest=artefact.digest,
        artefact_path=artefact.path,
        artefact_fence=claim.fence,
    )
    row = release_row(connection, claim)
    if took == 1:
        destroy_key(connection, row.id)
        record_step(connection, row.id, Move(ReleaseState.READING, ReleaseState.STAGED, claim.fence), stamp)
    staged = stored_file(row.artefact_path, row.artefact_digest)
    if staged is None:
        raise illegal_step(claim, ReleaseState(row.state), ReleaseState.STAGED)
    return staged, row.artefact_fence == claim.fence


def hold(connection: sa.Connection, claim: Claim, failed: Sequence[str], stamp: Stamp) -> None:
    """Keep the artefact from being published; `failed` names the checks, and no values.

    Raises:
        LedgerRefused: the step is illegal, or a later attempt exists.
    """
    step(connection, claim, ReleaseState.HELD, stamp, failed_checks=failed)


def record_publication(
    connection: sa.Connection, claim: Claim, sink: str, copy: StoredFile, stamp: Stamp
) -> None:
    """Note that a sink has the artefact; a second time changes nothing.

    Raises:
        LedgerRefused: the copy is not the staged artefact, the sink has it elsewhere, nothing is staged, the
            release is sealed, or a later attempt exists.
    """
    row = newest_row(connection, claim)
    if copy.digest != row.artefact_digest:
        raise _other_copy(claim, sink, "a copy whose digest is not that of the staged artefact")
    table = store.publications
    known = connection.execute(
        sa.select(table).where(table.c.release == row.id, table.c.sink == sink)
    ).one_or_none()
    if known is not None and known.target != copy.path:
        raise _other_copy(claim, sink, f"its copy at {known.target!r}, not at {copy.path!r}")
    if known is not None:
        return
    if row.state not in _PUBLISHING:
        raise illegal_step(claim, ReleaseState(row.state), ReleaseState.PUBLISHED)
    values = {"release": row.id, "sink": sink, "target": copy.path, "state": PublicationState.COPIED.value}
    rows.insert(connection, table, **values, artefact_digest=copy.digest, at=stamp.at)


def publish(connection: sa.Connection, claim: Claim, sinks: Collection[str], stamp: Stamp) -> None:
    """Declare the release published, once each of its `sinks` has the artefact.

    Raises:
        LedgerRefused: a sink is missing, the step is illegal, or a later attempt exists.
    """
    step(connection, claim, ReleaseState.PUBLISHED, stamp)
    table = store.publications
    release = newest_row(connection, claim).id
    recorded = connection.scalars(sa.select(table.c.sink).where(table.c.release == release)).all()
    missing = sorted(set(sinks) - set(recorded))
    if missing:
        raise LedgerRefused(
            "sinks_missing",
            f"release {claim.release_id} is not at every sink; missing: {', '.join(missing)}",
            way_out="copy the artefact there and record it; the release stays staged meanwhile",
        )


def seal(connection: sa.Connection, claim: Claim, statement: StoredFile, stamp: Stamp) -> None:
    """Close the release with its statement.

    Raises:
        LedgerRefused: the release is not published, or a later attempt exists.
    """
    step(
        connection,
        claim,
        ReleaseState.SEALED,
        stamp,
        statement_path=statement.path,
        statement_digest=statement.digest,
    )


def _other_copy(claim: Claim, sink: str, what: str) -> LedgerRefused:
    return LedgerRefused(
        "other_copy",
        f"sink {sink!r} of release {claim.release_id} has {what}",
        way_out="a release is copied once to each sink; remove the stray copy and run the release again",
    )
