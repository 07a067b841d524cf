"""Which revision of a release a run is about."""

from dataclasses import replace

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import store
from dp_spark.release.ledger.states import ENDED, ReleaseId, ReleaseState

_UNDONE = {ReleaseState.ABORTED.value, ReleaseState.ABANDONED.value}


def current_revision(connection: sa.Connection, first: ReleaseId) -> ReleaseId:
    """The newest revision that is neither aborted nor abandoned; the first if there is none."""
    known = _revisions(connection, first)
    standing = [row.revision for row in known if row.state not in _UNDONE]
    return replace(first, revision=max(standing, default=first.revision))


def revision_for(connection: sa.Connection, first: ReleaseId, reason: str) -> ReleaseId:
    """The revision that `reason` asks for: the one that was begun for it, else the next.

    Raises:
        LedgerRefused: the reason is blank, there is nothing to revise, or the newest revision is not ended.
    """
    known = _revisions(connection, first)
    if not reason.strip() or not known:
        what = "there is nothing to revise" if reason.strip() else "a revision needs a reason"
        raise LedgerRefused(
            "no_revision",
            f"release {first}: {what}",
            way_out="run it without --revise, or say why it is revised",
        )
    newest = known[-1]
    if newest.revision_reason == reason and newest.state not in _UNDONE:
        return replace(first, revision=newest.revision)
    if newest.state not in {state.value for state in ENDED}:
        raise LedgerRefused(
            "revision_open",
            f"revision {newest.revision} of release {replace(first, revision=newest.revision)} is "
            f"{newest.state}: it is not ended",
            way_out="run it again until it is sealed, or decide on it with `dp-spark release abort`, "
            "`publish-held` or `abandon`",
        )
    return replace(first, revision=newest.revision + 1)


def is_first(connection: sa.Connection, release: ReleaseId) -> bool:
    """Whether every revision before it was aborted."""
    before = (row for row in _revisions(connection, release) if row.revision < release.revision)
    return all(row.state == ReleaseState.ABORTED.value for row in before)


def _revisions(connection: sa.Connection, first: ReleaseId) -> list[sa.Row[tuple[int, str, str | None]]]:
    columns = store.releases.c
    return list(
        connection.execute(
            sa.select(columns.revision, columns.state, columns.revision_reason)
            .where(
                columns.population == first.population,
                columns.name == first.name,
                columns.period_key == first.period_key,
            )
            .order_by(columns.revision)
        )
    )
