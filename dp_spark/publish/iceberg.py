"""The Iceberg sink: one switch of a table's metadata replaces the rows of a part and their labels.

The labels of a part are a property of the table. Properties are set in the transaction that deletes the
part's rows and appends the new ones, so that readers, who start from the newest metadata, see rows and
labels of one edition. Of the two snapshots that a revision leaves, the first, without the part's rows, was
never the newest.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.expressions import BooleanExpression, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import IdentityTransform
from sqlalchemy.exc import DBAPIError

from dp_spark.errors import PublishRefused, Refusal
from dp_spark.publish.columns import change_of, in_columns
from dp_spark.publish.sink import Edition, Part, is_edition, is_placed, occupied, unreachable
from dp_spark.release.iceberg_catalog import IcebergCatalog

ROWS_LABEL = "dp_spark.rows"
# Seconds to wait after each commit of somebody else that came between: a minute in all.
_PAUSES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
# Whoever meets these finds out by reading again: somebody was faster, or it was this very commit.
_OVERTAKEN = (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    ValidationException,
)
# Two that make a catalog at the same time meet in the database; so often it is asked again.
_MOST_FAILURES = 3
# A revision is decided on what was read: PyIceberg is not to place it on anything else.
_NO_RETRIES = {"commit.retry.num-retries": "0"}
# Each metadata file holds the labels of all parts: of files before the newest ones, a hundred are kept.
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true"}


@dataclass(frozen=True, slots=True)
class IcebergSink:
    """A table of an Iceberg catalog.

    Attributes:
        catalog: where it is registered.
        table: its name, behind that of its namespace and a dot.

    Raises:
        PublishRefused: it has no namespace that the catalog can hold.
    """

    catalog: IcebergCatalog
    table: str

    def __post_init__(self) -> None:
        levels = self.table.count(".")
        if levels == 0 or (self.catalog.is_sql and levels > 1):
            raise PublishRefused(
                "table_namespace",
                f"table = {self.table!r}: a table of an Iceberg catalog lies in a namespace, and in "
                "one of one name if a database holds the catalog",
                way_out=f"write table: NAMESPACE.{self.table.rpartition('.')[2]}",
            )

    @property
    def named(self) -> str:
        """Catalog and table, as people read them."""
        return f"iceberg {self.catalog.name}/{self.table}"

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`."""
        try:
            with self.catalog.opened(makes=False) as catalog:
                table = _loaded(catalog, self.table)
                if table is not None:
                    self._is_placed(table, part, release_id, None, schema)
        except Refusal:
            raise
        except Exception:  # noqa: BLE001  # PyIceberg raises whatever its catalog does; publishing says so
            return

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        try:
            with self.catalog.opened(makes=False) as catalog:
                table = _loaded(catalog, self.table)
                columns = pa.schema([]) if table is None else _columns(table)
                if table is None or part.column not in columns.names:
                    return False
                return is_edition(_standing(table, part, columns), release_id, digest)
        except Refusal:
            raise
        except Exception as failure:  # noqa: BLE001  # its text may quote rows: only the class is told
            raise unreachable(self.named, type(failure).__name__) from None

    def publish(self, edition: Edition) -> str:
        """As `Sink`; catalog and table."""
        failures = 0
        try:
            for pause in _PAUSES:
                time.sleep(pause)
                try:
                    with self.catalog.opened(makes=True) as catalog:
                        self._place(catalog, edition)
                    return self.named
                except _OVERTAKEN:
                    continue
                except DBAPIError:
                    failures += 1
                    if failures == _MOST_FAILURES:
                        raise
        except Refusal:
            raise
        except Exception as failure:  # noqa: BLE001  # its text may quote rows: only the class is told
            raise unreachable(self.named, type(failure).__name__) from None
        raise unreachable(self.named, "others commit to it without a pause")

    def _place(self, catalog: Catalog, edition: Edition) -> None:
        table = _loaded(catalog, self.table)
        if table is None:
            _create(catalog, self.table, edition)
            return
        schema = edition.table.schema
        if not self._is_placed(table, edition.part, edition.release_id, edition.digest, schema):
            _replace(table, edition)

    def _is_placed(
        self, table: Table, part: Part, release_id: str, digest: str | None, schema: pa.Schema
    ) -> bool:
        columns = _columns(table)
        change_of(columns, schema, at=self.named)
        at = f"{part.column}={part.value} of {self.named}"
        if part.column not in columns.names:
            raise occupied(at, f"rows without a column {part.column}")
        return is_placed(_standing(table, part, columns), release_id, digest, at=at)


