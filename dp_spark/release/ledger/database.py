"""Where a ledger lives: the seam between its tables and the databases that can hold them."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.release.ledger.postgres import PostgresDatabase, postgres_engine
from dp_spark.release.ledger.sqlite import SqliteDatabase, database_path, ledger_engine

T = TypeVar("T")


class Database(Protocol):
    """One ledger. It holds no connection between calls: threads and forks may share it."""

    @property
    def one_machine(self) -> bool:
        """Whether only processes of this machine can write it."""

    def exists(self) -> bool:
        """Whether there is anything that looks like a ledger, of any version."""

    def create(self, created_at: str) -> None:
        """Make an empty ledger, or bring an older one to this version; a current one stays as it is."""

    def require(self) -> None:
        """Check, without writing, that there is a whole ledger of this version."""

    def read(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result over one consistent snapshot."""

    def write(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result in one transaction, which no other writer overlaps.

        The action may be called again, where its first transaction is known to have left nothing behind.
        """

    def erase_log(self) -> bool:
        """Erase what was overwritten from logs of this machine; whether that succeeded at once."""


def database_of(url: str, password: str | None = None) -> Database:
    """The ledger that a URL names; nothing is opened yet.

    Raises:
        SetupRefused: the URL cannot be read, or names a database of another kind.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise _bad_url("the ledger URL cannot be read") from None
    if parsed.drivername == "postgresql+psycopg":
        if parsed.password is not None:
            raise _bad_url("the ledger URL holds a password")
        named = parsed if password is None else parsed.set(password=password)
        return PostgresDatabase(postgres_engine(named), parsed.render_as_string(hide_password=True))
    if parsed.get_backend_name() == "sqlite":
        path = database_path(parsed)
        return SqliteDatabase(path, ledger_engine(path))
    raise _bad_url(f"the ledger URL names {parsed.drivername!r}")


def _bad_url(message: str) -> SetupRefused:
    return SetupRefused(
        "ledger_url",
        message,
        way_out="write sqlite:///PATH or postgresql+psycopg://ROLE@HOST/DATABASE in the profile, and in "
        "ledger_password where its password is",
    )
