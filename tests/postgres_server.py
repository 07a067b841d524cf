"""A real PostgreSQL from the distribution's package, for one session of tests."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

REQUIRED = "DP_SPARK_REQUIRE_POSTGRES"  # set where tests must not be skipped
OWNER = "ledger_owner"


@dataclass(frozen=True)
class Server:
    """A running server that trusts whoever reaches it on this machine."""

    port: int
    directory: Path

    def url(self, database: str, role: str = OWNER) -> str:
        return f"postgresql+psycopg://{role}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, *values: Any, database: str = "postgres", role: str = "postgres") -> Any:
        """The rows of a statement; none where it gives none."""
        with psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=database, user=role, autocommit=True
        ) as connection:
            done = connection.execute(statement, values or None)
            return done.fetchall() if done.description else []

    def new_database(self, template: str = "template1") -> str:
        """The name of a database that OWNER may do everything with."""
        name = f"ledger_{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name} OWNER {OWNER} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        self.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


@contextmanager
def running_server() -> Iterator[Server]:
    """A server of its own in a temporary directory; the test is skipped where there is no PostgreSQL."""
    programs = _programs()
    # Not pytest's directory: user postgres must reach it.
    directory = Path(tempfile.mkdtemp(prefix="dp_spark_postgres_"))
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)
    data, port = directory / "data", _free_port()
    settings = (
        f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={directory} "
        "-c fsync=off -c max_connections=200"
    )
    try:
        _as_postgres(programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
        log = directory / "log"
        _as_postgres(programs / "pg_ctl", "-D", data, "-l", log, "-o", settings, "-w", "start")
        try:
            server = Server(port, directory)
            server.run(f"CREATE ROLE {OWNER} LOGIN")
            yield server
        finally:
            _as_postgres(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    reason = "there is no PostgreSQL here: install the package `postgresql`"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{reason}; {REQUIRED}=1 forbids to skip")
    pytest.skip(reason)


def _as_postgres(*command: object) -> None:
    """Run a program of PostgreSQL, which refuses to be root."""
    words = [str(word) for word in command]
    if os.geteuid() == 0:
        words = ["runuser", "-u", "postgres", "--", *words]
    # pg_ctl hands its streams to the server: a pipe would never end.
    nothing = subprocess.DEVNULL
    subprocess.run(words, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing, check=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
