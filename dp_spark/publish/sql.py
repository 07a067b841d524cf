"""The sink of a table in a database: one transaction for rows and the row that tells of them."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa

from dp_spark.publish.release_rows import PUBLISHED_AT, releases_row, require_names
from dp_spark.publish.sink import Edition, Part, is_edition, is_placed, refusing, unreachable
from dp_spark.publish.sql_rows import insert_rows, require_no_nul
from dp_spark.publish.sql_tables import Standing, Tables, prepare, standing_labels, standing_of, tables_of
from dp_spark.release.warehouse import failures_of, is_postgres, is_refused, reason_of, transaction


@dataclass(frozen=True, slots=True)
class SqlSink:
    """A table of a database, with TABLE_releases and the view TABLE_latest beside it.

    Attributes:
        name: of the sink, as refusals call it.
        table: its name, behind that of its schema and a dot; without one, where the database looks first.
        engine: of the database.
    """

    name: str
    table: str
    engine: sa.Engine

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`; a database that does not answer is no reason to refuse."""
        at, tables = self._at(part), self._tables(part, schema)
        try:
            with transaction(self.engine) as connection:
                standing = standing_of(connection, tables, at=self.name)
                labels = standing_labels(connection, tables, standing)
        except failures_of(self.engine) as failure:
            if is_refused(failure):
                raise refusing(self.name, reason_of(failure)) from None
            return
        is_placed(labels, release_id, None, at=at)

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        tables = self._tables(part, part.alone)
        with self._told(), transaction(self.engine) as connection:
            labels = standing_labels(connection, tables, standing_of(connection, tables, at=self.name))
        return is_edition(labels, release_id, digest)

    def publish(self, edition: Edition) -> str:
        """As `Sink`; the database's URL and the table."""
        tables = self._tables(edition.part, edition.table.schema, edition.comment)
        if is_postgres(self.engine):
            require_no_nul(self.name, edition.table)
        with self._told(), transaction(self.engine) as connection:
            self._place(connection, tables, edition)
        return f"{self.engine.url.set(query={}).render_as_string()} {self.table}"

    def _place(self, connection: sa.Connection, tables: Tables, edition: Edition) -> None:
        if serialises(self.engine):
            _lock(connection, tables)
        standing = standing_of(connection, tables, at=self.name)
        if self._is_placed(connection, tables, standing, edition):
            return
        prepare(connection, tables, standing)
        if not serialises(self.engine):
            _hold(connection, tables)
            standing = standing_of(connection, tables, at=self.name)
            if self._is_placed(connection, tables, standing, edition):
                return
        _replace(connection, tables, edition)

    def _is_placed(
        self, connection: sa.Connection, tables: Tables, standing: Standing, edition: Edition
    ) -> bool:
        labels = standing_labels(connection, tables, standing)
        return is_placed(labels, edition.release_id, edition.digest, at=self._at(edition.part))

    def _tables(self, part: Part, schema: pa.Schema, comment: str | None = None) -> Tables:
        longest = self.engine.dialect.max_identifier_length
        require_names(self.name, self.table.rpartition(".")[2], schema, longest)
        return tables_of(self.table, part, schema, comment)

    def _at(self, part: Part) -> str:
        return f"{self.name}, {part.column}={part.value},"

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except failures_of(self.engine) as failure:
            raise unreachable(self.name, reason_of(failure)) from None


def serialises(engine: sa.Engine) -> bool:
    """Whether publishers queue for a lock before they look; it ends with their transaction."""
    return is_postgres(engine)


def _lock(connection: sa.Connection, tables: Tables) -> None:
    """Wait for whoever publishes to the same table, which may not be there yet."""
    schema = tables.rows.schema or connection.dialect.default_schema_name
    name = f"dp_spark {schema}.{tables.rows.name}".encode()
    key = int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({key})")


def _hold(connection: sa.Connection, tables: Tables) -> None:
    """Change the part's row to what it is: whatever a database locks for that, others wait for.

    Statements that define end a transaction in some of them: this is the first that does not.
    """
    releases = tables.releases
    mine = releases.columns[tables.column] == tables.value
    same = {PUBLISHED_AT: releases.columns[PUBLISHED_AT]}
    connection.execute(sa.update(releases).where(mine).values(same))


def _replace(connection: sa.Connection, tables: Tables, edition: Edition) -> None:
    """The part's rows, and the row that tells of them."""
    for table in (tables.rows, tables.releases):
        connection.execute(sa.delete(table).where(table.columns[tables.column] == tables.value))
    insert_rows(connection, tables.rows, edition.table)
    row = releases_row(edition) | {PUBLISHED_AT: sa.func.current_timestamp()}
    connection.execute(sa.insert(tables.releases).values(row))
