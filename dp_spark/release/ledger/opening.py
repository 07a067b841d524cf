"""The opening of a wave: charge, key and stored plan in one transaction, before anybody is asked."""

import os
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.decisions import require_not_burned
from dp_spark.release.ledger.exact import encode
from dp_spark.release.ledger.keys import KEY_BYTES, wave_owner, wrap_key
from dp_spark.release.ledger.reserve import bind_master_key
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.surveys import require_wave_fits, survey_account
from dp_spark.release.ledger.wave_records import is_wave, known_wave, wave_records
from dp_spark.release.ledger.wave_steps import record_wave_event, require_row_not_ended
from dp_spark.release.ledger.waves import SurveyAccount, WaveAsked, WaveRecord, WaveState
from dp_spark.release.stored_spec import stored_spec, told_domain_changes, told_spec_changes


def open_wave(connection: sa.Connection, asked: WaveAsked, master_key: bytes, stamp: Stamp) -> WaveRecord:
    """Charge a new wave, or find a known one for nothing with the plan that it was charged for.

    Raises:
        BudgetRefused: survey or population is unknown, population or survey has stopped, or the limit does
            not admit the charge.
        LedgerRefused: the wave is over, or known with another spec or domain, persons are others than the
            account's, the domain changed and nobody says why, or a reason is blank.
        SetupRefused: the ledger belongs to another master key.
    """
    bind_master_key(connection, master_key)
    opened_now = require_wave_admitted(connection, asked)
    if opened_now:
        _charge(connection, asked, master_key, stamp)
    (record,) = wave_records(connection, is_wave(asked.wave_id), opened_now=opened_now)
    return record


def require_wave_admitted(connection: sa.Connection, asked: WaveAsked) -> bool:
    """Whether `open_wave` would charge, and not only find the wave; nothing is written.

    Raises:
        BudgetRefused, LedgerRefused: as `open_wave`.
    """
    _require_reasons(asked)
    row = known_wave(connection, asked.wave_id)
    if row is not None:
        require_row_not_ended(row)
        known = {"spec": row.spec_digest, "domain": row.domain_digest}
        given = {"spec": asked.spec_digest, "domain": asked.domain_digest}
        for what, digest in known.items():
            if given[what] != digest:
                raise _other(asked, row, what)
        return False
    account = survey_account(connection, asked.wave_id.population, asked.wave_id.survey)
    require_not_burned(connection, account.population)
    require_wave_fits(account, asked.unit, asked.epsilon, f"wave {asked.wave_id}")
    _require_told_change(account, asked)
    return True


def _charge(connection: sa.Connection, asked: WaveAsked, master_key: bytes, stamp: Stamp) -> None:
    wave_id = asked.wave_id
    (wave,) = rows.insert(
        connection,
        store.waves,
        population=wave_id.population,
        survey=wave_id.survey,
        name=wave_id.wave,
        spec_digest=asked.spec_digest,
        domain_digest=asked.domain_digest,
        epsilon=encode(asked.epsilon),
        state=WaveState.OPEN.value,
        fence=0,
        reason=asked.reason,
        changed=asked.changed,
        opened_at=stamp.at,
        plan=asked.plan_bytes,
    )
    wrapped = wrap_key(master_key, os.urandom(KEY_BYTES), wave_owner(str(wave_id)))
    rows.insert(connection, store.wave_keys, wave=wave, wrapped=wrapped)
    record_wave_event(connection, wave, (None, WaveState.OPEN), 0, stamp)


def _require_reasons(asked: WaveAsked) -> None:
    reasons = {"opened": asked.reason, "given another domain": asked.changed}
    for what, reason in reasons.items():
        if reason is not None and not reason.strip():
            raise LedgerRefused(
                "reason_missing",
                f"wave {asked.wave_id} cannot be {what} without a reason",
                way_out="say who decided it and why; it is kept for good",
            )


def _require_told_change(account: SurveyAccount, asked: WaveAsked) -> None:
    """Two sets of sensitive categories over the same people tell more than each by itself."""
    before = account.waves[-1] if account.waves else None
    differs = before is not None and before.domain_digest != asked.domain_digest
    if before is not None and differs and asked.changed is None:
        told = told_domain_changes(before.plan_bytes, asked.plan_bytes)
        raise LedgerRefused(
            "domain_changed",
            f"wave {asked.wave_id} has other categories or flags than wave {before.wave_id}{told}",
            way_out="restore them, or say why they changed: people who moved between the sets may show",
        )
    if asked.changed is not None and not differs:
        last = "there is no wave before it" if before is None else f"they are those of wave {before.wave_id}"
        raise LedgerRefused(
            "domain_unchanged",
            f"wave {asked.wave_id} says why its categories changed, but {last}",
            way_out="leave the reason out, or change the categories",
        )


def _other(asked: WaveAsked, row: sa.Row[Any], what: str) -> LedgerRefused:
    told = (
        told_spec_changes(row.plan, stored_spec(asked.plan_bytes))
        if what == "spec"
        else told_domain_changes(row.plan, asked.plan_bytes)
    )
    return LedgerRefused(
        f"other_{what}",
        f"wave {asked.wave_id} is {row.state} with another {what}, and one wave has one plan{told}",
        way_out=f"restore the {what} that it was opened with, or open another wave, at a charge of its own",
    )
