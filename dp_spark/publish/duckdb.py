"""The sink of a table in a DuckDB file, by DuckDB's own interface: what `sql` does, in its words."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from dp_spark.publish.duckdb_tables import Tables, prepare, replace_rows, standing_of
from dp_spark.publish.durable import make_directories, sync_directory
from dp_spark.publish.release_rows import require_names
from dp_spark.publish.sink import Edition, Part, is_edition, is_placed, refusing, unreachable

WAIT_SECONDS = 30  # for another process to close the file
_PAUSE_SECONDS = 0.1
_OPEN_ELSEWHERE = ("Could not set lock on file", "with a different configuration")
_NO_DATABASE = "not a valid DuckDB database"


@dataclass(frozen=True, slots=True)
class DuckDbSink:
    """A table of a DuckDB file, with TABLE_releases and the view TABLE_latest beside it.

    Attributes:
        name: of the sink, as refusals call it.
        table: its name, behind that of its schema and a dot; without one, in schema main.
        file: the database; made where it is missing.
        options: settings of DuckDB.
    """

    name: str
    table: str
    file: Path
    options: Mapping[str, str]

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`; a file that cannot be opened is no reason to refuse."""
        tables = self._tables(part, schema)
        try:
            with self._opened(read_only=True) if self.file.exists() else self._tried() as connection:
                labels = standing_of(connection, tables, at=self.name).labels
        except (duckdb.Error, OSError) as failure:
            if isinstance(failure, duckdb.ProgrammingError) or _NO_DATABASE in str(failure):
                raise refusing(self.name, _reason(failure)) from None
            return
        is_placed(labels, release_id, None, at=self._at(part))

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        tables = self._tables(part, part.alone)
        try:
            if not self.file.exists():
                return False
            with self._opened(read_only=True) as connection:
                labels = standing_of(connection, tables, at=self.name).labels
        except (duckdb.Error, OSError) as failure:
            raise unreachable(self.name, _reason(failure)) from None
        return is_edition(labels, release_id, digest)

    def publish(self, edition: Edition) -> str:
        """As `Sink`; the file and the table."""
        tables = self._tables(edition.part, edition.table.schema)
        try:
            make_directories(self.file.parent, 0o777)
            if not self.file.exists():
                _make(self.file)
            with self._opened(read_only=False) as connection, _transaction(connection):
                standing = standing_of(connection, tables, at=self.name)
                at = self._at(edition.part)
                if not is_placed(standing.labels, edition.release_id, edition.digest, at=at):
                    prepare(connection, tables, standing, edition.comment)
                    replace_rows(connection, tables, edition)
        except (duckdb.Error, OSError) as failure:
            raise unreachable(self.name, _reason(failure)) from None
        return f"duckdb:///{self.file} {self.table}"

    @contextmanager
    def _opened(self, *, read_only: bool) -> Iterator[DuckDBPyConnection]:
        """The file, once no other process has it open."""
        last = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                opened = duckdb.connect(str(self.file), read_only=read_only, config=dict(self.options))
            except (duckdb.IOException, duckdb.ConnectionException) as failure:
                if not _is_open_elsewhere(failure) or time.monotonic() > last:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                break
        with closing(opened):
            yield opened

    @contextmanager
    def _tried(self) -> Iterator[DuckDBPyConnection]:
        """An empty database of the file's name, with the options, in the stead of one to be made."""
        with closing(duckdb.connect(":memory:", config=dict(self.options))) as opened:
            name = self.file.stem.replace('"', '""')
            opened.execute(f"ATTACH ':memory:' AS \"{name}\"")
            opened.execute(f'USE "{name}"')
            yield opened

    def _tables(self, part: Part, schema: pa.Schema) -> "Tables":
        require_names(self.name, self.table.rpartition(".")[2], schema, sys.maxsize)
        return Tables(self.table, part, schema)

    def _at(self, part: Part) -> str:
        return f"{self.name}, {part.column}={part.value},"


def _make(file: Path) -> None:
    """An empty database, unless there is one by now.

    It appears whole: where DuckDB makes one file in two processes at once, what one has written can be lost.
    """
    attempt = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
    try:
        duckdb.connect(str(attempt)).close()
        os.link(attempt, file)
        sync_directory(file.parent)
    except FileExistsError:
        return
    finally:
        attempt.unlink(missing_ok=True)


@contextmanager
def _transaction(connection: DuckDBPyConnection) -> Iterator[None]:
    """Committed at the end; whoever fails before closes the connection, which leaves nothing."""
    connection.execute("BEGIN TRANSACTION")
    yield
    _commit(connection)


def _commit(connection: DuckDBPyConnection) -> None:
    connection.execute("COMMIT")


def _is_open_elsewhere(failure: Exception) -> bool:
    return any(words in str(failure) for words in _OPEN_ELSEWHERE)


def _reason(failure: Exception) -> str:
    if _is_open_elsewhere(failure):
        return f"another process kept the file open for {WAIT_SECONDS} s"
    if _NO_DATABASE in str(failure):
        return f"the file is no database of DuckDB ({type(failure).__name__})"
    return f"DuckDB refused ({type(failure).__name__})"
