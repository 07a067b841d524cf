"""What a job leaves for its scheduler: one JSON file with state, digest, cost and what is left, or a refusal.

A scheduler reads it instead of the ledger: it needs no dp_spark, no key and no password for that. It holds no
value of a row or group. After a failure `may_pass` says whether the same command may succeed later.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dp_spark.errors import ExitCode, Refusal, SetupRefused
from dp_spark.release.ledger import Ledger, ReleaseId, WaveId, warning_of
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import ReleaseSpec, SurveySpec, load_spec, load_survey

Facts = Mapping[str, object]


def with_result(
    action: Callable[[], None], place: Path | None, facts: Callable[[], Facts]
) -> Callable[[], None]:
    """The action, which leaves `facts` and how it ended at `place`; the action itself without a place.

    What an earlier attempt left there is removed first, so that a killed one leaves nothing.

    Raises:
        SetupRefused: nothing can be written there; the action has not begun.
    """
    if place is None:
        return action

    def told() -> None:
        _clear(place)
        ended: Facts = {"error": "interrupted", "exit_code": int(ExitCode.INTERRUPTED), "may_pass": True}
        try:
            action()
            ended = {"error": None, "exit_code": int(ExitCode.OK)}
        except Refusal as refusal:
            ended = {**refusal.as_json(), "may_pass": refusal.may_pass}
            raise
        except Exception:
            ended = {"error": "unexpected", "exit_code": int(ExitCode.UNEXPECTED), "may_pass": True}
            raise
        finally:
            _write(place, {**ended, **_known(facts)})

    return told


def release_outcome(spec: Path, key: str, *, profile: str | None, revise: str | None = None) -> Facts:
    """State, digest and cost of a release, and what is left of its account."""
    release, ledger = load_spec(spec), open_ledger(load_profile(profile))
    return {"key": key, **_account_facts(ledger, release), **_release_facts(ledger, release, key, revise)}


def wave_outcome(spec: Path, wave: str, *, profile: str | None) -> Facts:
    """State, digest of the estimates and cost of a wave, and what is left of its account."""
    survey, ledger = load_survey(spec), open_ledger(load_profile(profile))
    return {"key": wave, **_wave_facts(ledger, survey, wave)}


def _release_facts(ledger: Ledger, spec: ReleaseSpec, key: str, revise: str | None) -> Facts:
    first = ReleaseId(spec.budget.population, spec.release, key)
    release = ledger.current_revision(first) if revise is None else ledger.revision_for(first, revise)
    record = ledger.find(release)
    if record is None:
        return {"release": str(release), "state": None}
    return {
        "release": str(release),
        "state": record.state.value,
        "digest": None if record.artefact is None else record.artefact.digest,
        "charge": {"epsilon": str(record.charge.epsilon), "delta": str(record.charge.delta)},
    }


def _account_facts(ledger: Ledger, spec: ReleaseSpec) -> Facts:
    account = ledger.budget(spec.budget.population)
    warning = warning_of(account)
    return {
        "left": {"epsilon": str(account.left.epsilon), "delta": str(account.left.delta)},
        "share_left": float(account.share_left),
        "warning": None if warning is None else warning.as_json(),
    }


def _wave_facts(ledger: Ledger, spec: SurveySpec, wave: str) -> Facts:
    wave_id = WaveId(spec.budget.population, spec.survey, wave)
    account, record = ledger.survey_account(wave_id.population, wave_id.survey), ledger.wave(wave_id)
    return {
        "release": str(wave_id),
        "state": None if record is None else record.state.value,
        "digest": None if record is None or record.estimates is None else record.estimates.digest,
        "charge": None if record is None else {"epsilon": str(record.epsilon)},
        "left": {"epsilon": str(account.limit - account.spent)},
    }


def _known(facts: Callable[[], Facts]) -> Facts:
    """The facts, as far as spec and ledger can be read; how the action ended is told without them, too."""
    with suppress(Exception):
        return facts()
    return {}


def _clear(place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        if not os.access(place.parent, os.W_OK):
            raise PermissionError
    except OSError as failure:
        raise SetupRefused(
            "result_not_writable",
            f"--result {str(place)!r} cannot be written ({type(failure).__name__})",
            way_out="name a file in a directory that the job may write",
        ) from None


def _write(place: Path, facts: Facts) -> None:
    """Whole or not at all; the ledger knows what was done where it cannot be written."""
    attempt = place.with_name(f"{place.name}.{os.urandom(8).hex()}")
    with suppress(OSError):
        attempt.write_text(json.dumps(facts) + "\n")
        os.replace(attempt, place)
