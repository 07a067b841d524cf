"""What the ledger knows of waves, read back as values."""

import difflib
from collections import defaultdict
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.ledger import store
from dp_spark.release.ledger.exact import decode
from dp_spark.release.ledger.records import stored_file
from dp_spark.release.ledger.waves import Batch, WaveId, WaveRecord, WaveState

WAVE_CLEARED = (
    "publish"  # the decision that lets out what a gate holds; others are the state that they lead to
)


def is_wave(wave_id: WaveId) -> sa.ColumnElement[bool]:
    """The condition that selects the row of `wave_id`."""
    columns = store.waves.c
    return sa.and_(
        columns.population == wave_id.population,
        columns.survey == wave_id.survey,
        columns.name == wave_id.wave,
    )


def known_wave(connection: sa.Connection, wave_id: WaveId) -> sa.Row[Any] | None:
    """The row of a wave, if there is one."""
    return connection.execute(sa.select(store.waves).where(is_wave(wave_id))).one_or_none()


def wave_row(connection: sa.Connection, wave_id: WaveId) -> sa.Row[Any]:
    """The row of a wave.

    Raises:
        LedgerRefused: the ledger knows no such wave; the text names the nearest.
    """
    row = known_wave(connection, wave_id)
    if row is not None:
        return row
    columns = store.waves.c
    asked = sa.select(columns.population, columns.survey, columns.name)
    known = {"/".join(each): None for each in connection.execute(asked.order_by(columns.id))}
    nearest = difflib.get_close_matches(str(wave_id), known, n=1, cutoff=0)
    hint = f"the nearest is {nearest[0]}" if nearest else "it has none yet"
    raise LedgerRefused(
        "unknown_wave",
        f"the ledger knows no wave {wave_id}; {hint}",
        way_out="correct the name, or open the wave first",
    )


def wave_records(
    connection: sa.Connection, condition: sa.ColumnElement[bool], *, opened_now: bool = False
) -> list[WaveRecord]:
    """The waves under `condition`, in the order of their opening."""
    waves, accounts = store.waves, store.survey_accounts
    joined = sa.select(waves, accounts.c.unit).join_from(waves, accounts).where(condition)
    found = connection.execute(joined.order_by(waves.c.id)).all()
    chosen = sa.select(waves.c.id).where(condition)
    batches, publications = defaultdict[int, list[Batch]](list), defaultdict[int, dict[str, str]](dict)
    for row in _parts(connection, store.wave_batches, chosen, "number"):
        batches[row.wave].append(Batch(row.number, row.path, row.digest, row.reports))
    for row in _parts(connection, store.wave_publications, chosen, "sink"):
        publications[row.wave][row.sink] = row.target
    sealed = {
        row.wave: row.at
        for row in _parts(connection, store.wave_events, chosen, "id")
        if row.to_state == WaveState.SEALED.value
    }
    decided = _parts(connection, store.wave_decisions, chosen, "id")
    cleared = {row.wave for row in decided if row.decision == WAVE_CLEARED}
    return [
        WaveRecord(
            wave_id=WaveId(row.population, row.survey, row.name),
            state=WaveState(row.state),
            unit=PrivacyUnit.parse(row.unit),
            epsilon=decode(row.epsilon),
            domain_digest=row.domain_digest,
            spec_digest=row.spec_digest,
            plan_bytes=row.plan,
            opened_now=opened_now,
            batches=tuple(batches[row.id]),
            counts=stored_file(row.counts_path, row.counts_digest),
            estimates=stored_file(row.estimates_path, row.estimates_digest),
            statement=stored_file(row.statement_path, row.statement_digest),
            publications=publications[row.id],
            opened_at=row.opened_at,
            closed_at=row.closed_at,
            sealed_at=sealed.get(row.id),
            cleared=row.id in cleared,
        )
        for row in found
    ]


def is_cleared_wave(connection: sa.Connection, wave: int) -> bool:
    """Whether somebody decided that a held wave is to be published."""
    columns = store.wave_decisions.c
    asked = sa.select(columns.id).where(columns.wave == wave, columns.decision == WAVE_CLEARED).limit(1)
    return connection.scalar(asked) is not None


def _parts(
    connection: sa.Connection, table: sa.Table, chosen: sa.Select[tuple[int]], order: str
) -> sa.CursorResult[Any]:
    """The rows of a table that belong to the chosen waves."""
    return connection.execute(
        sa.select(table).where(table.c.wave.in_(chosen)).order_by(table.c.wave, table.c[order])
    )
