"""What the ledger knows of releases, read back as values."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.adhoc import NOTHING, Cost
from dp_spark.release.ledger.admission import Receipt
from dp_spark.release.ledger.exact import decode
from dp_spark.release.ledger.states import ReleaseId, ReleaseState
from dp_spark.release.spec import PoolKind


class PublicationState(StrEnum):
    """Where the copy of an artefact to one sink stands."""

    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file or directory by its path and the digest of its content."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class Publication:
    """The copy of a release's artefact at one sink."""

    sink: str
    target: str
    state: PublicationState
    artefact_digest: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a release; a new attempt or a repeated step has the same state on both sides."""

    from_state: ReleaseState | None
    to_state: ReleaseState
    fence: int
    failed_checks: tuple[str, ...]
    at: datetime
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """Everything that is kept of a release, but for its key.

    Attributes:
        charge: what it promises by itself.
        receipt: what it took of its account; None where that was its charge, before there were receipts.
        revision_reason: why it revises what was there before; None of a first release.
        source_version: of its source, that it reads; None where that has no versions.
    """

    release_id: ReleaseId
    state: ReleaseState
    spec_digest: str
    charge: PrivacyGuarantee
    receipt: Receipt | None
    revision_reason: str | None
    artefact: StoredFile | None
    statement: StoredFile | None
    publications: tuple[Publication, ...]
    events: tuple[Event, ...]
    plan_bytes: bytes = field(repr=False)
    source_version: str | None = None

    @property
    def took(self) -> Receipt:
        """What it took of its account."""
        before = Receipt(pool=PoolKind.SUMS, cost=Cost(self.charge.epsilon, self.charge.delta))
        return self.receipt or before

    @property
    def reserved_at(self) -> datetime:
        """When the charge was taken."""
        return self.events[0].at

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Checks that hold the release now; none unless it is HELD."""
        if self.state is not ReleaseState.HELD:
            return ()
        return next((event.failed_checks for event in reversed(self.events) if event.failed_checks), ())


def is_release(release_id: ReleaseId) -> sa.ColumnElement[bool]:
    """The condition that selects the row of `release_id`."""
    columns = store.releases.c
    return sa.and_(
        columns.population == release_id.population,
        columns.name == release_id.name,
        columns.period_key == release_id.period_key,
        columns.revision == release_id.revision,
    )


def records(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> list[ReleaseRecord]:
    """The releases under `condition`, in the order of their charges."""
    found = connection.execute(sa.select(store.releases).where(condition).order_by(store.releases.c.id)).all()
    chosen = sa.select(store.releases.c.id).where(condition)
    publications = _by_release(connection, store.publications, chosen, store.publications.c.sink)
    events = _by_release(connection, store.events, chosen, store.events.c.id)
    return [_record(row, publications[row.id], events[row.id]) for row in found]


def stored_file(path: str | None, digest: str | None) -> StoredFile | None:
    """The file of a row, or None where the row has none yet."""
    return StoredFile(path, digest) if path is not None and digest is not None else None


def promised(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> Cost:
    """The sums of what the releases under `condition` promise."""
    charges = store.releases.c.charge_epsilon, store.releases.c.charge_delta
    asked = sa.select(*charges, sa.func.count().label("times")).where(condition).group_by(*charges)
    total = NOTHING
    for row in connection.execute(asked):
        total += Cost(decode(row.charge_epsilon), decode(row.charge_delta)).times(row.times)
    return total


def tables_of(connection: sa.Connection, release_id: ReleaseId) -> dict[str, bytes]:
    """The noise tables that were stored with a release, under the names that they were reserved with.

    Raises:
        SetupRefused: the bytes of one do not have its digest.
    """
    found = connection.execute(
        sa.select(store.release_tables.c.name, store.noise_tables)
        .select_from(store.releases.join(store.release_tables).join(store.noise_tables))
        .where(is_release(release_id))
        .order_by(store.release_tables.c.name)
    ).all()
    for row in found:
        if hashlib.sha256(row.body).hexdigest() != row.digest:
            raise SetupRefused(
                "noise_table_damaged",
                f"noise table {row.name!r} of release {release_id} does not have its digest",
                way_out="restore the newest backup of the ledger; noise from this table would protect nobody",
            )
    return {row.name: row.body for row in found}


def store_table(connection: sa.Connection, body: bytes) -> str:
    """The digest of a noise table, which is stored once."""
    digest = hashlib.sha256(body).hexdigest()
    known = sa.select(store.noise_tables.c.digest).where(store.noise_tables.c.digest == digest)
    if connection.scalar(known) is None:
        rows.insert(connection, store.noise_tables, digest=digest, body=body)
    return digest


def _by_release(
    connection: sa.Connection, table: sa.Table, chosen: sa.Select[Any], order: sa.ColumnElement[Any]
) -> dict[int, list[sa.Row[Any]]]:
    found: dict[int, list[sa.Row[Any]]] = defaultdict(list)
    for row in connection.execute(sa.select(table).where(table.c.release.in_(chosen)).order_by(order)):
        found[row.release].append(row)
    return found


def _record(
    row: sa.Row[Any], publications: Sequence[sa.Row[Any]], events: Sequence[sa.Row[Any]]
) -> ReleaseRecord:
    return ReleaseRecord(
        release_id=ReleaseId(row.population, row.name, row.period_key, row.revision),
        state=ReleaseState(row.state),
        spec_digest=row.spec_digest,
        charge=PrivacyGuarantee(decode(row.charge_epsilon), decode(row.charge_delta)),
        receipt=None if row.receipt is None else Receipt.from_text(row.receipt),
        revision_reason=row.revision_reason,
        artefact=stored_file(row.artefact_path, row.artefact_digest),
        statement=stored_file(row.statement_path, row.statement_digest),
        publications=tuple(_publication(each) for each in publications),
        events=tuple(_event(each) for each in events),
        plan_bytes=row.plan,
        source_version=row.source_version,
    )


def _publication(row: sa.Row[Any]) -> Publication:
    return Publication(
        sink=row.sink,
        target=row.target,
        state=PublicationState(row.state),
        artefact_digest=row.artefact_digest,
        at=datetime.fromisoformat(row.at),
    )


def _event(row: sa.Row[Any]) -> Event:
    return Event(
        from_state=None if row.from_state is None else ReleaseState(row.from_state),
        to_state=ReleaseState(row.to_state),
        fence=row.fence,
        failed_checks=tuple(json.loads(row.failed_checks or "[]")),
        at=datetime.fromisoformat(row.at),
        host=row.host,
        pid=row.pid,
    )
