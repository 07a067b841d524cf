"""`survey ...`: the waves of a survey, from the command line or from spark-submit."""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from dp_spark.cli.guard import ERRORS
from dp_spark.cli.metrics import measured, of_wave
from dp_spark.cli.planning import refusal_of, show_plan, write_page
from dp_spark.cli.progress import progress
from dp_spark.cli.setting_up import Protection, limit_of, texts_of
from dp_spark.errors import BudgetRefused, ExitCode, Refusal
from dp_spark.frames.session import start_session
from dp_spark.release.ledger import (
    SurveyAccount,
    WaveEnd,
    WaveId,
    WaveRecord,
    WaveState,
    require_wave_fits,
)
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import SurveySpec, load_survey
from dp_spark.release.survey import plan_survey, require_spec_of
from dp_spark.release.survey_sources import require_own_answers
from dp_spark.report import left_out, print_survey, survey_facts, survey_html
from dp_spark.surveys import Copies, close_survey, end_survey, estimate_survey, open_survey, randomize_survey

_Result = TypeVar("_Result")
_ENDED = frozenset({WaveState.ABANDONED, WaveState.BURNED})
_ENDS = {"abandon": WaveEnd.ABANDON, "burn": WaveEnd.BURN}


def budget_command(
    population: str,
    survey: str,
    *,
    epsilon: str,
    unit: list[str],
    reason: str,
    profile: str | None,
    as_json: bool,
) -> None:
    """Open the account of a survey or move its limit, and print what is left.

    Raises:
        Refusal: a number is out of range, or the account counts another unit.
    """
    limit = limit_of(epsilon, "0", "survey budget set").epsilon
    protected, _ = Protection(tuple(unit), row=False, per=None, neighbours="add_remove").read()
    (reason,) = texts_of("survey budget set", reason=reason)
    ledger = open_ledger(load_profile(profile))
    ledger.set_survey_limit(population, survey, limit, unit=protected, reason=reason)
    account = ledger.survey_account(population, survey)
    told = {"survey": f"{population}/{survey}", "limit": str(account.limit), "spent": str(account.spent)}
    _tell(told, as_json=as_json)


def plan_command(spec: Path, *, html: Path | None, profile: str | None, as_json: bool) -> ExitCode:
    """Print the plan of a survey and what its account has left; with `html`, write it as a page.

    Answers with the code of the refusal that `open` would meet now by its account or for want of one, told
    below the plan. Without a ledger nothing is known, and that is said.
    """
    survey, places = load_survey(spec), load_profile(profile)
    account: SurveyAccount | None = None
    private: frozenset[str] = frozenset()
    refused: Refusal | None = None
    try:
        ledger = open_ledger(places)
        private = ledger.sources()
        refused = refusal_of(lambda: require_own_answers(ledger, survey))
        account = ledger.survey_account(survey.budget.population, survey.survey)
    except BudgetRefused as refusal:
        refused = refused or refusal
    except Refusal as refusal:
        ERRORS.print(f"what is left is not known: {refusal}\n", markup=False, soft_wrap=True)
    facts = survey_facts(plan_survey(survey, private=private), account)
    if html is not None:
        write_page(html, survey_html(facts))
    if account is not None and refused is None:
        fits = partial(
            require_wave_fits, account, survey.unit.protected, survey.epsilon, "a wave of this plan"
        )
        refused = refusal_of(fits)
    return show_plan(facts.as_json(), partial(print_survey, facts=facts), refused, as_json=as_json)


def publish_held_command(spec: Path, wave: str, *, reason: str, profile: str | None, as_json: bool) -> None:
    """Record the decision to publish a held wave, and publish it.

    Raises:
        LedgerRefused: the wave is not held or of another spec, or the reason is blank.
        Refusal: as `estimate_survey`.
    """
    survey, places = load_survey(spec), load_profile(profile)
    (reason,) = texts_of("survey publish-held", reason=reason)
    ledger, wave_id = open_ledger(places), WaveId(survey.budget.population, survey.survey, wave)
    record = ledger.wave(wave_id)
    if record is not None:
        require_spec_of(record, survey)
    ledger.clear_wave(wave_id, reason)
    estimate_command(spec, wave, profile=profile, as_json=as_json)


