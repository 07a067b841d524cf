"""A ledger in one SQLite file: creation, connections, transactions, what is left on disk."""

import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from dp_spark.errors import LedgerRefused, Refusal, SetupRefused
from dp_spark.release.ledger import schema

T = TypeVar("T")

_BUSY_SECONDS = 30
_CHECKPOINT_TRIES = 10
_CHECKPOINT_SECONDS = 0.5  # of one try, because a checkpoint that waits for a reader keeps writers waiting
_PAUSE_SECONDS = 0.05  # SQLite does not wait at all for another's checkpoint
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    f"busy_timeout={_BUSY_SECONDS * 1000}",
    "secure_delete=ON",
)
_WRITES = "ledger_writes"


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """The ledger in the file at `path`; its engine remembers how statements compile."""

    path: Path
    engine: sa.Engine

    @property
    def one_machine(self) -> bool:
        """Locks of the file system are trusted on one machine only."""
        return True

    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def create(self, created_at: str) -> None:
        """Make the file, or bring an older ledger in it to this version."""
        create_database(self.path, created_at)

    def require(self) -> None:
        """Check that the file is a whole ledger of this version."""
        require_ledger(self.path)

    def read(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result over one snapshot."""
        with reading(self.engine, self.path) as connection:
            return action(connection)

    def write(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result in one transaction that holds the write lock from its first statement on."""
        with writing(self.engine, self.path) as connection:
            return action(connection)

    def erase_log(self) -> bool:
        """Cut the write-ahead log to nothing; whether that succeeded at once."""
        return erase_log(self.path)


def database_path(parsed: sa.URL) -> Path:
    """The file that a `sqlite:///PATH` URL names.

    Raises:
        SetupRefused: it names none.
    """
    if not parsed.database or parsed.database.startswith((":", "file:")):
        raise SetupRefused(
            "ledger_url",
            f"ledger URL {parsed.render_as_string()!r} names no file, and a ledger must outlive the process",
            way_out="write sqlite:///PATH in the profile",
        )
    return Path(parsed.database).absolute()


def create_database(path: Path, created_at: str) -> None:
    """Put an empty ledger at `path` with mode 600, whole or not at all; an existing ledger stays as it is.

    Raises:
        SetupRefused: the directory is missing, or the file is no ledger of this version.
    """
    if path.exists():
        _bring_up_to_date(path, created_at)
        return
    if not path.parent.is_dir():
        raise SetupRefused(
            "directory_missing",
            f"the directory of ledger {str(path)!r} does not exist",
            way_out=f"mkdir -p -m 700 {str(path.parent)!r}",
        )
    # Built beside and linked: a crash leaves no half ledger, and of two processes one wins.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with database_errors(path):
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _fill(draft, created_at)
            os.link(draft, path)
    except FileExistsError:
        require_ledger(path)
    except OSError as error:
        raise SetupRefused(
            "ledger_unavailable",
            f"no ledger can be made at {str(path)!r}: {error.strerror}",
            way_out="name a path on a local disk, in a directory that you may write to",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(path.parent)


def require_ledger(path: Path) -> None:
    """Check, without writing, that `path` is a whole ledger of this schema version.

    Raises:
        SetupRefused: it is missing, damaged, no ledger, or of another version.
    """
    if not path.is_file():
        raise SetupRefused("ledger_missing", f"there is no ledger at {str(path)!r}", way_out=schema.INIT)
    schema.require_current(*_seen(path), repr(str(path)))


def _seen(path: Path) -> tuple[set[str], str | None]:
    """The tables and the version of a file that is whole; nothing is written."""
    with database_errors(path), closing(_connect(path)) as connection:
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise _damaged(path)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        known = schema.VERSION_TABLE in tables
        version = connection.execute(schema.VERSION_QUERY).fetchone() if known else None
    return tables, version and version[0]


def _bring_up_to_date(path: Path, created_at: str) -> None:
    tables, version = _seen(path)
    if schema.is_ledger(tables) and version in {None, *schema.REVISIONS[:-1]}:
        with writing(ledger_engine(path), path) as connection:
            schema.upgrade(connection, created_at)
    require_ledger(path)


def ledger_engine(path: Path) -> sa.Engine:
    """Engine with a connection for each transaction: forks are safe, and the last to close tidies up."""

    def connect() -> sqlite3.Connection:
        connection = _connect(path)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    # Parameters are hidden because an error text must not carry a wrapped key.
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    sa.event.listen(engine, "begin", _begin)
    return engine


@contextmanager
def reading(engine: sa.Engine, path: Path) -> Iterator[sa.Connection]:
    """One consistent snapshot."""
    with database_errors(path), engine.begin() as connection:
        yield connection


@contextmanager
def writing(engine: sa.Engine, path: Path) -> Iterator[sa.Connection]:
    """One transaction that holds the write lock from its first statement on."""
    writer = engine.execution_options(**{_WRITES: True})
    with database_errors(path), writer.begin() as connection:
        yield connection


def erase_log(path: Path) -> bool:
    """Move the write-ahead log into the database and cut it to nothing; whether that succeeded at once.

    A reader can be in the way for longer than all tries. A later connection does it then, when it closes as
    the last one.
    """
    with database_errors(path), closing(_connect(path)) as connection:
        connection.execute(f"PRAGMA busy_timeout={int(_CHECKPOINT_SECONDS * 1000)}")
        for _ in range(_CHECKPOINT_TRIES):
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return True
            time.sleep(_PAUSE_SECONDS)
    return False


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says of a lock, a disk or a broken file into a refusal."""
    try:
        yield
    except sa.exc.IntegrityError:
        raise
    except sa.exc.DatabaseError as error:
        raise _refusal(path, error.orig) from error
    except sqlite3.DatabaseError as error:
        raise _refusal(path, error) from error


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw: a file that vanished is an error, never a fresh and empty ledger.
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _fill(path: Path, created_at: str) -> None:
    engine = ledger_engine(path)
    with writing(engine, path) as connection:
        schema.upgrade(connection, created_at)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path) -> SetupRefused:
    return SetupRefused(
        "ledger_damaged",
        f"the file {str(path)!r} is damaged or is not SQLite",
        way_out="restore its newest backup, and `dp-spark ledger charge` what was released since; "
        "never start an empty ledger for a population that has releases",
    )


def _refusal(path: Path, error: BaseException | None) -> Refusal:
    name = getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return _damaged(path)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LedgerRefused(
            "ledger_busy",
            f"the ledger at {str(path)!r} stayed locked for {_BUSY_SECONDS} s",
            way_out="run again; a release that was reserved is not charged a second time",
        )
    return SetupRefused(
        "ledger_unavailable",
        f"the ledger at {str(path)!r} cannot be used ({name})",
        way_out="check the disk and the permissions of the file and its directory",
    )
