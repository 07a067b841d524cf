"""The Delta sink: one commit replaces the rows of a part, and says which edition they are.

A commit's own metadata is gone when its log is cleaned up, after 30 days by default. The versions of
applications that it sets stay with the table: checkpoints keep the newest of each. So what stands in a part
is named by four of them, which are numbers: a hash of the release's name, its revision, a hash of the
digest, and the count of its rows. The names themselves are in the commit's metadata, for people.
"""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from dp_spark.errors import PublishRefused, Refusal
from dp_spark.publish.columns import change_of, in_columns
from dp_spark.publish.sink import (
    DIGEST_LABEL,
    RELEASE_LABEL,
    Edition,
    Part,
    is_edition,
    is_placed,
    occupied,
    unreachable,
)

PART_LABEL = "dp_spark.part"
# Seconds to wait after each commit of somebody else that came between: a minute in all.
_PAUSES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
# deltalake 1.6 takes paths for URLs half-way: escapes are decoded, and it aborts on brackets.
_UNREAD = re.compile(r"[%\\\[\]^|\x00-\x1f\x7f]")
# Of a table with writer version 7; deltalake 1.6 commits to no table with another one.
_WRITTEN = frozenset(
    (
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    )
)
_ALL_OF_FIVE = 5  # the newest version of those before features whose every feature it writes
_ALONE = CommitProperties(max_commit_retries=0)


