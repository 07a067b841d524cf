"""Windows: what all releases of a day, week or month may promise together, beside every other limit."""

from collections.abc import Mapping
from datetime import date, timedelta

import sqlalchemy as sa

from dp_spark.guarantee import Every, PrivacyGuarantee
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.adhoc import NOTHING, Cost
from dp_spark.release.ledger.admission import Asked, require_in_window
from dp_spark.release.ledger.exact import decode, encode
from dp_spark.release.ledger.states import ReleaseState


def windows_of(connection: sa.Connection, population: str) -> Mapping[Every, PrivacyGuarantee]:
    """The windows of an account."""
    table = store.windows
    asked = sa.select(table).where(table.c.population == population).order_by(table.c.every)
    return {
        Every(row.every): PrivacyGuarantee(decode(row.epsilon), decode(row.delta))
        for row in connection.execute(asked)
    }


def put_window(connection: sa.Connection, population: str, every: Every, limit: PrivacyGuarantee) -> None:
    """Limit what may be promised in each day, week or month."""
    key = {"population": population, "every": every.value}
    rows.put(connection, store.windows, key, epsilon=encode(limit.epsilon), delta=encode(limit.delta))


def require_in_windows(
    connection: sa.Connection,
    population: str,
    windows: Mapping[Every, PrivacyGuarantee],
    asked: Asked,
    at: str,
) -> None:
    """Check that a release stays within every window of its account.

    A clock that goes back opens no earlier window: it stands still until the newest charge.

    Raises:
        BudgetRefused: it does not.
    """
    if not windows:
        return
    newest = sa.select(sa.func.max(store.events.c.at)).where(_first_of(population))
    today = date.fromisoformat(max(at, connection.scalar(newest) or at)[:10])
    for every, limit in windows.items():
        start = _start(every, today).isoformat()
        spent = _promised_since(connection, population, start)
        require_in_window(f"the {every} from {start} (UTC)", limit, spent, asked.text, asked.promised)


def _promised_since(connection: sa.Connection, population: str, start: str) -> Cost:
    columns = store.releases.c
    charges = columns.charge_epsilon, columns.charge_delta
    since = sa.and_(
        _first_of(population), store.events.c.at >= start, columns.state != ReleaseState.ABORTED.value
    )
    asked = sa.select(*charges, sa.func.count().label("times")).where(since).group_by(*charges)
    spent = NOTHING
    for row in connection.execute(asked):
        spent += Cost(decode(row.charge_epsilon), decode(row.charge_delta)).times(row.times)
    return spent


def _first_of(population: str) -> sa.ColumnElement[bool]:
    """The event that each release of a population began with."""
    columns = store.releases.c
    return sa.and_(
        columns.population == population,
        store.events.c.release == columns.id,
        store.events.c.from_state.is_(None),
    )


def _start(every: Every, today: date) -> date:
    if every is Every.MONTH:
        return today.replace(day=1)
    return today if every is Every.DAY else today - timedelta(days=today.weekday())
