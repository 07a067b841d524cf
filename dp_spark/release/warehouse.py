"""Databases that connections of a profile name: how they are opened, and how their failures are told."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from dp_spark.errors import SetupRefused
from dp_spark.release.profile import FILES, Connection
from dp_spark.release.secret import read_secret

CONNECT_SECONDS, LOCK_SECONDS, STATEMENT_MINUTES = 30, 60, 10
# Of the transaction alone, so that a pooler in between may hand the connection on.
_LIMITS = (
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; "
    f"SET LOCAL statement_timeout = '{STATEMENT_MINUTES}min'; "
    f"SET LOCAL idle_in_transaction_session_timeout = '{LOCK_SECONDS}s'"
)
_CATALOGS = ("http", "https")
_PSYCOPG = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "dp_spark",
    "client_encoding": "utf8",
    "prepare_threshold": None,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_REASONS = {
    "28000": "its role was not let in",
    "28P01": "its password was not accepted",
    "3D000": "there is no such database",
    "3F000": "there is no such schema",
    "42501": "its role may not do this",
    "55P03": f"somebody else held a lock for {LOCK_SECONDS} s",
    "57014": f"a statement took {STATEMENT_MINUTES} minutes",
}

_WRONG = ("28000", "28P01", "3D000", "3F000", "42501")  # what waiting does not mend


def engine_of(name: str, connection: Connection) -> sa.Engine:
    """An engine that opens a connection for each transaction; nothing is reached, no password is read yet.

    Args:
        name: of the connection, for refusals.
        connection: its URL; its options join the URL's.

    Raises:
        SetupRefused: its driver is not installed. Later, when it connects: its password cannot be read.
    """
    url = sa.make_url(connection.url).update_query_dict(connection.options)
    try:
        arguments: dict[str, Any] = _PSYCOPG if url.get_dialect().driver == "psycopg" else {}
        engine = sa.create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    except ModuleNotFoundError as missing:
        raise _no_driver(name, missing.name or url.drivername) from None
    except sa.exc.NoSuchModuleError:
        raise _no_driver(name, url.drivername) from None
    reference = connection.password
    if reference is not None:

        def add_password(_dialect: object, _record: object, _words: object, given: dict[str, Any]) -> None:
            given["password"] = read_secret("connection password", reference)

        sa.event.listen(engine, "do_connect", add_password)
    if is_postgres(
        engine
    ):  # whatever a server's default is: what is read after a lock has to be what is there
        return engine.execution_options(isolation_level="READ COMMITTED")
    return engine


def require_reachable(name: str, connection: Connection) -> None:
    """Check that a database answers, or that its file can be written; a catalog on the web is not asked.

    Raises:
        SetupRefused: it does not, its driver is not installed, or its password cannot be read.
    """
    url = sa.make_url(connection.url)
    if url.get_backend_name() in _CATALOGS:
        return
    if url.get_backend_name() in FILES:
        file = Path(str(url.database))
        place = next(each for each in (file, *file.parents) if each.exists())
        if not os.access(place, os.W_OK) or (place != file and not place.is_dir()):
            raise _unreachable(name, f"{place} is not for this user to write")
        return
    engine = engine_of(name, connection)
    try:
        with transaction(engine) as opened:
            opened.execute(sa.select(1))
    except failures_of(engine) as failure:
        raise _unreachable(name, reason_of(failure)) from None


def is_postgres(engine: sa.Engine) -> bool:
    """Whether the server is PostgreSQL itself, and no relative of it."""
    return engine.dialect.name == "postgresql"


@contextmanager
def transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction, committed at the end; a stuck PostgreSQL does not hold it for ever."""
    with engine.begin() as connection:
        if is_postgres(engine):
            connection.exec_driver_sql(_LIMITS)
        yield connection


def failures_of(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """What a database that is down, or that refuses a statement, raises."""
    return sa.exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error


def reason_of(failure: Exception) -> str:
    """Why a database failed, without its own words: they can quote rows and passwords."""
    original = getattr(failure, "orig", None) or failure
    state = getattr(original, "sqlstate", None)
    if state:
        return f"{_REASONS.get(state, 'the database refused a statement')} (SQLSTATE {state})"
    name = type(original).__name__
    if _is_silence(original):
        return f"there is no answer ({name})"
    return f"the database or its driver failed ({name})"


def is_refused(failure: Exception) -> bool:
    """Whether a database answered that it is the wrong one, or that the role may not do this."""
    original = getattr(failure, "orig", None) or failure
    return getattr(original, "sqlstate", None) in _WRONG


def _is_silence(original: Exception) -> bool:
    """Whether psycopg lost the server, or never had it; other drivers do not tell this from a refusal."""
    driver, _, _ = type(original).__module__.partition(".")
    return driver == "psycopg" and getattr(original, "sqlstate", None) is None


def _unreachable(name: str, why: str) -> SetupRefused:
    return SetupRefused(
        "connection_unreachable",
        f"connection {name!r} cannot be used: {why}",
        way_out="check server, network, role and password; a copy that waits for it is charged once, "
        "and `dp-spark publish` finishes it",
    )


def _no_driver(name: str, driver: str) -> SetupRefused:
    if driver == "psycopg":
        return SetupRefused(
            "extra_missing", "psycopg is not installed", way_out="pip install 'dp-spark[postgres]'"
        )
    return SetupRefused(
        "driver_missing",
        f"connection {name!r} needs {driver!r}, which is not installed",
        way_out="install the SQLAlchemy dialect of that database and its driver, or mend the URL",
    )
