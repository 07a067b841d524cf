"""The tables of one published table in a DuckDB file: what stands there, how they are changed and filled."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from dp_spark.publish.columns import Change, change_of
from dp_spark.publish.release_rows import (
    LABELS,
    LATEST,
    PUBLISHED_AT,
    RELEASES,
    RELEASES_COMMENT,
    ROW_COUNT,
    labels_of,
    releases_row,
    releases_schema,
)
from dp_spark.publish.sink import Edition, Part, occupied, refusing
from dp_spark.publish.sql_types import comment_of

_TYPES: dict[pa.DataType, str] = {
    pa.date32(): "DATE",
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The published table and what stands beside it, as one edition would make them."""

    table: str
    part: Part
    schema: pa.Schema

    @property
    def releases(self) -> pa.Schema:
        """The columns of the table of releases."""
        return releases_schema(self.part, self.schema)

    def quoted(self, suffix: str = "") -> str:
        """A name as SQL has it."""
        return ".".join(map(_quoted, f"{self.table}{suffix}".split(".")))

    @property
    def is_mine(self) -> str:
        """The condition of the part's rows; its value is the parameter."""
        return f"{_quoted(self.part.column)} = ?"

    @property
    def value(self) -> Any:
        """Of the part, as the column holds it."""
        return self.part.typed(self.schema)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a file has in the place of `Tables`.

    Attributes:
        columns: of the published table, nullability and comment by name; None where there is none.
        comment: of the published table.
        change: what the edition changes.
        has_releases: whether there is a table of releases.
        latest: the columns of the view; None where there is none.
        labels: of what stands in the part, as `is_placed` takes them.
    """

    columns: Mapping[str, tuple[bool, str | None]] | None
    comment: str | None
    change: Change
    has_releases: bool
    latest: Sequence[str] | None
    labels: Mapping[str, str] | None


def standing_of(connection: DuckDBPyConnection, tables: Tables, *, at: str) -> Standing:
    """What the file has there.

    Raises:
        PublishRefused: a column is of another type there, or one of the names is that of something else.
    """
    _require_schema(connection, tables, at)
    rows, comment = _columns(connection, tables, "", is_view=False, at=at)
    releases, _ = _columns(connection, tables, RELEASES, is_view=False, at=at)
    latest, _ = _columns(connection, tables, LATEST, is_view=True, at=at)
    if releases is not None and not releases.keys() >= {*tables.releases.names, PUBLISHED_AT}:
        raise occupied(f"{at}: {tables.table}{RELEASES}", "what is no table of dp_spark")
    change = Change((), ())
    if rows is not None:
        found = connection.sql(f"SELECT * FROM {tables.quoted()} LIMIT 0").to_arrow_table()  # noqa: S608
        change = change_of(found.schema, tables.schema, at=at)
    n_rows, row = 0, None
    if rows is not None and tables.part.column in rows:
        counted = f"SELECT count(*) FROM {tables.quoted()} WHERE {tables.is_mine}"  # noqa: S608
        n_rows = _first(connection, counted, tables.value)[0]
    if releases is not None:
        told = f"SELECT {LABELS}, {ROW_COUNT} FROM {tables.quoted(RELEASES)} WHERE {tables.is_mine}"  # noqa: S608
        row = _first(connection, told, tables.value)
    latest_names = None if latest is None else list(latest)
    return Standing(rows, comment, change, releases is not None, latest_names, labels_of(row, n_rows))


def _require_schema(connection: DuckDBPyConnection, tables: Tables, at: str) -> None:
    """Refuse a table in a schema that the file has not; before that may stand the file's name."""
    *places, _ = tables.table.split(".")
    *databases, schema = places or ["main"]
    query = (
        "SELECT current_database(), list(lower(schema_name)) FROM duckdb_schemas() "
        "WHERE database_name = current_database()"
    )
    name, schemas = _first(connection, query)
    if [each.lower() for each in databases] not in ([], [name.lower()]):
        raise refusing(at, f"there is no database {'.'.join(databases)!r} in the file")
    if schema.lower() not in schemas:
        raise refusing(at, f"there is no schema {schema!r}")


def _columns(
    connection: DuckDBPyConnection, tables: Tables, suffix: str, *, is_view: bool, at: str
) -> tuple[dict[str, tuple[bool, str | None]] | None, str | None]:
    """Nullability and comment of the columns of a table or a view, and its comment; None without one."""
    *schema, name = f"{tables.table}{suffix}".split(".")
    place = [schema[-1] if schema else "main", name]
    here = "database_name = current_database() AND lower(schema_name) = lower(?)"
    kinds = (
        f"SELECT false, comment FROM duckdb_tables() WHERE {here} AND lower(table_name) = lower(?) "  # noqa: S608
        f"UNION ALL SELECT true, comment FROM duckdb_views() WHERE {here} AND lower(view_name) = lower(?)"
    )
    found = _first(connection, kinds, *place, *place)
    if found is None:
        return None, None
    if found[0] != is_view:
        raise occupied(f"{at}: {name}", "a table" if is_view else "a view")
    told = (
        "SELECT column_name, is_nullable, comment FROM duckdb_columns() "  # noqa: S608
        f"WHERE {here} AND lower(table_name) = lower(?) ORDER BY column_index"
    )
    columns = connection.execute(told, place).fetchall()
    return {column: (nullable, comment) for column, nullable, comment in columns}, found[1]


