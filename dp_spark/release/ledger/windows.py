"""Windows: what all releases of a day, week or month may promise together, beside every other limit."""

from collections.abc import Mapping
from datetime import date, timedelta

import sqlalchemy as sa

from dp_spark.guarantee import Every, PrivacyGuarantee
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.adhoc import NOTHING, Cost
from dp_spark.release.ledger.admission import Asked, require_in_window
from dp_spark.release.ledger.exact import decode, encode
from dp_spark.release.ledger.records import promised
from dp_spark.release.ledger.states import ReleaseState

# Before 0004 only the events knew.
_CHARGED_AT = sa.func.coalesce(
    store.releases.c.charged_at,
    sa.select(sa.func.min(store.events.c.at))
    .where(store.events.c.release == store.releases.c.id)
    .correlate(store.releases)
    .scalar_subquery(),
)


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
    newest = sa.select(sa.func.max(_CHARGED_AT)).where(store.releases.c.population == population)
    today = date.fromisoformat(max(at, connection.scalar(newest) or at)[:10])
    for every, limit in windows.items():
        start = _start(every, today).isoformat()
        spent = _promised_since(connection, population, start)
        require_in_window(f"the {every} from {start} (UTC)", limit, spent, asked.text, asked.promised)


def _promised_since(connection: sa.Connection, population: str, start: str) -> Cost:
    columns = store.releases.c
    ours = columns.population == population
    opened = sa.select(sa.func.min(columns.id)).where(ours, start <= _CHARGED_AT)
    first = connection.scalar(opened)
    if first is None:
        return NOTHING
    # What came after the window's first charge belongs to it, whatever the clock said then.
    since = sa.and_(ours, columns.id >= first, columns.state != ReleaseState.ABORTED.value)
    return promised(connection, since)


def _start(every: Every, today: date) -> date:
    if every is Every.MONTH:
        return today.replace(day=1)
    return today if every is Every.DAY else today - timedelta(days=today.weekday())
