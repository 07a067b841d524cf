"""The sink in PostgreSQL, for the contract test."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pytest
import sqlalchemy as sa
from postgres_server import OWNER, Server
from sink_worlds import Boundary, die_in

from dp_spark.publish import Part, Reach, Sink, open_sink
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkSpec

TYPES = {
    "date": pa.date32(), "text": pa.string(), "integer": pa.int32(), "bigint": pa.int64(),
    "double precision": pa.float64(), "boolean": pa.bool_(), "numeric(18,3)": pa.decimal128(18, 3),
}  # fmt: skip
SQL_TYPES = {kind: name for name, kind in TYPES.items()}


@dataclass(frozen=True)
class PostgresWorld:
    server: Server
    database: str
    boundaries: ClassVar[Sequence[Boundary]] = (
        Boundary("before the lock", placed=False),
        Boundary("before the rows", placed=False),
        Boundary("after the rows", placed=False),
        Boundary("before the commit", placed=False),
        Boundary("after the commit", placed=True),
    )
    has_processes: ClassVar[bool] = True
    lost: ClassVar[tuple[type[Exception], ...]] = ()
    is_atomic: ClassVar[bool] = True

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        server = request.getfixturevalue("postgres")
        database = server.new_database()
        request.addfinalizer(lambda: server.drop(database))
        return cls(server, database)

    def open(self) -> Sink:
        spec = SinkSpec(sink="sql", connection="warehouse", table="flights")
        return open_sink(
            spec, Reach({"warehouse": Connection(self.server.url(self.database))}, NotImplemented)
        )

    def table(self) -> pa.Table:
        columns = self._run(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
            "WHERE attrelid = 'flights'::regclass AND attnum > 0 ORDER BY attnum"
        )
        schema = pa.schema([pa.field(name, TYPES[kind], not strict) for name, kind, strict in columns])
        rows = self._run("SELECT * FROM flights")
        return pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
        )

    def labels(self, part: Part) -> Mapping[str, str]:
        told = self._run(f"SELECT labels::json FROM flights_releases WHERE {part.column} = '{part.value}'")
        return told[0][0] if told else {}

    def comments(self) -> Mapping[str, str]:
        told = self._run(
            "SELECT coalesce(attname, ''), description FROM pg_description LEFT JOIN pg_attribute "
            "ON attrelid = objoid AND attnum = objsubid AND attnum > 0 "
            "WHERE objoid = 'flights'::regclass AND classoid = 'pg_class'::regclass"
        )
        return dict(told)

    def state(self) -> object:
        """Every row of the catalog and of the tables with the transaction that wrote it."""
        catalogs = ["pg_class", "pg_attribute", "pg_description"]
        mine = [name for (name,) in self._run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        return [self._run(f"SELECT xmin::text, ctid::text FROM {name}") for name in (*catalogs, *mine)]

    def add_strangers(self, table: pa.Table) -> None:
        columns = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in table.schema)
        self._run(f"CREATE TABLE IF NOT EXISTS flights ({columns})", role=OWNER)
        for row in table.to_pylist():
            self._run(f"INSERT INTO flights VALUES ({', '.join(['%s'] * len(row))})", *row.values())

    @contextmanager
    def down(self) -> Iterator[None]:
        limit = f"ALTER DATABASE {self.database} CONNECTION LIMIT"
        self.server.run(f"{limit} 0")  # only a superuser gets in
        try:
            yield
        finally:
            self.server.run(f"{limit} -1")

    def die_at(self, boundary: str) -> None:
        from dp_spark.publish import sql

        match boundary:
            case "before the lock":
                die_in(sql, "_lock", before=True)
            case "before the rows" | "after the rows":
                die_in(sql, "insert_rows", before=boundary == "before the rows")
            case _:
                die_in(sa.Connection, "_commit_impl", before=boundary == "before the commit")

    def _run(self, statement: str, *values: Any, role: str = "postgres") -> Any:
        return self.server.run(statement, *values, database=self.database, role=role)