def end_command(word: str, spec: Path, wave: str, *, reason: str, profile: str | None, as_json: bool) -> None:
    """Abandon or burn a wave, and print what stays of it.

    Raises:
        LedgerRefused: the wave is unknown, its state does not allow that, or the reason is blank.
        SetupRefused: something cannot be deleted, or the statement cannot be marked; the decision stands.
    """
    survey, places = load_survey(spec), load_profile(profile)
    (reason,) = texts_of(f"survey {word}", reason=reason)
    wave_id = WaveId(survey.budget.population, survey.survey, wave)
    ended = end_survey(
        wave_id, _ENDS[word], reason, profile=places, spark=lambda: start_session(places.spark)
    )
    record, copies = ended.record, ended.copies
    told = {**_state(record), "published": copies.published, "not_known": list(copies.unknown)}
    if ended.untrue is not None:
        told |= {"statement_no_longer_true": str(ended.untrue), "marked_by": str(ended.mark)}
    if as_json:
        _tell(told, as_json=True)
        return
    told |= _copies_told(copies)
    told["deleted"] = "its key, its reports, and the tables that were staged"
    if ended.untrue is not None:
        told |= {
            "statement_no_longer_true": f"{ended.untrue}: take it back, with the copies that you gave out"
        }
    if record.state is WaveState.BURNED:
        told["account"] = f"{wave_id.population}/{wave_id.survey} admits no further wave"
    _tell(told, as_json=False)


def open_command(
    spec: Path, wave: str, *, reason: str, changed: str | None, profile: str | None, as_json: bool
) -> None:
    """Open a wave and print what it costs.

    Raises:
        Refusal: as `open_survey`.
    """
    opened = _done(
        "open", partial(open_survey, reason=reason, changed=changed), load_survey(spec), wave, profile
    )
    account, record = opened.account, opened.record
    told = {
        "wave": str(record.wave_id),
        "charged": str(record.epsilon) if record.opened_now else None,
        "spent": str(account.spent),
        "limit": str(account.limit),
        "state": record.state.value,
        "domain": record.domain_digest,
    }
    if not as_json and not record.opened_now:
        told["charged"] = "nothing: this wave was opened before"
    _tell(told, as_json=as_json)


def randomize_command(spec: Path, wave: str, *, profile: str | None, as_json: bool) -> None:
    """Randomize the answers of those who have no report yet, and print how many there were.

    Raises:
        Refusal: as `randomize_survey`.
    """
    survey = load_survey(spec)
    added = _done("randomize", randomize_survey, survey, wave, profile)
    told = {**_state(added.record), "new": added.new, "left_out": left_out(survey)}
    _tell(told, as_json=as_json)


def close_command(spec: Path, wave: str, *, profile: str | None, as_json: bool) -> None:
    """Count the reports and close the wave.

    Raises:
        Refusal: as `close_survey`.
    """
    survey = load_survey(spec)
    record = _done("close", close_survey, survey, wave, profile)
    _tell({**_state(record), "left_out": left_out(survey)}, as_json=as_json)


def estimate_command(spec: Path, wave: str, *, profile: str | None, as_json: bool) -> None:
    """Estimate shares, publish and seal, and print where they are.

    Raises:
        Refusal: as `estimate_survey`.
    """
    survey = load_survey(spec)
    found = _done("estimate", estimate_survey, survey, wave, profile)
    told = {
        **_state(found.record),
        "published": sorted(found.record.publications.values()),
        "statement": str(found.statement),
        "left_out": left_out(survey),
    }
    _tell(told, as_json=as_json)


