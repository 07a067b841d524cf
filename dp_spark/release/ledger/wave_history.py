"""All that happened to the surveys of a population, line by line."""

import json
from collections.abc import Iterator

import sqlalchemy as sa

from dp_spark.release.ledger import store
from dp_spark.release.ledger.entries import Entry
from dp_spark.release.ledger.exact import decode
from dp_spark.release.ledger.waves import WaveState

_NAMES = store.waves.c.population, store.waves.c.survey, store.waves.c.name


def survey_entries(connection: sa.Connection, population: str) -> Iterator[Entry]:
    """Limits, charges, batches, copies, steps and decisions of all surveys of a population.

    No numbers of reports. What has the same time stands in the order of cause and effect: a decision before
    the step that it leads to.
    """
    yield from _limits(connection, population)
    yield from _decisions(connection, population)
    yield from _events(connection, population)
    yield from _batches(connection, population)
    yield from _copies(connection, population)


def _limits(connection: sa.Connection, population: str) -> Iterator[Entry]:
    table = store.survey_changes
    asked = sa.select(table).where(table.c.population == population).order_by(table.c.id)
    for row in connection.execute(asked):
        yield Entry(
            row.at, "survey limit", row.survey, decode(row.new_epsilon), None, row.reason, row.os_user
        )


def _events(connection: sa.Connection, population: str) -> Iterator[Entry]:
    waves = store.waves.c
    columns = waves.epsilon, waves.reason, waves.changed
    for row in connection.execute(_of(store.wave_events, population, *columns, order="id")):
        first = row.from_state is None
        changed = "" if row.changed is None else f"; categories changed: {row.changed}"
        failed = ", ".join(json.loads(row.failed_checks or "[]"))
        yield Entry(
            row.at,
            f"attempt {row.fence} begun" if _begins_batch(row) else f"wave {row.to_state}",
            _name(row),
            decode(row.epsilon) if first else None,
            None,
            f"{row.reason}{changed}" if first else failed,
            f"{row.host} {row.pid}",
            f"survey of {row.survey}" if first else "",
        )


def _begins_batch(row: sa.Row[tuple[object, ...]]) -> bool:
    """Whether an event is no step, but a run that begins a batch."""
    return bool(row.from_state == row.to_state == WaveState.OPEN)


def _batches(connection: sa.Connection, population: str) -> Iterator[Entry]:
    for row in connection.execute(_of(store.wave_batches, population, order="number")):
        yield Entry(row.at, "batch", f"{_name(row)} {row.number}", None, None, "", f"attempt {row.fence}")


def _copies(connection: sa.Connection, population: str) -> Iterator[Entry]:
    for row in connection.execute(_of(store.wave_publications, population, order="sink")):
        yield Entry(row.at, "copy", _name(row), None, None, row.target, row.sink)


def _decisions(connection: sa.Connection, population: str) -> Iterator[Entry]:
    for row in connection.execute(_of(store.wave_decisions, population, order="id")):
        yield Entry(row.at, f"decision: {row.decision}", _name(row), None, None, row.reason, row.os_user)


def _of(table: sa.Table, population: str, *more: sa.Column[str], order: str) -> sa.Select[tuple[object, ...]]:
    """The rows of a table of waves' parts, each with the names of its wave."""
    return (
        sa.select(table, *_NAMES, *more)
        .select_from(table.join(store.waves))
        .where(store.waves.c.population == population)
        .order_by(table.c.wave, table.c[order])
    )


def _name(row: sa.Row[tuple[object, ...]]) -> str:
    return f"{row.population}/{row.survey}/{row.name}"
