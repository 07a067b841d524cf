"""Writing of rows: the only way in which the ledger changes, so that the chain knows what was touched."""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

_TOUCHED = "dp_spark_touched"
Touched = tuple[sa.Table, tuple[Any, ...]]


def insert(connection: sa.Connection, table: sa.Table, **values: Any) -> tuple[Any, ...]:
    """Add a row; its primary key."""
    done = connection.execute(sa.insert(table).values(values))
    key = tuple(done.inserted_primary_key or ())
    _touch(connection, table, key)
    return key


def update(connection: sa.Connection, table: sa.Table, where: sa.ColumnElement[bool], **values: Any) -> int:
    """Change the rows of a condition; how many there are."""
    keys = [tuple(row) for row in connection.execute(sa.select(*table.primary_key).where(where))]
    if keys:
        changed = connection.execute(sa.update(table).where(where).values(values)).rowcount
        assert changed == len(keys)  # no other writer is there
    for key in keys:
        _touch(connection, table, key)
    return len(keys)


def put(connection: sa.Connection, table: sa.Table, key: Mapping[str, str], **values: Any) -> None:
    """Change the row with this primary key, or add it."""
    here = sa.and_(*(table.c[name] == value for name, value in key.items()))
    if not update(connection, table, here, **values):
        insert(connection, table, **key, **values)


def take_touched(connection: sa.Connection) -> Iterator[Touched]:
    """Every row that was written since the last call on this connection, once."""
    return iter(connection.info.pop(_TOUCHED, {}))


def _touch(connection: sa.Connection, table: sa.Table, key: tuple[Any, ...]) -> None:
    connection.info.setdefault(_TOUCHED, {})[table, key] = None
