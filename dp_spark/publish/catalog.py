"""The sink of a table in Spark's catalog: rows of a part, and beside them properties that say whose they are.

Rows and properties cannot change in one step. So a property announces an edition before its rows are written,
and another one names it when they have been read back: a part without the second, or with both, is written
again by whoever publishes next. Whoever finds other rows than the second one names announces it again.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

import pyarrow as pa

from dp_spark.errors import PublishRefused, Refusal
from dp_spark.publish.artefact import artefact_digest
from dp_spark.publish.columns import change_of, in_columns
from dp_spark.publish.sink import (
    RELEASE_LABEL,
    Edition,
    Part,
    is_earlier,
    is_edition,
    is_placed,
    occupied,
    unreachable,
)
from dp_spark.release.spec import RELEASE_COLUMN

_STANDING, _INCOMING = "dp_spark.part.", "dp_spark.incoming."
_ROWS, _CONTENT = "dp_spark.rows", "dp_spark.rows_digest"  # how many the part has, and which
_TRIES = 3
# Spark does not show properties that match: see spark.redaction.regex and spark.sql.redaction.options.regex.
_NOT_SHOWN = re.compile(r"secret|password|token|access\.?key|url", re.IGNORECASE)
_HEX = "hex:"


class CatalogTable(Protocol):
    """A table of Spark's catalog, which may be missing; failures have texts that may quote rows."""

    @property
    def table(self) -> str:
        """Its name."""
        ...

    def schema(self) -> pa.Schema | None:
        """Its columns; None where there is no such table."""
        ...

    def require_lasting(self) -> None:
        """Check that the catalog outlives the session.

        Raises:
            PublishRefused: it does not.
        """
        ...

    def properties(self) -> Mapping[str, str]:
        """Its table properties."""
        ...

    def replaces_one(self, column: str) -> bool:
        """Whether the rows with one value in a column can be replaced, and no other."""
        ...

    def create(self, schema: pa.Schema, column: str, comment: str) -> None:
        """Make the table, partitioned by a column, unless another process was faster."""
        ...

    def add(self, fields: "Sequence[pa.Field[Any]]") -> None:
        """Give it further columns, which are NULL in all its rows."""
        ...

    def set(self, properties: Mapping[str, str]) -> None:
        """Set table properties, all in one step."""
        ...

    def unset(self, key: str) -> None:
        """Remove a table property."""
        ...

    def rows(self, column: str, value: date | str) -> pa.Table:
        """The rows with one value in a column."""
        ...

    def replace(self, rows: pa.Table, column: str, value: date | str) -> None:
        """Replace the rows with one value in a column by these, in the order of the table's columns."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogSink:
    """A table of Spark's catalog, partitioned by the column of the parts."""

    catalog: CatalogTable

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`."""
        try:
            standing = self.catalog.schema()
            if standing is None:
                return
            self._require_parts(part)
            self._is_announced(part, part.typed(schema), release_id, None)
            change_of(standing, schema, at=self._name)
        except Refusal:
            raise
        except Exception:  # noqa: BLE001  # to be mended before it is published
            return

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        with self._withheld():
            schema = self.catalog.schema()
            if schema is None or part.column not in schema.names:
                return False
            properties = self.catalog.properties()
            standing = _labels(properties, _STANDING, part)
            if _labels(properties, _INCOMING, part) is not None or not is_edition(
                standing, release_id, digest
            ):
                return False
            assert standing is not None  # it names the edition
            found = self.catalog.rows(part.column, part.typed(schema))
            content = standing.get(_CONTENT) or _content(found)  # older labels have the number alone
            return (str(found.num_rows), _content(found)) == (standing.get(_ROWS), content)

    def publish(self, edition: Edition) -> str:
        """As `Sink`; the table's name."""
        part, columns = edition.part, edition.table.schema
        with self._withheld():
            standing = self.catalog.schema()
            if standing is None:
                self.catalog.create(columns, part.column, edition.comment)
            self._require_parts(part)
            for _ in range(_TRIES):
                if self._is_placed(edition):
                    return self._name
                change = change_of(self.catalog.schema() or columns, columns, at=self._name)
                if change.added:
                    self.catalog.add(change.added)
                self._write(edition)
            if not self._is_placed(edition):  # an earlier revision came in between, each time
                raise _others_write(self._name)
        return self._name

    @property
    def _name(self) -> str:
        return f"table:{self.catalog.table}"

    def _at(self, part: Part) -> str:
        return f"{self._name}, {part.column} = {part.value},"

    def _require_parts(self, part: Part) -> None:
        if not self.catalog.replaces_one(part.column):
            raise PublishRefused(
                "table_of_no_parts",
                f"{self._name} is a view, or is not partitioned by {part.column} alone",
                way_out="publish to a table that is not there yet: it is made with its partitions",
            )

    def _is_announced(self, part: Part, value: date | str, release_id: str, digest: str | None) -> bool:
        """Whether properties name the edition, and no other one is on its way.

        Raises:
            PublishRefused: the part holds, or is about to hold, something else.
        """
        properties = self.catalog.properties()
        incoming, standing = (_labels(properties, prefix, part) for prefix in (_INCOMING, _STANDING))
        if incoming is not None:
            is_placed(incoming, release_id, digest, at=self._at(part))
        elif standing is None and self.catalog.rows(part.column, value).num_rows:
            standing = {}  # of somebody else
        return is_placed(standing, release_id, digest, at=self._at(part)) and incoming is None

    def _is_placed(self, edition: Edition) -> bool:
        part, value, own = edition.part, edition.part.typed(edition.table.schema), edition.release_id
        is_named = self._is_announced(part, value, own, edition.digest)
        found = self.catalog.rows(part.column, value)
        makers = _makers(found)
        for later in (maker for maker in makers if is_earlier(own, maker)):
            if is_named:
                self._announce_again(part)
            is_placed({RELEASE_LABEL: later}, own, edition.digest, at=self._at(part))  # refuses
        if not is_named:
            return False
        if found.num_rows and not _holds(found, edition.table):
            if makers and all(is_earlier(maker, own) for maker in makers):
                return False  # its publisher was late, and overwrote the edition
            raise occupied(self._at(part), f"rows that are not those of release {own}")
        return found.num_rows == edition.table.num_rows  # somebody may have removed them

    def _announce_again(self, part: Part) -> None:
        """Announce what the part is said to hold and does not."""
        if told := self.catalog.properties().get(_key(_STANDING, part)):
            self.catalog.set({_key(_INCOMING, part): told})

    def _require_not_overtaken(self, edition: Edition) -> None:
        """Refuse to name an edition over a later one, whose rows it has overwritten: that one is announced.

        Raises:
            PublishRefused: the part is said to hold, or is about to hold, something else.
        """
        part, value = edition.part, edition.part.typed(edition.table.schema)
        try:
            self._is_announced(part, value, edition.release_id, edition.digest)
        except PublishRefused:
            incoming = _labels(self.catalog.properties(), _INCOMING, part) or {}
            if incoming.get(RELEASE_LABEL) in (None, edition.release_id):
                self._announce_again(part)
            raise

    def _write(self, edition: Edition) -> None:
        part, value = edition.part, edition.part.typed(edition.table.schema)
        standing, incoming = _key(_STANDING, part), _key(_INCOMING, part)
        labels = {
            **edition.labels,
            _ROWS: str(edition.table.num_rows),
            _CONTENT: _content(edition.table),
        }
        told = _shown(json.dumps(labels, sort_keys=True))
        self.catalog.set({incoming: told})
        columns = self.catalog.schema()
        assert columns is not None  # it was made, or was there
        change = change_of(columns, edition.table.schema, at=self._name)
        rows = in_columns(edition.table, columns, change)
        for _ in range(_TRIES):
            self.catalog.replace(rows, part.column, value)
            if _holds(self.catalog.rows(part.column, value), edition.table):
                break
        else:
            raise _others_write(self._name)
        self._require_not_overtaken(edition)
        self.catalog.set({standing: told, incoming: ""})
        self.catalog.unset(incoming)

    @contextmanager
    def _withheld(self) -> Iterator[None]:
        """Keep back the texts of Spark's failures, which may quote rows."""
        try:
            yield
        except Refusal:
            raise
        except Exception as failure:  # noqa: BLE001  # whatever it is
            condition = getattr(failure, "getCondition", lambda: None)()
            raise unreachable(self._name, f"Spark says {condition or type(failure).__name__}") from None


def _others_write(name: str) -> PublishRefused:
    return unreachable(name, "other rows are read than were written: somebody else writes there")


def _makers(found: pa.Table) -> frozenset[str]:
    """The releases that rows say they are of; none where no column says it."""
    if RELEASE_COLUMN not in found.column_names:
        return frozenset()
    return frozenset(maker for maker in found[RELEASE_COLUMN].unique().to_pylist() if isinstance(maker, str))


def _content(rows: pa.Table) -> str:
    """A digest of rows in any order and of columns that are not all NULL; empty if another cell is NULL."""
    names = sorted(name for name in rows.column_names if rows[name].null_count < rows.num_rows)
    try:
        return _digest(rows.select(names)) if names else ""
    except PublishRefused:
        return ""


def _holds(found: pa.Table, rows: pa.Table) -> bool:
    """Whether these are the rows, in any order; columns that they lack are NULL."""
    names = rows.column_names
    others = [found[name] for name in found.column_names if name not in names]
    if any(column.null_count < found.num_rows for column in others):
        return False
    try:
        return _digest(found.select(names)) == _digest(rows)
    except (KeyError, PublishRefused):  # a column is missing, or a cell NULL
        return False


def _digest(rows: pa.Table) -> str:
    return artefact_digest(rows.sort_by([(name, "ascending") for name in rows.column_names]))


def _key(prefix: str, part: Part) -> str:
    return prefix + _shown(part.value)


def _labels(properties: Mapping[str, str], prefix: str, part: Part) -> Mapping[str, str] | None:
    """The labels in a property; None where it is missing or empty, empty where they are not ours."""
    told = properties.get(_key(prefix, part), "")
    if not told:
        return None
    try:
        found = json.loads(bytes.fromhex(told[len(_HEX) :]) if told.startswith(_HEX) else told)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _shown(text: str) -> str:
    """The text, or its bytes where Spark would not show it."""
    return _HEX + text.encode().hex() if _NOT_SHOWN.search(text) else text
