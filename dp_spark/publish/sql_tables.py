"""The tables of one published table in a database: what they are, what stands there, how they are changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from dp_spark.publish.columns import Change, change_of
from dp_spark.publish.release_rows import (
    LABELS,
    LATEST,
    PUBLISHED_AT,
    RELEASES,
    RELEASES_COMMENT,
    ROW_COUNT,
    labels_of,
    releases_schema,
)
from dp_spark.publish.sink import Part, occupied, refusing
from dp_spark.publish.sql_types import arrow_type, sql_column


@dataclass(frozen=True, slots=True)
class Tables:
    """A published table and what stands beside it, as one edition would make them.

    Attributes:
        schema: the columns of the edition.
        rows: the published table.
        releases: the table of a row for each part.
        column: of the part.
        value: of the part, as the column holds it.
    """

    schema: pa.Schema
    rows: sa.Table
    releases: sa.Table
    column: str
    value: date | str

    @property
    def latest(self) -> "sa.TableClause":
        """The view of the rows that `releases` tells of."""
        return sa.table(f"{self.rows.name}{LATEST}", schema=self.rows.schema)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a database has in the place of `Tables`.

    Attributes:
        columns: of the published table, by name, as SQLAlchemy tells of them; None where there is none.
        change: what the edition changes.
        has_releases: whether there is a table of releases.
        latest: the columns of the view; None where there is none.
    """

    columns: Mapping[str, Any] | None
    change: Change
    has_releases: bool
    latest: Sequence[str] | None


def tables_of(table: str, part: Part, schema: pa.Schema, comment: str | None = None) -> Tables:
    """The tables of the sink of `table`, [SCHEMA.]NAME, for an edition with these columns."""
    namespace, _, name = table.rpartition(".")
    known = sa.MetaData(schema=namespace or None)
    beside = releases_schema(part, schema)
    return Tables(
        schema=schema,
        rows=sa.Table(name, known, *map(sql_column, schema), comment=comment),
        releases=sa.Table(
            f"{name}{RELEASES}",
            known,
            *(sql_column(field, primary_key=field.name == part.column) for field in beside),
            sa.Column(PUBLISHED_AT, sa.DateTime(timezone=True), nullable=False),
            comment=RELEASES_COMMENT,
        ),
        column=part.column,
        value=part.typed(schema),
    )


def standing_of(connection: sa.Connection, tables: Tables, *, at: str) -> Standing:
    """What the database has there.

    Raises:
        PublishRefused: a column is of another type there, or one of the names is that of something else.
    """
    inspector = sa.inspect(connection)
    namespace, views = tables.rows.schema, set(inspector.get_view_names(tables.rows.schema))
    stored = set[str]()
    if connection.dialect.name == "postgresql":
        stored.update(inspector.get_materialized_view_names(namespace))
        if namespace is not None and not inspector.has_schema(namespace):
            raise refusing(at, f"there is no schema {namespace!r}")

    def columns(name: str, is_view: bool) -> dict[str, Any] | None:
        if not inspector.has_table(name, namespace):
            return None
        if name in stored:
            raise occupied(f"{at}: {name}", "a materialized view")
        if (name in views) != is_view:
            raise occupied(f"{at}: {name}", "a table" if is_view else "a view")
        return {column["name"]: column for column in inspector.get_columns(name, namespace)}

    found = columns(tables.rows.name, is_view=False)
    releases = columns(tables.releases.name, is_view=False)
    if releases is not None and not releases.keys() >= {column.name for column in tables.releases.columns}:
        raise occupied(f"{at}: {tables.releases.name}", "what is no table of dp_spark")
    latest = columns(tables.latest.name, is_view=True)
    return Standing(
        columns=found,
        change=Change((), ()) if found is None else _change(found, tables.schema, connection.dialect, at),
        has_releases=releases is not None,
        latest=None if latest is None else list(latest),
    )


def _change(found: Mapping[str, Any], edition: pa.Schema, dialect: sa.Dialect, at: str) -> Change:
    wanted = {field.name: field.type for field in edition}
    standing = pa.schema(
        [
            pa.field(name, arrow_type(column["type"], wanted.get(name), dialect))
            for name, column in found.items()
        ]
    )
    return change_of(standing, edition, at=at)


def standing_labels(
    connection: sa.Connection, tables: Tables, standing: Standing
) -> Mapping[str, str] | None:
    """The labels of what stands in the part, as `is_placed` takes them."""
    releases, rows, n_rows, row = tables.releases.columns, tables.rows, 0, None
    if standing.columns is not None and tables.column in standing.columns:
        mine = rows.columns[tables.column] == tables.value
        n_rows = connection.execute(sa.select(sa.func.count()).select_from(rows).where(mine)).scalar_one()
    if standing.has_releases:
        mine = releases[tables.column] == tables.value
        row = connection.execute(sa.select(releases[LABELS], releases[ROW_COUNT]).where(mine)).first()
    return labels_of(None if row is None else (row[0], row[1]), n_rows)


def prepare(connection: sa.Connection, tables: Tables, standing: Standing) -> None:
    """Make what is missing, and change what takes the edition no longer; rows stay as they are."""
    if standing.columns is None:
        tables.rows.create(connection)
    else:
        for statement in _changes(connection.dialect, tables, standing):
            connection.exec_driver_sql(statement)
        _comment(connection, tables, standing.columns)
    if not standing.has_releases:
        tables.releases.create(connection)
    names = [*(standing.columns or tables.schema.names), *(field.name for field in standing.change.added)]
    if standing.latest != names:
        for statement in _view(connection.dialect, tables, standing.latest, names):
            connection.exec_driver_sql(statement)


def _changes(dialect: sa.Dialect, tables: Tables, standing: Standing) -> Iterator[str]:
    """A column for each that is new; those that the edition lacks may be NULL from now on."""
    assert standing.columns is not None
    quoted = dialect.identifier_preparer
    table = quoted.format_table(tables.rows)
    for field in standing.change.added:
        made = sa.schema.CreateColumn(sql_column(field)).compile(dialect=dialect)
        yield f"ALTER TABLE {table} ADD COLUMN {made}"
    for name in standing.change.missing:
        if not standing.columns[name]["nullable"]:
            yield f"ALTER TABLE {table} ALTER COLUMN {quoted.quote(name)} DROP NOT NULL"


def _comment(connection: sa.Connection, tables: Tables, columns: Mapping[str, Any]) -> None:
    """Comments where they differ, new columns among them."""
    if not connection.dialect.supports_comments:
        return
    for column in tables.rows.columns:
        if column.comment != columns.get(column.name, {}).get("comment"):
            connection.execute(sa.schema.SetColumnComment(column))
    found = sa.inspect(connection).get_table_comment(tables.rows.name, tables.rows.schema)
    if found["text"] != tables.rows.comment:
        connection.execute(sa.schema.SetTableComment(tables.rows))


def _view(
    dialect: sa.Dialect, tables: Tables, standing: Sequence[str] | None, names: Sequence[str]
) -> Iterator[str]:
    """The view, with columns added where they alone are new: so its readers keep their rights."""
    quoted = dialect.identifier_preparer
    view = quoted.format_table(tables.latest)
    rows = sa.table(tables.rows.name, *map(sa.column, names), schema=tables.rows.schema)
    told_of = sa.select(tables.releases.columns[tables.column])
    chosen = sa.select(*rows.columns).where(rows.columns[tables.column].in_(told_of))
    if standing is not None and list(names[: len(standing)]) != list(standing):
        yield f"DROP VIEW {view}"
    yield f"CREATE OR REPLACE VIEW {view} AS {chosen.compile(dialect=dialect)}"