def prepare(connection: DuckDBPyConnection, tables: Tables, standing: Standing, comment: str) -> None:
    """Make what is missing, and change what takes the edition no longer; rows stay as they are."""
    for statement in (
        *_changes(tables, standing),
        *_comments(tables, standing, comment),
        *_releases(tables, standing),
        *_view(tables, standing),
    ):
        connection.execute(statement)


def replace_rows(connection: DuckDBPyConnection, tables: Tables, edition: Edition) -> None:
    """The part's rows, and the row that tells of them."""
    for suffix in ("", RELEASES):
        delete = f"DELETE FROM {tables.quoted(suffix)} WHERE {tables.is_mine}"  # noqa: S608
        connection.execute(delete, [tables.value])
    names = ", ".join(map(_quoted, edition.table.column_names))
    given = f"dp_spark_{os.urandom(8).hex()}"  # a table of the same name would be hidden, or hide it
    connection.register(given, edition.table)
    connection.execute(f"INSERT INTO {tables.quoted()} ({names}) SELECT {names} FROM {given}")  # noqa: S608
    connection.unregister(given)
    row = releases_row(edition)
    names, marks = ", ".join(map(_quoted, row)), ", ".join("?" * len(row))
    into = f"INSERT INTO {tables.quoted(RELEASES)} ({names}, {PUBLISHED_AT}) "
    connection.execute(f"{into} VALUES ({marks}, current_timestamp)", list(row.values()))


def _changes(tables: Tables, standing: Standing) -> Iterator[str]:
    if standing.columns is None:
        yield f"CREATE TABLE {tables.quoted()} ({_definitions(tables.schema)})"
        return
    for field in standing.change.added:
        yield f"ALTER TABLE {tables.quoted()} ADD COLUMN {_definition(field)}"
    for name in standing.change.missing:
        if not standing.columns[name][0]:
            yield f"ALTER TABLE {tables.quoted()} ALTER COLUMN {_quoted(name)} DROP NOT NULL"


def _comments(tables: Tables, standing: Standing, comment: str) -> Iterator[str]:
    columns = standing.columns or {}
    for field in tables.schema:
        text = comment_of(field)
        if text is not None and text != columns.get(field.name, (True, None))[1]:
            yield f"COMMENT ON COLUMN {tables.quoted()}.{_quoted(field.name)} IS {_literal(text)}"
    if comment != standing.comment:
        yield f"COMMENT ON TABLE {tables.quoted()} IS {_literal(comment)}"


def _releases(tables: Tables, standing: Standing) -> Iterator[str]:
    if standing.has_releases:
        return
    table, key = tables.quoted(RELEASES), _quoted(tables.part.column)
    stamp = f"{PUBLISHED_AT} TIMESTAMP WITH TIME ZONE NOT NULL"
    yield f"CREATE TABLE {table} ({_definitions(tables.releases)}, {stamp}, PRIMARY KEY ({key}))"
    yield f"COMMENT ON TABLE {table} IS {_literal(RELEASES_COMMENT)}"


def _view(tables: Tables, standing: Standing) -> Iterator[str]:
    added = [field.name for field in standing.change.added]
    names = tables.schema.names if standing.columns is None else [*standing.columns, *added]
    if standing.latest != names:
        key = _quoted(tables.part.column)
        yield (
            f"CREATE OR REPLACE VIEW {tables.quoted(LATEST)} AS SELECT {', '.join(map(_quoted, names))} "  # noqa: S608
            f"FROM {tables.quoted()} WHERE {key} IN (SELECT {key} FROM {tables.quoted(RELEASES)})"
        )


def _definitions(schema: pa.Schema) -> str:
    return ", ".join(map(_definition, schema))


def _definition(field: "pa.Field[Any]") -> str:
    decimal = pa.types.is_decimal(field.type)
    kind = f"DECIMAL({field.type.precision}, {field.type.scale})" if decimal else _TYPES[field.type]
    return f"{_quoted(field.name)} {kind}{'' if field.nullable else ' NOT NULL'}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first(connection: DuckDBPyConnection, query: str, *values: Any) -> Any:
    return connection.execute(query, list(values)).fetchone()
