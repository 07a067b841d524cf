"""Reservation: charge, release key and stored plan in one transaction, before anything is read."""

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.accounts import Budget, admit, budget, require_same_protection
from dp_spark.release.ledger.admission import Asked, Receipt, Standing
from dp_spark.release.ledger.claims import Claim
from dp_spark.release.ledger.decisions import is_cleared, require_not_burned
from dp_spark.release.ledger.exact import encode
from dp_spark.release.ledger.keys import KEY_BYTES, master_key_check, wrap_key
from dp_spark.release.ledger.persons import Partition, labels, require_same_partition
from dp_spark.release.ledger.records import is_release, store_table, stored_file, tables_of
from dp_spark.release.ledger.revisions import is_first
from dp_spark.release.ledger.schedule import ReleaseNoise
from dp_spark.release.ledger.sources import require_own_source
from dp_spark.release.ledger.states import ReleaseId, ReleaseState
from dp_spark.release.ledger.steps import Move, Stamp, record_step
from dp_spark.release.ledger.terms import partition_of, put_partition, put_standing, standing_of
from dp_spark.release.ledger.windows import require_in_windows
from dp_spark.release.spec import PeriodSpec, PoolKind
from dp_spark.release.stored_spec import stored_spec, told_spec_changes

_GONE = frozenset({ReleaseState.ABORTED, ReleaseState.ABANDONED, ReleaseState.BURNED})


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a run asks of the ledger before it reads.

    Attributes:
        charge: what the release promises by itself, as its plan certifies.
        noise: what it draws.
        period: how it cuts time; None where it reads the whole input.
        pool: the kind of pool that pays, though the release have a schedule; None as the account has it.
        source_version: of the source, that all reads of the release see; None where it has no versions.
    """

    release_id: ReleaseId
    spec_digest: str
    plan_bytes: bytes
    tables: Mapping[str, bytes]
    charge: PrivacyGuarantee
    unit: PrivacyUnit
    neighbours: Neighbours
    noise: ReleaseNoise
    period: PeriodSpec | None = None
    pool: PoolKind | None = None
    revision_reason: str | None = None
    source: str | None = None
    source_version: str | None = None


def reserve(connection: sa.Connection, asked: Reservation, master_key: bytes, stamp: Stamp) -> Claim:
    """Charge a new release, or resume a known one for nothing with the plan that it was charged for.

    Raises:
        BudgetRefused: the population is unknown or does not admit the charge.
        LedgerRefused: the release is known with another spec, or protects other units than its account.
        SetupRefused: the ledger belongs to another master key.
    """
    bind_master_key(connection, master_key)
    row = connection.execute(sa.select(store.releases).where(is_release(asked.release_id))).one_or_none()
    if row is None:
        release = _charge(connection, asked, master_key, stamp)
        return _claim(connection, asked.release_id, release, charged_now=True)
    known = Known(asked.spec_digest, asked.revision_reason, stored_spec(asked.plan_bytes))
    return resume(connection, asked.release_id, stamp, known)


@dataclass(frozen=True, slots=True)
class Known:
    """What somebody who goes on with a release takes it to be.

    Attributes:
        spec_digest: of the spec.
        revision_reason: why the revision was begun; None for whatever the reason was.
        spec: its canonical JSON, read, so that a refusal can say what differs; None where nobody has it.
    """

    spec_digest: str
    revision_reason: str | None = None
    spec: Mapping[str, Any] | None = None


def resume(
    connection: sa.Connection, release_id: ReleaseId, stamp: Stamp, known: Known | None = None
) -> Claim:
    """A new attempt at a release that is known, with its stored plan and for nothing.

    Raises:
        LedgerRefused: it is not known, is not what `known` says, or was ended by a decision.
        BudgetRefused: its population has stopped.
    """
    row = connection.execute(sa.select(store.releases).where(is_release(release_id))).one_or_none()
    if row is not None and known is not None:
        if known.revision_reason not in {None, row.revision_reason}:
            raise _other_reason(release_id)
        if row.spec_digest != known.spec_digest:
            raise _other_spec(release_id, row, known.spec)
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


def bind_master_key(connection: sa.Connection, master_key: bytes) -> None:
    """Let the ledger belong to this master key from its first charge on.

    Raises:
        SetupRefused: it belongs to another one.
    """
    if not require_own_master_key(connection, master_key):
        here = store.ledger_meta.c.id == 1
        rows.update(connection, store.ledger_meta, here, master_key_check=master_key_check(master_key))


def admitted(
    connection: sa.Connection, asked: Reservation, at: str
) -> tuple[Receipt, Mapping[str, Standing]]:
    """What a new release takes of its account, and the standing of each label then; nothing is written.

    Raises:
        BudgetRefused: the population is unknown or stopped, or does not admit the release.
        LedgerRefused: it protects other units than its account, cuts time otherwise, or reads what belongs to
            another population.
    """
    population = asked.release_id.population
    require_not_burned(connection, population)
    account = budget(connection, population)
    require_same_protection(account, asked.unit, asked.neighbours)
    if asked.source is not None:
        require_own_source(connection, asked.source, population)
    _partition(connection, asked)
    wants = _wanted(connection, account, asked)
    receipt, after = Receipt(), dict[str, Standing]()
    under = labels(asked.unit, asked.period, asked.release_id.period_key)
    for label in under:
        standing = standing_of(connection, population, label)
        after[label], receipt = admit(replace(account, standing=standing), wants)
    require_in_windows(connection, population, account.windows, wants, at)
    return replace(receipt, labels=under), after


def _wanted(connection: sa.Connection, account: Budget, asked: Reservation) -> Asked:
    """Which of an account's budgets is to pay: decided by names alone, never by what fits.

    A slot is for a period's first release: a revision has one only where nothing before it was ever read.
    """
    release = asked.release_id
    scheduled = release.name in account.enrolled and asked.pool is None and is_first(connection, release)
    return Asked(
        f"release {release}",
        asked.noise,
        asked.charge,
        schedule=release.name if scheduled else None,
        pool=asked.pool,
    )


def _partition(connection: sa.Connection, asked: Reservation) -> Partition | None:
    """How the account of period units is to cut time from now on; None where that is fixed, or no matter.

    Raises:
        LedgerRefused: its first release cut it otherwise.
    """
    if asked.unit.per is None or asked.period is None:
        return None
    fixed = partition_of(connection, asked.release_id.population)
    if fixed is None:
        return Partition(asked.period.column, asked.period.timezone, asked.unit.per)
    require_same_partition(Partition(*fixed, asked.unit.per), asked.unit, asked.period)
    return None


def _charge(connection: sa.Connection, asked: Reservation, master_key: bytes, stamp: Stamp) -> int:
    population = asked.release_id.population
    receipt, after = admitted(connection, asked, stamp.at)
    for label, standing in after.items():
        put_standing(connection, population, label, standing)
    partition = _partition(connection, asked)
    if partition is not None:
        put_partition(connection, population, partition)
    release = _insert_release(connection, asked, receipt, stamp.at)
    wrapped = wrap_key(master_key, os.urandom(KEY_BYTES), str(asked.release_id))
    rows.insert(connection, store.release_keys, release=release, wrapped=wrapped)
    for name, body in asked.tables.items():
        digest = store_table(connection, body)
        rows.insert(connection, store.release_tables, release=release, name=name, digest=digest)
    record_step(connection, release, Move(None, ReleaseState.RESERVED, fence=1), stamp)
    return release


def _insert_release(connection: sa.Connection, asked: Reservation, receipt: Receipt, at: str) -> int:
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
        "source_version": asked.source_version,
        "receipt": receipt.to_text(),
        "charged_at": at,
    }
    (release,) = rows.insert(connection, store.releases, **row)
    return int(release)


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
        source_version=row.source_version,
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


def _other_spec(release_id: ReleaseId, row: sa.Row[Any], given: Mapping[str, Any] | None) -> LedgerRefused:
    return LedgerRefused(
        "other_spec",
        f"release {release_id} is {row.state} with another spec, and one release id has one plan"
        f"{told_spec_changes(row.plan, given)}",
        way_out="restore the spec that it was reserved with, or choose another release name",
    )
