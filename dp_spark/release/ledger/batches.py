"""Batches: the reports that one run adds to an open wave, numbered without a gap, each number once."""

from collections.abc import Iterator

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.decisions import require_not_burned
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.wave_records import wave_row
from dp_spark.release.ledger.wave_steps import record_wave_event, require_open
from dp_spark.release.ledger.waves import Batch, BatchClaim, WaveId, WaveState


def begin_batch(connection: sa.Connection, wave_id: WaveId, stamp: Stamp) -> BatchClaim:
    """A claim on the next number, with a fence that no other claim on the wave has.

    Whom the batches before it hold is to be read after this, never before: a batch that came between would
    not be among them, and the next number would be free all the same.

    Raises:
        LedgerRefused: the wave is unknown or closed.
        BudgetRefused: its population has stopped.
    """
    row = wave_row(connection, wave_id)
    require_open(row)
    require_not_burned(connection, wave_id.population)
    fence = row.fence + 1
    rows.update(connection, store.waves, store.waves.c.id == row.id, fence=fence)
    record_wave_event(connection, row.id, (WaveState.OPEN, WaveState.OPEN), fence, stamp)
    return BatchClaim(wave_id, last_batch(connection, row.id) + 1, fence)


def commit_batch(connection: sa.Connection, claim: BatchClaim, batch: Batch, stamp: Stamp) -> bool:
    """Whether the batch is the wave's; False where its number is taken by another.

    The number alone decides, whatever was begun meanwhile: nobody has a report in it who has one in a batch
    before, and that is all it must hold. The same batch a second time is there already: True.

    Raises:
        LedgerRefused: the wave is unknown or closed, the batch is not that of the claim, or this ledger never
            gave the claim out.
        BudgetRefused: the population has stopped.
    """
    row = wave_row(connection, claim.wave_id)
    require_open(row)
    require_not_burned(connection, claim.wave_id.population)
    if batch.number != claim.number or batch.reports < 0:
        raise LedgerRefused(
            "other_batch",
            f"batch {batch.number} of {batch.reports} reports is not the batch {claim.number} of wave "
            f"{claim.wave_id} that was begun",
            way_out="commit a batch of 0 reports or more under the number that was begun",
        )
    last = last_batch(connection, row.id)
    if not (1 <= claim.fence <= row.fence and 1 <= claim.number <= last + 1):
        raise LedgerRefused(
            "unknown_claim",
            f"this ledger never gave out attempt {claim.fence} at batch {claim.number} of wave "
            f"{claim.wave_id}",
            way_out="begin the batch again; if the ledger was restored from a backup, first lower its "
            "limits by what was charged since",
        )
    table = store.wave_batches
    if claim.number <= last:
        here = sa.and_(table.c.wave == row.id, table.c.number == claim.number)
        known = connection.execute(sa.select(table).where(here)).one()
        return (known.fence, known.path, known.digest) == (claim.fence, batch.path, batch.digest)
    rows.insert(
        connection,
        table,
        wave=row.id,
        number=batch.number,
        fence=claim.fence,
        path=batch.path,
        digest=batch.digest,
        reports=batch.reports,
        at=stamp.at,
    )
    return True


def last_batch(connection: sa.Connection, wave: int) -> int:
    """The number of a wave's newest batch; 0 before the first."""
    table = store.wave_batches
    return connection.scalar(sa.select(sa.func.max(table.c.number)).where(table.c.wave == wave)) or 0


def waves_with_gaps(connection: sa.Connection) -> Iterator[int]:
    """The waves whose batches are not numbered from 1 up without a gap."""
    table = store.wave_batches
    columns = sa.func.count(), sa.func.min(table.c.number), sa.func.max(table.c.number)
    asked = sa.select(table.c.wave, *columns).group_by(table.c.wave).order_by(table.c.wave)
    for wave, many, first, last in connection.execute(asked):
        if (first, last) != (1, many):
            yield wave
