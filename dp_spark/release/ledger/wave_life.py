"""The steps of a wave after its batches: closed, estimated, held or published, sealed."""

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.batches import last_batch
from dp_spark.release.ledger.decisions import require_not_burned
from dp_spark.release.ledger.keys import unwrap_key, wave_owner
from dp_spark.release.ledger.records import StoredFile, stored_file
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.wave_decisions import destroy_wave_key
from dp_spark.release.ledger.wave_records import is_cleared_wave, wave_row
from dp_spark.release.ledger.wave_steps import (
    illegal_wave_step,
    require_open,
    require_row_not_ended,
    wave_step,
)
from dp_spark.release.ledger.waves import WaveId, WaveState

_DONE = frozenset({WaveState.PUBLISHED, WaveState.SEALED})


def wave_key(connection: sa.Connection, wave_id: WaveId, master_key: bytes) -> bytes:
    """The 32 bytes from which tokens and reports of the wave come, while it is open.

    Raises:
        LedgerRefused: the wave is unknown, or closed or over and its key gone.
        BudgetRefused: its population has stopped.
        SetupRefused: the key does not open with this master key.
    """
    row = wave_row(connection, wave_id)
    require_open(row)
    require_not_burned(connection, wave_id.population)
    keys = store.wave_keys
    wrapped = connection.execute(sa.select(keys.c.wrapped).where(keys.c.wave == row.id)).scalar_one()
    return unwrap_key(master_key, wrapped, wave_owner(str(wave_id)))


def close_wave(
    connection: sa.Connection, wave_id: WaveId, batches: int, counts: StoredFile, stamp: Stamp
) -> StoredFile:
    """The wave's counts; the first that come are, and the key is destroyed with them.

    A population that has stopped may close too: nothing is published by it, and a key goes.

    Raises:
        LedgerRefused: the wave is unknown or over, or has other batches than the `batches` first ones.
    """
    row = wave_row(connection, wave_id)
    require_row_not_ended(row)
    standing = stored_file(row.counts_path, row.counts_digest)
    if standing is not None:
        return standing
    last = last_batch(connection, row.id)
    if batches != last:
        raise LedgerRefused(
            "other_batches",
            f"batches = {batches} were counted of wave {wave_id}, which has {last}",
            way_out="count the reports of all its batches, then close it",
        )
    here = {"counts_path": counts.path, "counts_digest": counts.digest, "closed_at": stamp.at}
    wave_step(connection, row, WaveState.CLOSED, stamp, **here)
    destroy_wave_key(connection, row.id)
    return counts


def stage_estimates(connection: sa.Connection, wave_id: WaveId, estimates: StoredFile) -> StoredFile:
    """The wave's estimates; the first that come are.

    Raises:
        LedgerRefused: the wave is unknown or over, or not closed.
        BudgetRefused: its population has stopped.
    """
    row = wave_row(connection, wave_id)
    require_row_not_ended(row)
    standing = stored_file(row.estimates_path, row.estimates_digest)
    if standing is not None:
        return standing
    if row.state == WaveState.OPEN:
        raise LedgerRefused(
            "wave_open",
            f"wave {wave_id} is open: its reports are not counted yet",
            way_out="close it first",
        )
    require_not_burned(connection, wave_id.population)
    here = {"estimates_path": estimates.path, "estimates_digest": estimates.digest}
    rows.update(connection, store.waves, store.waves.c.id == row.id, **here)
    return estimates


def hold_wave(connection: sa.Connection, wave_id: WaveId, failed: Sequence[str], stamp: Stamp) -> None:
    """Keep the estimates from being published; `failed` names the checks, and no values.

    Raises:
        LedgerRefused: the wave is unknown or over, has no estimates, or is published.
    """
    row = wave_row(connection, wave_id)
    require_row_not_ended(row)
    _require_estimates(row, WaveState.HELD)
    wave_step(connection, row, WaveState.HELD, stamp, failed_checks=failed)


