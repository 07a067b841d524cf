"""A ledger in PostgreSQL: connections, transactions, and what becomes of a connection that is lost."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from dp_spark.errors import LedgerRefused, Refusal, SetupRefused
from dp_spark.release.ledger import schema

T = TypeVar("T")

_PAUSES = (0.2, 1.0, 3.0)  # seconds before a transaction that left nothing behind is tried again
_WAIT_SECONDS = 30
# Of the transaction alone, so that a pooler in between may hand the connection on.
_READ = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A writer that stops with the lock in its hand is ended. A charge is on disk before it counts.
_WRITE = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE; "
    f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'; "
    f"SET LOCAL idle_in_transaction_session_timeout = '{_WAIT_SECONDS}s'; "
    "SELECT set_config('synchronous_commit', 'on', true) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)
# All writers queue for this one row. Whatever a writer reads after it, in READ COMMITTED, is what the writer
# before it has left: a charge that was admitted is seen by whoever is admitted next.
_LOCK = "SELECT id FROM ledger_meta WHERE id = 1 FOR UPDATE"
_INITIALISING = 7_021_987_305_117  # an advisory lock: there is no row yet

_LOST = re.compile("08...|57P0[123]|25P0[34]|3F...")
_AGAIN = re.compile("40001|40P01")
_WAITED = re.compile("55P03|57014")


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """The ledger in one PostgreSQL database.

    Attributes:
        engine: opens a connection for each transaction.
        place: the database as a refusal names it, without a password.
    """

    engine: sa.Engine
    place: str

    @property
    def one_machine(self) -> bool:
        """Any machine that reaches the server may write."""
        return False

    def exists(self) -> bool:
        """Whether the database holds a ledger, of any version."""
        return schema.is_ledger(self._read(_tables))

    def create(self, created_at: str) -> None:
        """Make the tables, or bring older ones to this version.

        Raises:
            SetupRefused: the database cannot be reached, the role may not make tables, or the ledger there is
                newer than this dp_spark.
        """

        def make(connection: sa.Connection) -> None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_INITIALISING})")
            tables = _tables(connection)
            if schema.is_ledger(tables) and _is_settled(tables, _version(connection, tables), self.place):
                return
            schema.upgrade(connection, created_at)

        self._tried(lambda: self._transaction(make))

    def require(self) -> None:
        """Check that there is a ledger of this version.

        Raises:
            SetupRefused: there is none, it is of another version, or the database cannot be reached.
        """

        def look(connection: sa.Connection) -> None:
            tables = _tables(connection)
            schema.require_current(tables, _version(connection, tables), self.place)

        self._read(look)

    def read(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result over one snapshot."""
        return self._read(action)

    def write(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result in one transaction that holds the ledger's row lock.

        Raises:
            LedgerRefused: the lock did not come, or the connection was lost while the transaction was being
                committed, so that nobody knows whether it was.
            SetupRefused: the server cannot be reached, or the role may not do this.
        """

        def locked(connection: sa.Connection) -> T:
            connection.exec_driver_sql(_LOCK)
            return action(connection)

        return self._tried(lambda: self._transaction(locked, _WRITE))

    def erase_log(self) -> bool:
        """Nothing of the server's files lies on this machine: old row versions go when VACUUM comes."""
        return True

    def _read(self, action: Callable[[sa.Connection], T]) -> T:
        return self._tried(lambda: self._transaction(action, _READ))

    def _tried(self, attempt: Callable[[], T]) -> T:
        """The attempt's result; one that surely left nothing behind is made again, a few times."""
        for pause in _PAUSES:
            try:
                return attempt()
            except sa.exc.IntegrityError:
                raise
            except sa.exc.DBAPIError as error:
                if not _may_be_tried_again(error):
                    raise self._refusal(error) from error
            time.sleep(pause)
        try:
            return attempt()
        except sa.exc.IntegrityError:
            raise
        except sa.exc.DBAPIError as error:
            raise self._refusal(error) from error

    def _transaction(self, action: Callable[[sa.Connection], T], prologue: str | None = None) -> T:
        with self.engine.connect() as connection:
            if prologue is not None:
                connection.exec_driver_sql(prologue)
            result = action(connection)
            try:
                connection.commit()
            except sa.exc.DBAPIError as error:
                if _is_lost(error):
                    raise _unknown_outcome(self.place) from error
                raise
            return result

    def _refusal(self, error: sa.exc.DBAPIError) -> Refusal:
        state = _state(error)
        if _WAITED.fullmatch(state) or _AGAIN.fullmatch(state):
            return LedgerRefused(
                "ledger_busy",
                f"the ledger at {self.place} stayed locked for {_WAIT_SECONDS} s",
                way_out="run again; a release that was reserved is not charged a second time",
            )
        if state == "42501":
            return SetupRefused(
                "ledger_permission",
                f"the role of {self.place} may not do this",
                way_out="use the role that owns the ledger; for a runner, see `dp-spark ledger grants`",
            )
        if state == "42P01":
            return SetupRefused(
                "not_a_ledger",
                f"{self.place} is a database but no dp_spark ledger",
                way_out=f"name another one in the profile, or {schema.INIT}",
            )
        reason = state or "no answer"
        return SetupRefused(
            "ledger_unavailable",
            f"the ledger at {self.place} cannot be used (SQLSTATE {reason})",
            way_out="check server, network, role and ledger_password; whatever was charged is charged once",
        )


def postgres_engine(url: sa.URL) -> sa.Engine:
    """Engine with a connection for each transaction: forks are safe, and nothing idles on the server.

    Raises:
        ModuleNotFoundError: psycopg is not installed; it comes with the extra `postgres`.
    """
    arguments = {
        "connect_timeout": 10,
        "application_name": "dp_spark",
        "prepare_threshold": None,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    # Parameters are hidden because an error text must not carry a wrapped key.
    return sa.create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)


def _tables(connection: sa.Connection) -> Sequence[str]:
    return sa.inspect(connection).get_table_names()


def _version(connection: sa.Connection, tables: Sequence[str]) -> str | None:
    if schema.VERSION_TABLE not in tables:
        return None
    found: str | None = connection.exec_driver_sql(schema.VERSION_QUERY).scalar()
    return found


def _is_settled(tables: Sequence[str], version: str | None, place: str) -> bool:
    """Whether there is nothing to upgrade; a newer ledger is refused."""
    if version in schema.REVISIONS[:-1]:
        return False
    schema.require_current(tables, version, place)
    return True


def _state(error: sa.exc.DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _is_lost(error: sa.exc.DBAPIError) -> bool:
    state = _state(error)
    silent = not state and isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    return error.connection_invalidated or silent or _LOST.fullmatch(state) is not None


def _may_be_tried_again(error: sa.exc.DBAPIError) -> bool:
    return _is_lost(error) or _AGAIN.fullmatch(_state(error)) is not None


def _unknown_outcome(place: str) -> LedgerRefused:
    return LedgerRefused(
        "ledger_outcome_unknown",
        f"the connection to the ledger at {place} was lost while a step was being recorded",
        way_out="run again: if the step was recorded, it is found, and nothing is charged a second time",
    )
