"""Which input belongs to which population: the same people under two names would pay half.

A source belongs to the population that it was registered under, or that first paid for a release of it.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.accounts import budget
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.stored_spec import stored_source


def source_name(path: str, root: Path | None = None) -> str:
    """One name for one input: a local path with its links followed, a table with the parts that go without
    saying, anything else as it is written. A relative path starts from `root`, or the working directory.
    """  # noqa: D205
    table = re.fullmatch(r"(table|iceberg|jdbc):((?:[^/]*/)?)([^/]+)", path)
    if table is not None:
        return f"{table[1]}:{table[2]}{_folded(table[1], table[3])}"
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/.*)", path)
    if local is None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path):
        return path.rstrip("/")
    return os.path.realpath((root or Path()) / (local[1] if local else path))


def _folded(kind: str, table: str) -> str:
    """One name for a table, whichever way it is written; two that differ in case alone count as one."""
    name = table.replace("`", "").casefold()
    if kind == "table":
        name = name.removeprefix("spark_catalog.")
    schema = {"table": "default.", "jdbc": "public."}.get(kind, "")
    return name if "." in name else f"{schema}{name}"


def add_source(connection: sa.Connection, source: str, population: str, stamp: Stamp) -> None:
    """Register a source under a population; a second time changes nothing.

    Raises:
        BudgetRefused: the population is unknown; the text names the nearest.
        LedgerRefused: the source, or one that it holds or lies within, belongs to another population.
    """
    budget(connection, population)
    require_own_source(connection, source, population)
    known = sa.select(store.sources.c.path).where(store.sources.c.path == source)
    if connection.scalar(known) is None:
        values = {"path": source, "population": population, "os_user": stamp.os_user, "at": stamp.at}
        rows.insert(connection, store.sources, **values)


def known_sources(connection: sa.Connection) -> Sequence[tuple[str, str]]:
    """Every source that was registered or has been released from, with its population."""
    columns = ((store.sources, store.sources.c.path), (store.releases, store.releases.c.source))
    known = (
        sa.select(column, table.c.population).where(column.is_not(None)).distinct()
        for table, column in columns
    )
    return [(source, owner) for select in known for source, owner in connection.execute(select)]


def known_answers(connection: sa.Connection, root: Path | None) -> list[tuple[str, str, str]]:
    """The input of every wave that was opened, with its population and survey; a frame has no name.

    Plans that have the path as it was written, from before its name was stored, are of waves that were opened
    in `root`: from wherever one asks, they mean the same.
    """
    columns = store.waves.c
    found: dict[tuple[str, str, str], None] = {}
    for row in connection.execute(sa.select(columns.plan, columns.population, columns.survey)):
        source = stored_source(row.plan)
        if source is not None:
            found[source_name(source, root), row.population, row.survey] = None
    return [*found]


def require_own_source(connection: sa.Connection, source: str, population: str) -> None:
    """Check that no other population has the source, or one that it holds or lies within.

    Raises:
        LedgerRefused: one has.
    """
    asked = PurePath(source)
    for other, owner in known_sources(connection):
        if owner != population and (asked.is_relative_to(other) or PurePath(other).is_relative_to(asked)):
            raise LedgerRefused(
                "source_of_another_population",
                f"source {source!r} belongs to population {owner} (as {other!r}), not to {population}",
                way_out=f"name population {owner} in the spec: one source has one budget",
            )
