"""The chain: every transaction leaves a link that vouches for the rows it wrote and for the link before.

A link is authenticated under the master key, so that whoever can write the database, but does not hold that
key, can neither edit, add nor delete a row unnoticed. What the chain cannot find: a ledger put back whole to
an earlier state, unless somebody has kept the head of a later one; what a holder of the master key forges;
and what was changed before the first link, where an older ledger was brought to this schema.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import SpecRefused
from dp_spark.release.ledger import store
from dp_spark.release.ledger.batches import waves_with_gaps
from dp_spark.release.ledger.keys import chain_key
from dp_spark.release.ledger.rows import Touched, take_touched
from dp_spark.release.ledger.surveys import overspent
from dp_spark.release.ledger.terms import recounted, standing_of


@dataclass(frozen=True, slots=True)
class Head:
    """The newest link of a ledger; kept elsewhere, it betrays a ledger that was put back."""

    number: int
    mac: str

    @classmethod
    def parse(cls, text: str) -> "Head":
        """The head that reads as `text`.

        Raises:
            SpecRefused: none does.
        """
        number, _, mac = text.partition(":")
        if not (number.isascii() and number.isdigit()) or len(number) > 9 or len(mac) != 64:
            raise SpecRefused(
                "bad_head",
                f"{text[:100]!r} is not the head of a ledger",
                way_out="write NUMBER:64 hex digits, as `dp-spark ledger verify` printed it",
            )
        return cls(int(number), mac)

    def __str__(self) -> str:
        return f"{self.number}:{self.mac}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at the whole ledger found.

    Attributes:
        head: the newest link; None where there is none yet.
        rows: how many rows were compared.
        findings: what is wrong, by table and key of the row, without values; empty if nothing is.
    """

    head: Head | None
    rows: int
    findings: tuple[str, ...]


def append_link(connection: sa.Connection, master_key: bytes, at: str) -> None:
    """Vouch for what the running transaction wrote; the first link vouches for all rows there are."""
    touched: Iterable[Touched] = list(take_touched(connection))
    if not touched:
        return
    before = head(connection)
    if before is None:
        touched = _all_rows(connection)
    entries = [[table.name, list(key), _digest(connection, table, key)] for table, key in touched]
    text = json.dumps(sorted(entries), separators=(",", ":"))
    number, previous = (before.number, before.mac) if before else (0, "")
    mac = _mac(master_key, number + 1, previous, text, at)
    link = {"number": number + 1, "touched": text, "at": at, "mac": mac}
    connection.execute(sa.insert(store.links).values(link))


def head(connection: sa.Connection) -> Head | None:
    """The newest link."""
    columns = store.links.c
    newest = sa.select(columns.number, columns.mac).order_by(columns.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return None if row is None else Head(row.number, row.mac)


def verify(connection: sa.Connection, master_key: bytes, kept: Head | None = None) -> Verdict:
    """Compare every row with what the chain says of it; with `kept`, ask whether that head is still there."""
    findings: list[str] = []
    told: dict[tuple[str, str], str] = {}
    last, found_kept = Head(0, ""), kept is None
    for link in connection.execute(sa.select(store.links).order_by(store.links.c.number)):
        if link.number != last.number + 1:
            findings.append(f"links {last.number + 1} to {link.number - 1} are missing")
        elif not hmac.compare_digest(
            link.mac, _mac(master_key, link.number, last.mac, link.touched, link.at)
        ):
            findings.append(f"link {link.number} was altered, or the link before it")
        last = Head(link.number, link.mac)
        found_kept = found_kept or last == kept
        told |= _entries(link.touched)
    if not found_kept:
        findings.append(f"link {kept and kept.number} is not the one that was kept: the ledger was put back")
    rows = 0
    for table, key in _all_rows(connection):
        rows += 1
        known = told.pop((table.name, json.dumps(list(key))), None)
        if known is None:
            findings.append(f"row {_name(table.name, key)} was added behind the ledger's back")
        elif known != _digest(connection, table, key):
            findings.append(f"row {_name(table.name, key)} was altered")
    findings += [f"row {table} {key} was deleted" for table, key in told]
    if not findings:
        findings += [*_sums(connection), *_surveys(connection)]
    return Verdict(last if last.number else None, rows, tuple(findings))


def _sums(connection: sa.Connection) -> Iterator[str]:
    """Standings that hold less than the releases of their account took: a runner may write them."""
    for population in connection.scalars(sa.select(store.accounts.c.population)).all():
        for label, took in recounted(connection, population).items():
            if not standing_of(connection, population, label).holds(took):
                name = _name("standings", (population, label))
                yield f"row {name} holds less than its releases took"


def _surveys(connection: sa.Connection) -> Iterator[str]:
    """Waves that no limit admits together, and batches that are missing between others."""
    for account in overspent(connection):
        yield f"row {_name('survey_accounts', account)} has a limit under what its waves have spent"
    for wave in waves_with_gaps(connection):
        yield f"row {_name('waves', (wave,))} has batches whose numbers leave a gap"


def _entries(touched: str) -> dict[tuple[str, str], str]:
    try:
        return {(table, json.dumps(key)): digest for table, key, digest in json.loads(touched)}
    except (ValueError, TypeError):  # altered: its link has said so
        return {}


def _all_rows(connection: sa.Connection) -> Iterator[Touched]:
    for table in store.metadata.sorted_tables:
        if table is not store.links:
            for row in connection.execute(sa.select(*table.primary_key)).all():
                yield table, tuple(row)


def _digest(connection: sa.Connection, table: sa.Table, key: tuple[Any, ...]) -> str:
    here = sa.and_(*(column == value for column, value in zip(table.primary_key, key, strict=True)))
    row = connection.execute(sa.select(table).where(here)).mappings().one()
    # NULL does not count: a column that a later schema adds changes no digest.
    plain = {
        name: value.hex() if isinstance(value, bytes | memoryview) else value
        for name, value in row.items()
        if value is not None
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _mac(master_key: bytes, number: int, previous: str, touched: str, at: str) -> str:
    message = json.dumps([number, previous, touched, at]).encode()
    return hmac.new(chain_key(master_key), message, hashlib.sha256).hexdigest()


def _name(table: str, key: tuple[Any, ...]) -> str:
    return f"{table} {json.dumps(list(key))}"
