"""What people decide about a wave, each with a reason that is kept: abandon, burn, publish."""

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.keys import WRAPPED_BYTES
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.wave_records import WAVE_CLEARED, wave_row
from dp_spark.release.ledger.wave_steps import can_become, id_of, require_row_not_ended, wave_step
from dp_spark.release.ledger.waves import SurveyAccount, WaveId, WaveState


class WaveEnd(StrEnum):
    """A decision that ends a wave, by the state that it leads to."""

    ABANDON = WaveState.ABANDONED.value  # nothing of it is ever published; the charge stands
    BURN = WaveState.BURNED.value  # the key or the reports of persons have leaked; the survey stops


def end_wave(connection: sa.Connection, wave_id: WaveId, end: WaveEnd, reason: str, stamp: Stamp) -> None:
    """Record a decision that ends a wave, and destroy its key; a second time changes nothing.

    Whatever is under way finds the wave ended at its next step. A population that has stopped may do it too.

    Raises:
        LedgerRefused: there is no such wave, the reason is blank, or its state does not allow that,
            or it is to be abandoned and a sink has it.
    """
    row = wave_row(connection, wave_id)
    _require_reason(wave_id, reason)
    to = WaveState(end.value)
    if row.state == to:
        return
    if not can_become(row, to):
        raise LedgerRefused(
            "illegal_step", f"wave {wave_id} is {row.state}: it cannot be {to}", way_out=_instead(row)
        )
    if end is WaveEnd.ABANDON:
        _require_unpublished(connection, row)
    _record(connection, row, end.value, reason, stamp)
    wave_step(connection, row, to, stamp)
    destroy_wave_key(connection, row.id)


def clear_wave(connection: sa.Connection, wave_id: WaveId, reason: str, stamp: Stamp) -> None:
    """Record that somebody decided to publish a held wave although a gate failed.

    Raises:
        LedgerRefused: the wave is unknown, over or not held, or the reason is blank.
    """
    row = wave_row(connection, wave_id)
    _require_reason(wave_id, reason)
    require_row_not_ended(row)
    if row.state != WaveState.HELD:
        raise LedgerRefused(
            "illegal_step",
            f"wave {wave_id} is {row.state}: there is nothing to decide on",
            way_out="only a held wave is published by decision; after `dp-spark survey close`, `dp-spark "
            "survey estimate` publishes any other, and serves a sealed one again",
        )
    _record(connection, row, WAVE_CLEARED, reason, stamp)


def destroy_wave_key(connection: sa.Connection, wave: int) -> None:
    """Overwrite the wrapped key of a wave."""
    # Zeros of the same length, not NULL: the row is overwritten where it stands (see store.release_keys).
    keys = store.wave_keys
    rows.update(connection, keys, keys.c.wave == wave, wrapped=bytes(WRAPPED_BYTES))


def require_no_burned_wave(account: SurveyAccount) -> None:
    """Check that no wave of the survey has lost its key or its reports to others.

    Raises:
        BudgetRefused: one has: what was given away by it counts as infinite.
    """
    if account.burned:
        raise BudgetRefused(
            "survey_burned",
            f"wave {account.burned[0]} is burned: its key or its reports have leaked, its epsilon counts as "
            "infinite, and its survey has stopped",
            way_out="these people are not asked this question any more; say so to whoever answers for them",
        )


def _record(connection: sa.Connection, row: sa.Row[Any], decision: str, reason: str, stamp: Stamp) -> None:
    who = {"reason": reason, "os_user": stamp.os_user, "at": stamp.at}
    rows.insert(connection, store.wave_decisions, wave=row.id, decision=decision, **who)


def _require_unpublished(connection: sa.Connection, row: sa.Row[Any]) -> None:
    """Check that no sink was given the wave: what is abandoned is nowhere published."""
    columns = store.wave_publications.c
    sinks = connection.scalars(sa.select(columns.sink).where(columns.wave == row.id).order_by(columns.sink))
    if published := sinks.all():
        raise LedgerRefused(
            "wave_partly_published",
            f"wave {id_of(row)} cannot be abandoned: it is published already, to {', '.join(published)}",
            way_out="publish the rest (dp-spark survey estimate), or burn it, if its key or reports have "
            "leaked",
        )


def _require_reason(wave_id: WaveId, reason: str) -> None:
    if not reason.strip():
        raise LedgerRefused(
            "reason_missing",
            f"wave {wave_id} cannot be decided on without a reason",
            way_out="say who decided it and why; it is kept for good",
        )


def _instead(row: sa.Row[Any]) -> str:
    """What can be done about a wave that cannot be abandoned."""
    return {
        WaveState.CLOSED: "only an open or a held wave is abandoned: a closed one has no key and no "
        "reports of persons; leave it unestimated, or burn it if they have leaked",
        WaveState.BURNED: "a burned wave stays so",
    }.get(WaveState(row.state), "only an open or a held wave is abandoned: what is published stays so")
