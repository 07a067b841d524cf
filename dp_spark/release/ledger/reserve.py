"""Reservation: charge, release key and stored plan in one transaction, before anything is read."""

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.accounts import budget, require_admitted, require_same_protection
from dp_spark.release.ledger.claims import Claim
from dp_spark.release.ledger.decisions import is_cleared, require_not_burned
from dp_spark.release.ledger.exact import encode
from dp_spark.release.ledger.keys import KEY_BYTES, master_key_check, wrap_key
from dp_spark.release.ledger.records import is_release, stored_file, tables_of
from dp_spark.release.ledger.sources import require_own_source
from dp_spark.release.ledger.states import ReleaseId, ReleaseState
from dp_spark.release.ledger.steps import Move, Stamp, record_step

_GONE = frozenset({ReleaseState.ABORTED, ReleaseState.ABANDONED, ReleaseState.BURNED})


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a run asks of the ledger before it reads."""

    release_id: ReleaseId
    spec_digest: str
    plan_bytes: bytes
    tables: Mapping[str, bytes]
    charge: PrivacyGuarantee
    unit: PrivacyUnit
    neighbours: Neighbours
    revision_reason: str | None = None
    source: str | None = None


def reserve(connection: sa.Connection, asked: Reservation, master_key: bytes, stamp: Stamp) -> Claim:
    """Charge a new release, or resume a known one for nothing with the plan that it was charged for.

    Raises:
        BudgetRefused: the population is unknown or does not admit the charge.
        LedgerRefused: the release is known with another spec, or protects other units than its account.
        SetupRefused: the ledger belongs to another master key.
    """
    _bind_master_key(connection, master_key)
    row = connection.execute(sa.select(store.releases).where(is_release(asked.release_id))).one_or_none()
    if row is None:
        release = _charge(connection, asked, master_key, stamp)
        return _claim(connection, asked.release_id, release, charged_now=True)
    if row.revision_reason != asked.revision_reason and asked.revision_reason is not None:
        raise _other_reason(asked.release_id)
    if row.spec_digest != asked.spec_digest:
        raise _other_spec(asked.release_id, row.state)
    return resume(connection, asked.release_id, stamp)


def resume(connection: sa.Connection, release_id: ReleaseId, stamp: Stamp) -> Claim:
    """A new attempt at a release that is known, with its stored plan and for nothing.

    Raises:
        LedgerRefused: it is not known, or was ended by a decision.
        BudgetRefused: its population has stopped.
    """
    row = connection.execute(sa.select(store.releases).where(is_release(release_id))).one_or_none()
    if row is None or row.state in _GONE:
        raise _gone(release_id, "unknown" if row is None else row.state)
    if row.state != ReleaseState.SEALED:
        require_not_burned(connection, release_id.population)
        _start_attempt(connection, row, stamp)
    return _claim(connection, release_id, row.id, charged_now=False)


def require_own_master_key(connection: sa.Connection, master_key: bytes) -> bool:
    """Whether the ledger is bound to a master key yet; if so, it is this one.

    Raises:
        SetupRefused: it is another one.
    """
    stored = connection.scalar(sa.select(store.ledger_meta.c.master_key_check))
    if stored is not None and not hmac.compare_digest(stored, master_key_check(master_key)):
        raise SetupRefused(
            "wrong_master_key",
            "this ledger was used with another master key",
            way_out="name that master key in the profile, or the ledger that belongs to this one",
        )
    return stored is not None


def _bind_master_key(connection: sa.Connection, master_key: bytes) -> None:
    if not require_own_master_key(connection, master_key):
        here = store.ledger_meta.c.id == 1
        rows.update(connection, store.ledger_meta, here, master_key_check=master_key_check(master_key))


def _charge(connection: sa.Connection, asked: Reservation, master_key: bytes, stamp: Stamp) -> int:
    require_not_burned(connection, asked.release_id.population)
    account = budget(connection, asked.release_id.population)
    require_same_protection(account, asked.unit, asked.neighbours)
    if asked.source is not None:
        require_own_source(connection, asked.source, asked.release_id.population)
    require_admitted(account, asked.charge, str(asked.release_id))
    release = _insert_release(connection, asked)
    wrapped = wrap_key(master_key, os.urandom(KEY_BYTES), str(asked.release_id))
    rows.insert(connection, store.release_keys, release=release, wrapped=wrapped)
    for name, body in asked.tables.items():
        digest = _store_table(connection, body)
        rows.insert(connection, store.release_tables, release=release, name=name, digest=digest)
    record_step(connection, release, Move(None, ReleaseState.RESERVED, fence=1), stamp)
    return release


def _insert_release(connection: sa.Connection, asked: Reservation) -> int:
    row = {
        "population": asked.release_id.population,
        "name": asked.release_id.name,
        "period_key": asked.release_id.period_key,
        "revision": asked.release_id.revision,
        "spec_digest": asked.spec_digest,
        "state": ReleaseState.RESERVED.value,
        "fence": 1,
        "charge_epsilon": encode(asked.charge.epsilon),
        "charge_delta": encode(asked.charge.delta),
        "plan": asked.plan_bytes,
        "revision_reason": asked.revision_reason,
        "source": asked.source,
    }
    (release,) = rows.insert(connection, store.releases, **row)
    return int(release)


def _store_table(connection: sa.Connection, body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()
    known = sa.select(store.noise_tables.c.digest).where(store.noise_tables.c.digest == digest)
    if connection.scalar(known) is None:
        rows.insert(connection, store.noise_tables, digest=digest, body=body)
    return digest


def _start_attempt(connection: sa.Connection, row: sa.Row[Any], stamp: Stamp) -> None:
    fence = row.fence + 1
    rows.update(connection, store.releases, store.releases.c.id == row.id, fence=fence)
    state = ReleaseState(row.state)
    record_step(connection, row.id, Move(state, state, fence), stamp)


def _claim(connection: sa.Connection, release_id: ReleaseId, release: int, *, charged_now: bool) -> Claim:
    row = connection.execute(sa.select(store.releases).where(store.releases.c.id == release)).one()
    return Claim(
        release_id=release_id,
        state=ReleaseState(row.state),
        fence=row.fence,
        charged_now=charged_now,
        cleared=is_cleared(connection, release),
        artefact=stored_file(row.artefact_path, row.artefact_digest),
        statement=stored_file(row.statement_path, row.statement_digest),
        plan_bytes=row.plan,
        tables=tables_of(connection, release_id),
    )


def _gone(release_id: ReleaseId, state: str) -> LedgerRefused:
    return LedgerRefused(
        "release_ended",
        f"release {release_id} is {state}: there is nothing to go on with",
        way_out="to release this period again, at a charge of its own, give `--revise REASON`",
    )


def _other_reason(release_id: ReleaseId) -> LedgerRefused:
    return LedgerRefused(
        "revision_open",
        f"release {release_id} was begun for another reason meanwhile",
        way_out="run again: this reason then gets a revision of its own, once that one is ended",
    )


def _other_spec(release_id: ReleaseId, state: str) -> LedgerRefused:
    return LedgerRefused(
        "other_spec",
        f"release {release_id} is {state} with another spec; one release id has one plan",
        way_out="restore the spec that it was reserved with, or choose another release name",
    )