class _Mark(StrEnum):
    """What the versions of applications say of a part."""

    RELEASE = "release"
    REVISION = "revision"
    DIGEST = "digest"
    ROWS = "rows"

    def of(self, part: Part) -> str:
        """The id of the application."""
        return f"dp_spark.{_named(part)}.{self}"


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """A Delta table.

    Attributes:
        root: its local directory, absolute, or its URL in an object store, whose credentials the
            environment holds.

    Raises:
        PublishRefused: the path holds a character that delta-rs stumbles over.
    """

    root: str

    def __post_init__(self) -> None:
        if unread := _UNREAD.search(self.root):
            raise PublishRefused(
                "sink_path",
                f"path = {self.root!r}: delta-rs does not find a path with {unread[0]!r} again",
                way_out="publish to a path without it",
            )

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`."""
        try:
            table = _opened(self.root)
            if table is not None:
                self._is_placed(table, part, release_id, None, schema)
        except Refusal:
            raise
        except Exception:  # noqa: BLE001  # delta-rs raises whatever its store does; publishing says so
            return

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        try:
            table = _opened(self.root)
            if table is None or part.column not in _columns(table).names:
                return False
            return is_edition(_standing(table, part, release_id, digest), release_id, digest)
        except Exception as failure:  # noqa: BLE001  # its text may quote rows: only the class is told
            raise self._unreachable(type(failure).__name__) from None

    def publish(self, edition: Edition) -> str:
        """As `Sink`; the table."""
        try:
            for pause in _PAUSES:
                time.sleep(pause)
                if self._attempt(edition):
                    return self.root
        except Refusal:
            raise
        except Exception as failure:  # noqa: BLE001  # its text may quote rows: only the class is told
            raise self._unreachable(type(failure).__name__) from None
        raise self._unreachable("others commit to it without a pause")

    def _attempt(self, edition: Edition) -> bool:
        """Whether the edition stands there; if not, somebody committed meanwhile and all is read again."""
        table = _opened(self.root)
        if table is None:
            return _created(self.root, edition)
        if self._is_placed(table, edition.part, edition.release_id, edition.digest, edition.table.schema):
            return True
        return _replaced(table, edition)

    def _is_placed(
        self, table: DeltaTable, part: Part, release_id: str, digest: str | None, schema: pa.Schema
    ) -> bool:
        self._require_writable(table)
        change_of(_columns(table), schema, at=self.root)
        at = f"{_named(part)} of {self.root}"
        if part.column not in _columns(table).names:
            raise occupied(at, f"rows without a column {part.column}")
        return is_placed(_standing(table, part, release_id, digest), release_id, digest, at=at)

    def _require_writable(self, table: DeltaTable) -> None:
        protocol, why = table.protocol(), ""
        unwritten = sorted(set(protocol.writer_features or ()) - _WRITTEN)
        if unwritten:
            why = f"it has the features {', '.join(unwritten)}, which delta-rs does not write"
        elif protocol.min_writer_version > _ALL_OF_FIVE and protocol.writer_features is None:
            why = f"its writer version is {protocol.min_writer_version}, which delta-rs does not write"
        elif table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
            why = "delta.appendOnly is true, and a revision replaces rows"
        if why:
            raise PublishRefused(
                "table_not_writable",
                f"the sink delta {self.root} cannot write its table: {why}",
                way_out="publish to a table of its own, which the first release makes",
            )

    def _unreachable(self, why: str) -> Refusal:
        return unreachable(f"delta {self.root}", why)


def _opened(root: str) -> DeltaTable | None:
    """The newest version of the table; None where there is none."""
    try:
        return DeltaTable(root)
    except TableNotFoundError:
        return None


def _columns(table: DeltaTable) -> pa.Schema:
    return pa.schema(cast(Any, table.schema().to_arrow()))  # of another library, read by the C interface


def _standing(table: DeltaTable, part: Part, release_id: str, digest: str | None) -> Mapping[str, str] | None:
    """Labels of what stands in a part, as far as numbers tell them: those asked for, or others."""
    marks = {mark: table.transaction_version(mark.of(part)) for mark in _Mark}
    rows = _rows(table, part)
    if rows == 0 and marks[_Mark.ROWS] != 0:  # never placed, or removed since
        return None
    if rows != marks[_Mark.ROWS]:  # none of them is an edition, or not all
        return {}
    name = release_id.rpartition("/")[0]
    if marks[_Mark.RELEASE] != _number(name):
        return {RELEASE_LABEL: _told(table, part)}
    is_same = digest is not None and marks[_Mark.DIGEST] == _number(digest)
    return {
        RELEASE_LABEL: f"{name}/{marks[_Mark.REVISION]}",
        DIGEST_LABEL: digest if digest is not None and is_same else "another",
    }


def _told(table: DeltaTable, part: Part) -> str:
    """The release of a part as its commit names it, while the log has that commit."""
    told = (each for each in table.history() if each.get(PART_LABEL) == _named(part))
    return str(next(told, {}).get(RELEASE_LABEL, "of another name"))


def _rows(table: DeltaTable, part: Part) -> int:
    query = f"select count(*) as found from part_of where {_predicate(part)}"  # noqa: S608  # quoted there
    found = QueryBuilder().register("part_of", table).execute(query).read_all()
    return int(pa.table(found)["found"][0].as_py())


def _created(root: str, edition: Edition) -> bool:
    """Whether this made the table, with the edition as its first rows; somebody else may be there first."""
    try:
        deltalake.write_deltalake(
            root,
            edition.table,
            mode="error",
            partition_by=[edition.part.column],
            description=edition.comment,
            commit_properties=_commit(edition),
        )
    except DeltaError:
        if _opened(root) is None:
            raise
        return False
    return True


def _replaced(table: DeltaTable, edition: Edition) -> bool:
    """Whether the edition took the place of its part; not, if somebody else committed since `table`."""
    columns, version = _columns(table), table.version()
    change = change_of(columns, edition.table.schema, at=table.table_uri)
    try:
        for name in change.missing:
            if not columns.field(name).nullable:
                table.alter.drop_column_not_null(
                    name, commit_properties=CommitProperties(max_commit_retries=0)
                )
        deltalake.write_deltalake(
            table,
            in_columns(edition.table, columns, change),
            mode="overwrite",
            predicate=_predicate(edition.part),
            schema_mode="merge" if change.added else None,
            commit_properties=_commit(edition),
        )
    except CommitFailedError:
        newest = _opened(table.table_uri)
        if newest is not None and newest.version() == version:  # nobody came between: it is refused as such
            raise
        return False
    return True


def _commit(edition: Edition) -> CommitProperties:
    """What the commit says of the edition; it fails if another one came first, and is not rebased."""
    name, _, revision = edition.release_id.rpartition("/")
    versions = {
        _Mark.RELEASE: _number(name),
        _Mark.REVISION: int(revision),
        _Mark.DIGEST: _number(edition.digest),
        _Mark.ROWS: edition.table.num_rows,
    }
    return CommitProperties(
        custom_metadata={**edition.labels, PART_LABEL: _named(edition.part)},
        max_commit_retries=0,
        app_transactions=[Transaction(mark.of(edition.part), version) for mark, version in versions.items()],
    )


def _number(text: str) -> int:
    """A hash of 63 bits, as versions have a sign."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def _named(part: Part) -> str:
    return f"{part.column}={part.value}"


def _predicate(part: Part) -> str:
    """The rows of a part, in SQL; a text is compared with a date as a date."""
    quoted = part.value.replace("'", "''")
    return f"{part.column} = '{quoted}'"