def record_wave_publication(
    connection: sa.Connection, wave_id: WaveId, sink: str, copy: StoredFile, stamp: Stamp
) -> None:
    """Note that a sink has a copy; a second time changes nothing.

    Raises:
        LedgerRefused: the wave is unknown, held or over, has no estimates or is sealed, the copy is neither
            of its counts nor of its estimates, or the sink has it elsewhere.
        BudgetRefused: its population has stopped.
    """
    row = wave_row(connection, wave_id)
    _require_publishable(connection, row)
    if copy.digest not in {row.counts_digest, row.estimates_digest}:
        raise _other_copy(wave_id, sink, "a copy that is neither of the counts nor of the estimates")
    table = store.wave_publications
    here = sa.and_(table.c.wave == row.id, table.c.sink == sink)
    known = connection.execute(sa.select(table).where(here)).one_or_none()
    if known is not None and (known.target, known.digest) != (copy.path, copy.digest):
        raise _other_copy(wave_id, sink, f"its copy at {known.target!r}, not this one at {copy.path!r}")
    if known is not None:
        return
    if row.state == WaveState.SEALED:
        raise illegal_wave_step(row, WaveState.PUBLISHED)
    values = {"wave": row.id, "sink": sink, "target": copy.path, "digest": copy.digest, "at": stamp.at}
    rows.insert(connection, table, **values)


def publish_wave(connection: sa.Connection, wave_id: WaveId, sinks: Collection[str], stamp: Stamp) -> None:
    """Declare the wave published, once each of its `sinks` has a copy; a second time changes nothing.

    Raises:
        LedgerRefused: the wave is unknown, held or over, has no estimates, or a sink is missing.
        BudgetRefused: its population has stopped.
    """
    row = wave_row(connection, wave_id)
    if row.state in _DONE:
        return
    _require_publishable(connection, row)
    table = store.wave_publications
    recorded = connection.scalars(sa.select(table.c.sink).where(table.c.wave == row.id)).all()
    missing = sorted(set(sinks) - set(recorded))
    if missing:
        raise LedgerRefused(
            "sinks_missing",
            f"wave {wave_id} is not at every sink; missing: {', '.join(missing)}",
            way_out="copy reports and estimates there and record it; the wave stays as it is meanwhile",
        )
    wave_step(connection, row, WaveState.PUBLISHED, stamp)


def seal_wave(connection: sa.Connection, wave_id: WaveId, statement: StoredFile, stamp: Stamp) -> StoredFile:
    """The wave's statement; the first that comes is, and nothing follows.

    Raises:
        LedgerRefused: the wave is unknown, over or not published.
    """
    row = wave_row(connection, wave_id)
    require_row_not_ended(row)
    standing = stored_file(row.statement_path, row.statement_digest)
    if standing is not None:
        return standing
    here = {"statement_path": statement.path, "statement_digest": statement.digest}
    wave_step(connection, row, WaveState.SEALED, stamp, **here)
    return statement


def _require_publishable(connection: sa.Connection, row: sa.Row[Any]) -> None:
    """Check that estimates are there and nothing keeps them back."""
    require_row_not_ended(row)
    require_not_burned(connection, row.population)
    _require_estimates(row, WaveState.PUBLISHED)
    if row.state == WaveState.HELD and not is_cleared_wave(connection, row.id):
        raise LedgerRefused(
            "wave_held",
            f"wave {row.population}/{row.survey}/{row.name} is held: a check failed on its estimates",
            way_out="decide to publish it nevertheless, with a reason, or leave it held",
        )


def _require_estimates(row: sa.Row[Any], to: WaveState) -> None:
    if row.estimates_digest is None:
        raise illegal_wave_step(row, to)


def _other_copy(wave_id: WaveId, sink: str, what: str) -> LedgerRefused:
    return LedgerRefused(
        "other_copy",
        f"sink {sink!r} of wave {wave_id} has {what}",
        way_out="a wave is copied once to each sink; remove the stray copy and publish it again",
    )
