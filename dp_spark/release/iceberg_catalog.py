"""The Iceberg catalog that a connection of the profile names."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from pyiceberg.catalog import Catalog, load_catalog

from dp_spark.errors import SetupRefused
from dp_spark.release.connecting import scheme_of
from dp_spark.release.profile import Connection
from dp_spark.release.secret import read_secret

CATALOG_OPTION, WAREHOUSE_OPTION = "catalog", "warehouse"
# How long a database may take to answer, in seconds, in the word of its driver.
_PATIENCE = {"postgresql": {"connect_timeout": "30"}, "sqlite": {"timeout": "30"}}
_HTTP = re.compile("https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    """A catalog: tables of a database, or whatever else PyIceberg opens by its options.

    Attributes:
        name: of the connection; the catalog's own name too, unless option `catalog` says another.
        connection: its URL and options; those that are not ours are PyIceberg's.

    Raises:
        SetupRefused: a catalog in a database says nowhere where its tables are.
    """

    name: str
    connection: Connection

    def __post_init__(self) -> None:
        warehouse = self.connection.options.get(WAREHOUSE_OPTION, "")
        if self.is_sql and not (warehouse.startswith("/") or scheme_of(warehouse)):
            raise SetupRefused(
                "connection_warehouse",
                f"connection {self.name}: options.warehouse = {warehouse!r} is no absolute path and no URL",
                way_out=f"add it to [connections.{self.name}]: "
                'options = {warehouse = "s3://bucket/warehouse"}, or a directory such as /srv/warehouse',
            )

    @property
    def is_sql(self) -> bool:
        """Whether a database holds it."""
        return "type" not in self.connection.options and not _HTTP.match(self.connection.url)

    @contextmanager
    def opened(self, *, makes: bool) -> Iterator[Catalog]:
        """The catalog, closed in the end; one that is not there is made only if it `makes`.

        Raises:
            SetupRefused: its password is not where the profile says.
            Exception: of the driver, with a text that may quote anything.
        """
        options = {key: each for key, each in self.connection.options.items() if key != CATALOG_OPTION}
        if self.is_sql:
            options |= {"type": "sql", "init_catalog_tables": str(makes).lower()}
        options["uri"] = self._url()
        if not self.is_sql and (secret := self._secret()) is not None:
            options["token"] = secret
        with load_catalog(self.connection.options.get(CATALOG_OPTION, self.name), **options) as catalog:
            yield catalog

    def _url(self) -> str:
        """The URL; that of a database with its password, and with the patience that it is given."""
        if not self.is_sql:
            return self.connection.url
        url = sa.make_url(self.connection.url)
        patience = _PATIENCE.get(url.get_backend_name(), {})
        url = url.update_query_dict({key: each for key, each in patience.items() if key not in url.query})
        if (secret := self._secret()) is not None:
            url = url.set(password=secret)
        return url.render_as_string(hide_password=False)

    def _secret(self) -> str | None:
        reference = self.connection.password
        return None if reference is None else read_secret("connection password", reference)