def _loaded(catalog: Catalog, name: str) -> Table | None:
    """The table as it is now, for one commit on top of just that; None where there is none."""
    try:
        table = catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    metadata = table.metadata.model_copy(update={"properties": {**table.properties, **_NO_RETRIES}})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)


def _columns(table: Table) -> pa.Schema:
    """The table's columns as an edition would have them: texts are texts, however long."""
    return pa.schema(
        pa.field(field.name, pa.string(), nullable=field.nullable)
        if pa.types.is_large_string(field.type)
        else pa.field(field.name, field.type, nullable=field.nullable)
        for field in table.schema().as_arrow()
    )


def _standing(table: Table, part: Part, columns: pa.Schema) -> Mapping[str, str] | None:
    """Labels of what stands in a part; none if its rows are not as many as were placed."""
    labels: dict[str, str] = json.loads(table.properties.get(_property(part), "{}"))
    rows = table.scan(row_filter=_rows_of(part, columns)).count()
    if rows == 0 and labels.get(ROWS_LABEL) != "0":  # never placed, or removed since
        return None
    return labels if labels.get(ROWS_LABEL) == str(rows) else {}


def _create(catalog: Catalog, name: str, edition: Edition) -> None:
    """Make the table with the edition as its first rows, in one commit."""
    namespace = name.rpartition(".")[0]
    if not catalog.namespace_exists(namespace):
        catalog.create_namespace(namespace)
    schema = _schema(edition.table.schema)
    source = schema.find_field(edition.part.column).field_id
    by_part = PartitionField(
        source_id=source, field_id=1000, transform=IdentityTransform(), name=edition.part.column
    )
    properties = {**_PROPERTIES, "comment": edition.comment}
    with catalog.create_table_transaction(
        name, schema, partition_spec=PartitionSpec(by_part), properties=properties
    ) as transaction:
        _append(transaction, edition.table, edition)


def _replace(table: Table, edition: Edition) -> None:
    """Put the edition in the place of what its part holds, in one commit on top of `table`."""
    columns = _columns(table)
    change = change_of(columns, edition.table.schema, at=table.name()[-1])
    rows = _rows_of(edition.part, columns)
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            for field in _schema(pa.schema(change.added)).fields:
                update.add_column(field.name, field.field_type, doc=field.doc)
            for name in change.missing:
                update.make_column_optional(name)
        if table.scan(row_filter=rows).count():
            transaction.delete(rows, snapshot_properties=edition.labels)
        _append(transaction, in_columns(edition.table, columns, change), edition)


def _append(transaction: Transaction, rows: pa.Table, edition: Edition) -> None:
    """Rows and labels; a snapshot is made of no rows too, and fails where another one came first."""
    transaction.append(rows, snapshot_properties=edition.labels)
    labels = {**edition.labels, ROWS_LABEL: str(edition.table.num_rows)}
    transaction.set_properties({_property(edition.part): json.dumps(labels, sort_keys=True)})


def _schema(columns: pa.Schema) -> Schema:
    """Columns in Iceberg's types, numbered from 1; comments are what it calls their doc."""
    numbered = (
        field.with_metadata(
            {"PARQUET:field_id": str(number), "doc": (field.metadata or {}).get(b"comment", b"").decode()}
        )
        for number, field in enumerate(columns, start=1)
    )
    return pyarrow_to_schema(pa.schema(numbered))


def _rows_of(part: Part, columns: pa.Schema) -> BooleanExpression:
    return EqualTo(term=Reference(part.column), value=literal(part.typed(columns)))


def _property(part: Part) -> str:
    return f"dp_spark.part.{part.value}"
