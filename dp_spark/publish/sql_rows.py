"""Rows of an Arrow table, into a table of a database: by COPY where the driver has it, else by INSERT."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from dp_spark.errors import PublishRefused

_ROWS_OF_A_BATCH = 2**12
_BINARY_TYPES: dict[pa.DataType, str] = {
    pa.date32(): "date",
    pa.string(): "text",
    pa.int32(): "int4",
    pa.int64(): "int8",
    pa.float64(): "float8",
    pa.bool_(): "bool",
}


def copies(dialect: sa.Dialect) -> bool:
    """Whether rows go by COPY."""
    return dialect.name == "postgresql" and dialect.driver == "psycopg"


def insert_rows(connection: sa.Connection, into: sa.Table, rows: pa.Table) -> None:
    """Add the rows, in the transaction of the connection."""
    if copies(connection.dialect):
        _copy(connection, into, rows)
        return
    for batch in _batches(rows):
        connection.execute(sa.insert(into), batch.to_pylist())


def require_no_nul(sink: str, rows: pa.Table) -> None:
    """Refuse texts that PostgreSQL cannot hold.

    Raises:
        PublishRefused: one holds U+0000.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_string(field.type) and pc.any(pc.match_substring(column, "\0"), min_count=0).as_py():
            raise PublishRefused(
                "text_with_nul",
                f"sink {sink}: a text of column {field.name} holds U+0000, which PostgreSQL cannot keep",
                way_out="publish to another sink; the text is one of the group values",
            )


def _copy(connection: sa.Connection, into: sa.Table, rows: pa.Table) -> None:
    """Binary COPY: numbers, dates and texts arrive as they are, whatever is in them."""
    from psycopg import sql  # noqa: PLC0415  # an extra

    names = [into.name] if into.schema is None else [into.schema, into.name]
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(*names), sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
    )
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types([_BINARY_TYPES.get(field.type, "numeric") for field in rows.schema])
        for batch in _batches(rows):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                copy.write_row(row)


def _batches(rows: pa.Table) -> "Iterator[pa.RecordBatch]":
    return iter(rows.to_batches(max_chunksize=_ROWS_OF_A_BATCH))