def close_and_estimate_command(spec: Path, wave: str, *, profile: str | None, as_json: bool) -> None:
    """Close the wave, then as `estimate_command`; what is printed is one result.

    Raises:
        Refusal: as `close_survey` and `estimate_survey`.
    """
    _done("close", close_survey, load_survey(spec), wave, profile)
    estimate_command(spec, wave, profile=profile, as_json=as_json)


def show_command(*, population: str | None, profile: str | None, as_json: bool) -> None:
    """Print the accounts of surveys: limit, spent, waves.

    Raises:
        SetupRefused: as `open_ledger`.
        BudgetRefused: no survey is of that population.
    """
    every = open_ledger(load_profile(profile)).survey_accounts()
    accounts = [account for account in every if population in (None, account.population)]
    if population is not None and not accounts:
        known = ", ".join(sorted({account.population for account in every})) or "none"
        raise BudgetRefused(
            "unknown_population",
            f"the ledger has no surveys of population {population[:200]!r}; it has those of: {known}",
            way_out="correct the name, or leave it out",
        )
    told = [
        {
            "population": account.population,
            "survey": account.survey,
            "unit": str(account.unit),
            "limit": str(account.limit),
            "spent": str(account.spent),
            "burned": [wave_id.wave for wave_id in account.burned],
            "waves": [_state(wave) for wave in account.waves],
        }
        for account in accounts
    ]
    if as_json:
        sys.stdout.write(json.dumps(told) + "\n")
        return
    for account in accounts:
        sys.stdout.write(
            f"{account.population}/{account.survey}: epsilon {account.spent} of {account.limit} spent, "
            f"of each {account.unit}{_stopped(account)}\n"
        )
        for wave in account.waves:
            sys.stdout.write(
                f"  {wave.wave_id.wave:<20} {wave.state.value:<10} epsilon {_epsilon(wave)}, "
                f"{wave.reports:,} reports{', deleted' if wave.state in _ENDED and wave.reports else ''}\n"
            )


def _done(
    command: str, step: Callable[..., _Result], survey: SurveySpec, wave: str, profile: str | None
) -> _Result:
    """What a step of a wave answers; its progress is shown, and Spark starts if it asks for it."""
    places = load_profile(profile)
    subject = of_wave(places, survey, wave)
    with (
        progress(ERRORS, f"{survey.survey} {wave}", idle="nothing was left to do") as shown,
        measured(shown, subject, f"survey {command}") as observe,
    ):
        return step(survey, wave, profile=places, spark=lambda: start_session(places.spark), observe=observe)


def _state(record: WaveRecord) -> dict[str, object]:
    return {
        "wave": str(record.wave_id),
        "state": record.state.value,
        "reports": record.reports,
        "epsilon": _epsilon(record),
    }


def _copies_told(copies: Copies) -> dict[str, object]:
    """What stands at the sinks of a wave that is over, by what is known."""
    stays = ", ".join(copies.published)
    told: dict[str, object] = {
        "published": f"{stays}: it stays there, for whoever has it" if stays else "nothing"
    }
    if copies.empty and not stays:
        told["published"] = f"nothing is at {', '.join(copies.empty)}"
    if copies.unknown:
        told["not_known"] = f"{', '.join(copies.unknown)}: it could not be reached; look there yourself"
    if copies.found or copies.empty or copies.unknown:
        told["incomplete"] = (
            "this list may be: a copy that was under way may be finished, and one that was made from another "
            "directory is where its path led from there"
        )
    return told


def _epsilon(record: WaveRecord) -> str:
    """What the reports of a wave give away of a person."""
    return "infinite" if record.state is WaveState.BURNED else str(record.epsilon)


def _stopped(account: SurveyAccount) -> str:
    burned = ", ".join(wave_id.wave for wave_id in account.burned)
    return f"; stopped, as these waves are burned: {burned}" if burned else ""


def _value(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _tell(told: Mapping[str, object], *, as_json: bool) -> None:
    text = (
        json.dumps(told)
        if as_json
        else "\n".join(f"{name.replace('_', ' '):<10} {_value(value)}" for name, value in told.items())
    )
    sys.stdout.write(text + "\n")
