"""All that happened to a population's budget, line by line, for people and auditors."""

import sqlalchemy as sa

from dp_spark.release.ledger import store
from dp_spark.release.ledger.accounts import budget
from dp_spark.release.ledger.admission import Receipt
from dp_spark.release.ledger.entries import Entry
from dp_spark.release.ledger.exact import decode
from dp_spark.release.ledger.records import records
from dp_spark.release.ledger.states import ReleaseState
from dp_spark.release.ledger.surveys import has_survey
from dp_spark.release.ledger.wave_history import survey_entries


def history(connection: sa.Connection, population: str) -> list[Entry]:
    """Everything about a population, its surveys too, in the order of its times.

    At one time a decision stands before the step that it leads to.

    Raises:
        BudgetRefused: the ledger does not know it.
    """
    if not has_survey(connection, population):
        budget(connection, population)
    entries = [*_limits(connection, population), *_changes(connection, population)]
    entries += _sources(connection, population)
    entries += [*_decisions(connection, population), *_releases(connection, population)]
    entries += survey_entries(connection, population)
    return sorted(entries, key=lambda entry: entry.at)


def _limits(connection: sa.Connection, population: str) -> list[Entry]:
    table = store.budget_changes
    found = connection.execute(sa.select(table).where(table.c.population == population).order_by(table.c.id))
    return [
        Entry(row.at, "limit", "", decode(row.new_epsilon), decode(row.new_delta), row.reason, row.os_user)
        for row in found
    ]


def _changes(connection: sa.Connection, population: str) -> list[Entry]:
    table = store.account_changes
    found = connection.execute(sa.select(table).where(table.c.population == population).order_by(table.c.id))
    return [Entry(row.at, row.what, row.detail, None, None, row.reason, row.os_user) for row in found]


def _sources(connection: sa.Connection, population: str) -> list[Entry]:
    table = store.sources
    found = connection.execute(sa.select(table).where(table.c.population == population))
    return [Entry(row.at, "source", row.path, None, None, "", row.os_user) for row in found]


def _releases(connection: sa.Connection, population: str) -> list[Entry]:
    entries = []
    for record in records(connection, store.releases.c.population == population):
        for event in record.events:
            first = event.from_state is None
            sign = first - (event.to_state is ReleaseState.ABORTED)
            reason = record.revision_reason if first else ", ".join(event.failed_checks)
            entries.append(
                Entry(
                    event.at.isoformat(timespec="microseconds"),
                    event.to_state.value,
                    str(record.release_id),
                    sign * record.charge.epsilon if sign else None,
                    sign * record.charge.delta if sign else None,
                    reason or "",
                    f"{event.host} {event.pid}",
                    _paid(record.took) if first else "",
                )
            )
    return entries


def _paid(took: Receipt) -> str:
    return f"pool of {took.pool}" if took.schedule is None else f"slot of {took.schedule}"


def _decisions(connection: sa.Connection, population: str) -> list[Entry]:
    releases = store.releases.c
    found = connection.execute(
        sa.select(store.decisions, releases.name, releases.period_key, releases.revision)
        .select_from(store.decisions.join(store.releases))
        .where(releases.population == population)
        .order_by(store.decisions.c.id)
    )
    return [
        Entry(
            row.at,
            f"decision: {row.decision}",
            f"{population}/{row.name}/{row.period_key}/{row.revision}",
            None,
            None,
            row.reason,
            row.os_user,
        )
        for row in found
    ]
