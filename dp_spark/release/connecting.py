"""Connections of the profile, found by their names and opened: what inputs and sinks share."""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dp_spark.errors import SetupRefused
from dp_spark.release.problems import nearest
from dp_spark.release.profile import Connection
from dp_spark.release.secret import read_secret

if TYPE_CHECKING:  # an extra: only who names a catalog needs it
    from dp_spark.release.iceberg_catalog import IcebergCatalog


def connection_named(name: str, connections: Mapping[str, Connection]) -> Connection:
    """The connection of this name.

    Raises:
        SetupRefused: the profile has none.
    """
    if name in connections:
        return connections[name]
    guess = nearest(name, connections)
    raise SetupRefused(
        "connection_unknown",
        f"connection = {name!r}: the profile has no such connection"
        + (f"; did you mean {guess!r}?" if guess else f" ({len(connections)} others)"),
        way_out=f"add [connections.{name}] with its url to the profile, or name one that is there",
    )


def password_of(name: str, connection: Connection) -> str | None:
    """The password of a connection, read now; None where none is asked for.

    Raises:
        SetupRefused: its reference leads nowhere.
    """
    if connection.password is None:
        return None
    return read_secret(f"password of connection {name}", connection.password)


def require_extra(module: str, extra: str) -> None:
    """Check that a library which comes with an extra is installed; it is not imported.

    Raises:
        SetupRefused: it is not.
    """
    if find_spec(module) is None:
        raise SetupRefused(
            "extra_missing", f"{module} is not installed", way_out=f"pip install 'dp-spark[{extra}]'"
        )


def scheme_of(place: Path | str) -> str | None:
    """The scheme of a URL; None of a path. A URL that was a `Path` has lost one of its slashes."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", os.fspath(place))
    return scheme[1] if scheme else None


def iceberg_catalog(name: str, connections: Mapping[str, Connection]) -> "IcebergCatalog":
    """The Iceberg catalog that a connection of this name leads to; nothing is reached yet.

    Raises:
        SetupRefused: there is no such connection, it says nowhere where tables are, or it needs what is not
            installed.
    """
    connection = connection_named(name, connections)
    require_extra("pyiceberg", "iceberg")
    if connection.url.startswith("postgresql"):
        require_extra("psycopg", "postgres")
    from dp_spark.release.iceberg_catalog import IcebergCatalog  # noqa: PLC0415

    return IcebergCatalog(name, connection)
