"""Steps of a wave: which state may follow which, each with its line in the events.

Unlike those of a release they are no attempt's: whoever comes first decides, and who comes later goes on with
what was decided.
"""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.waves import ENDED_WAVES, WaveId, WaveState

_SUCCESSORS: dict[WaveState, frozenset[WaveState]] = {
    WaveState.OPEN: frozenset({WaveState.CLOSED, WaveState.ABANDONED, WaveState.BURNED}),
    WaveState.CLOSED: frozenset({WaveState.HELD, WaveState.PUBLISHED, WaveState.BURNED}),
    WaveState.HELD: frozenset({WaveState.HELD, WaveState.PUBLISHED, WaveState.ABANDONED, WaveState.BURNED}),
    WaveState.PUBLISHED: frozenset({WaveState.SEALED, WaveState.BURNED}),
    WaveState.SEALED: frozenset({WaveState.BURNED}),
    WaveState.ABANDONED: frozenset({WaveState.BURNED}),
    WaveState.BURNED: frozenset(),
}


def id_of(row: sa.Row[Any]) -> WaveId:
    """The name of the wave of a row."""
    return WaveId(row.population, row.survey, row.name)


def wave_step(
    connection: sa.Connection,
    row: sa.Row[Any],
    to: WaveState,
    stamp: Stamp,
    *,
    failed_checks: Sequence[str] = (),
    **values: str,
) -> None:
    """Move the wave of `row`, as it stands in this transaction, to `to`, and set `values` in it.

    Raises:
        LedgerRefused: `to` does not follow the wave's state.
    """
    state = WaveState(row.state)
    if not can_become(row, to):
        raise illegal_wave_step(row, to)
    rows.update(connection, store.waves, store.waves.c.id == row.id, state=to.value, **values)
    record_wave_event(connection, row.id, (state, to), row.fence, stamp, failed_checks)


def record_wave_event(
    connection: sa.Connection,
    wave: int,
    states: tuple[WaveState | None, WaveState],
    fence: int,
    stamp: Stamp,
    failed_checks: Sequence[str] = (),
) -> None:
    """Append a line to the events; a batch that is begun has the same state on both sides."""
    before, after = states
    rows.insert(
        connection,
        store.wave_events,
        wave=wave,
        from_state=None if before is None else before.value,
        to_state=after.value,
        fence=fence,
        failed_checks=json.dumps(list(failed_checks)) if failed_checks else None,
        at=stamp.at,
        host=stamp.host,
        pid=stamp.pid,
    )


def illegal_wave_step(row: sa.Row[Any], to: WaveState) -> LedgerRefused:
    """The refusal of a step that does not follow the state."""
    return LedgerRefused(
        "illegal_step",
        f"wave {id_of(row)} is {row.state} and cannot become {to}",
        way_out="a wave is opened, closed, estimated, published, sealed, in this order; look where it stands",
    )


def can_become(row: sa.Row[Any], to: WaveState) -> bool:
    """Whether `to` follows the state of the wave of `row`."""
    return to in _SUCCESSORS[WaveState(row.state)]


def require_not_ended(wave_id: WaveId, state: WaveState) -> None:
    """Check that nobody decided that a wave in this state is over.

    Raises:
        LedgerRefused: it is abandoned or burned.
    """
    if state in ENDED_WAVES:
        raise LedgerRefused(
            f"wave_{state}",
            f"wave {wave_id} is {state}: its key and reports were deleted by decision",
            way_out="`dp-spark ledger history` has who decided it and why. "
            + (
                "Its epsilon counts as infinite and its survey has stopped"
                if state is WaveState.BURNED
                else "Its charge stands; to ask again, open another wave, at a charge of its own"
            ),
        )


def require_row_not_ended(row: sa.Row[Any]) -> None:
    """As `require_not_ended`, of the wave of `row`."""
    require_not_ended(id_of(row), WaveState(row.state))


def require_open(row: sa.Row[Any]) -> None:
    """Check that answers may still be randomized.

    Raises:
        LedgerRefused: the wave is closed or over, and its key gone.
    """
    require_row_not_ended(row)
    if row.state != WaveState.OPEN:
        raise LedgerRefused(
            "wave_closed",
            f"wave {id_of(row)} is {row.state}: its reports are counted and its key was destroyed",
            way_out="estimate from its counts; to ask again, open another wave, at a charge of its own",
        )
