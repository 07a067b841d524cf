"""Connections of the profile, found by their names and opened: what inputs and sinks share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.release.problems import nearest
from dp_spark.release.profile import Connection
from dp_spark.release.secret import read_secret

if TYPE_CHECKING:  # an extra: only who names a catalog needs it
    from pyiceberg.catalog import Catalog

_REST = ("http", "https")


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


def open_catalog(name: str, connection: Connection) -> "Catalog":
    """The Iceberg catalog of a connection: of a URL http(s)://, a REST catalog, else tables of a database.

    Whatever its library raises later may quote the URL with its password: show its class alone.

    Raises:
        SetupRefused: pyiceberg is not installed, or the password's reference leads nowhere.
    """
    try:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415
    except ModuleNotFoundError:
        raise SetupRefused(
            "extra_missing",
            f"connection {name} is an Iceberg catalog, and pyiceberg is not installed",
            way_out="pip install 'dp-spark[iceberg]'",
        ) from None
    url, password = sa.make_url(connection.url), password_of(name, connection)
    if url.get_backend_name() in _REST:
        secret = {} if password is None else {"credential": f"{url.username or ''}:{password}"}
        uri = url.set(username=None, password=None).render_as_string(hide_password=False)
        return load_catalog(name, **{"type": "rest", **connection.options, **secret, "uri": uri})
    uri = url.set(password=password).render_as_string(hide_password=False)
    return load_catalog(name, **{"type": "sql", **connection.options, "uri": uri})
