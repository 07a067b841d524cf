"""The sink in a DuckDB file, for the contract test."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import duckdb
import pyarrow as pa
import pytest
from sink_worlds import Boundary, die_in, file_instead

from dp_spark.publish import Part, Reach, Sink, open_sink
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkSpec


@dataclass(frozen=True)
class DuckDbWorld:
    file: Path
    boundaries: ClassVar[Sequence[Boundary]] = (
        Boundary("before the rows", placed=False),
        Boundary("before the commit", placed=False),
        Boundary("after the commit", placed=True),
    )
    has_processes: ClassVar[bool] = True
    lost: ClassVar[tuple[type[Exception], ...]] = (duckdb.IOException,)
    is_atomic: ClassVar[bool] = True

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        return cls(place / "warehouse.duckdb")

    def open(self) -> Sink:
        spec = SinkSpec(sink="sql", connection="warehouse", table="flights")
        return open_sink(spec, Reach({"warehouse": Connection(f"duckdb:///{self.file}")}, NotImplemented))

    def table(self) -> pa.Table:
        with self._read() as connection:
            return connection.sql("SELECT * FROM flights").to_arrow_table()

    def labels(self, part: Part) -> Mapping[str, str]:
        with self._read() as connection:
            told = connection.execute(
                f"SELECT labels FROM flights_releases WHERE {part.column} = ?", [part.value]
            ).fetchone()
        return json.loads(told[0]) if told else {}

    def comments(self) -> Mapping[str, str]:
        with self._read() as connection:
            told = connection.execute(
                "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'flights' "
                "UNION ALL SELECT '', comment FROM duckdb_tables() WHERE table_name = 'flights'"
            ).fetchall()
        return {name: comment for name, comment in told if comment is not None}

    def state(self) -> object:
        """All rows, those with the moment of publishing among them, and all definitions."""
        if not self.file.is_file() or self.file.stat().st_size == 0:
            return None
        with self._read() as connection:
            told: list[Any] = connection.execute("SELECT sql, comment FROM duckdb_tables()").fetchall()
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                told += connection.execute(f"SELECT rowid, * FROM {name}").fetchall()
        return told

    def add_strangers(self, table: pa.Table) -> None:
        with duckdb.connect(str(self.file)) as connection:
            connection.register("theirs", table)
            connection.execute("CREATE TABLE IF NOT EXISTS flights AS SELECT * FROM theirs LIMIT 0")
            connection.execute("INSERT INTO flights SELECT * FROM theirs")

    def down(self) -> AbstractContextManager[None]:
        return file_instead(self.file)

    def die_at(self, boundary: str) -> None:
        from dp_spark.publish import duckdb as sink

        if boundary == "before the rows":
            die_in(sink, "replace_rows", before=True)
        else:
            die_in(sink, "_commit", before=boundary == "before the commit")

    @contextmanager
    def _read(self) -> "Iterator[duckdb.DuckDBPyConnection]":
        """As readers have to: a file that is being written cannot be opened; one waits."""
        with duckdb.connect(str(self.file), read_only=True) as connection:
            yield connection
