"""`plan` and `statement`: the same facts before a run and after its seal."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from dp_spark.cli.guard import ERRORS, tell_refusal
from dp_spark.errors import BudgetRefused, ExitCode, LedgerRefused, Refusal, SetupRefused, SpecRefused
from dp_spark.release.enrolling import as_enrolled, plan_for, require_room
from dp_spark.release.ledger import Budget, Ledger, ReleaseId, WaveId
from dp_spark.release.ledger.states import is_name
from dp_spark.release.listing import with_listed_files
from dp_spark.release.places import open_ledger, paying_account, private_sources, release_record
from dp_spark.release.planner import plan_release
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import FROM_BUDGET, load_spec
from dp_spark.release.stored import plan_from_bytes
from dp_spark.report import ReleaseFacts, facts_html, print_facts, release_facts, sealed_release

_PARTS_OF_A_WAVE = 3  # population/survey/wave


def plan_command(spec: Path, *, html: Path | None, profile: str | None, as_json: bool) -> ExitCode:
    """Print the plan of a spec and what its account has left; with `html`, write it as a page.

    Answers with the code of the refusal that a run would meet now by its account or for want of one, told
    below the plan. Without a ledger nothing is known, and that is said.
    """
    release, places = load_spec(spec), load_profile(profile)
    budget: Budget | None = None
    refused: Refusal | None = None
    try:
        budget = paying_account(places, release)
    except (LedgerRefused, BudgetRefused) as refusal:
        refused = refusal
    except Refusal as refusal:
        ERRORS.print(f"what is left is not known: {refusal}\n", markup=False, soft_wrap=True)
    if budget is None:
        plan = plan_release(release)
    elif release.guarantee == FROM_BUDGET and release.release not in budget.enrolled:
        budget, plan = as_enrolled(budget, release)
        ERRORS.print(
            f"not enrolled yet: `dp-spark ledger schedule add {spec} --reason WHY` does that\n",
            markup=False,
            soft_wrap=True,
        )
    else:
        plan = plan_for(budget, release)
    plan = with_listed_files(plan, private_sources(places, release))
    facts = release_facts(plan, budget=budget)
    if html is not None:
        write_page(html, facts_html(facts))
    if budget is not None:
        refused = refusal_of(lambda: require_room(budget, plan))
    return show_plan(facts.as_json(), partial(print_facts, facts=facts), refused, as_json=as_json)


def refusal_of(check: Callable[[], None]) -> Refusal | None:
    """What a check refuses; None where it has nothing against it."""
    try:
        check()
    except Refusal as refusal:
        return refusal
    return None


def show_plan(
    facts: dict[str, Any], write: Callable[[Console], None], refused: Refusal | None, *, as_json: bool
) -> ExitCode:
    """Print a plan and, where its account would refuse it, why; in JSON both are one document."""
    if as_json:
        told = {**facts, "refused": None if refused is None else refused.as_json()}
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        write(Console(highlight=False))
        if refused is not None:
            tell_refusal(refused, as_json=False)
    return ExitCode.OK if refused is None else refused.exit_code


def statement_command(release: str, *, html: Path | None, profile: str | None, as_json: bool) -> None:
    """Print the statement of a sealed release; with `html`, write it as a page.

    Raises:
        SpecRefused: it is no id of a release; of a wave the text says where its statement is.
        LedgerRefused: the release is unknown or not sealed.
    """
    ledger = open_ledger(load_profile(profile))
    _require_no_wave(ledger, release)
    record = release_record(ledger, ReleaseId.parse(release))
    if record.statement is None:
        raise LedgerRefused(
            "not_sealed",
            f"release {release} is {record.state}: it has no statement yet",
            way_out="run it again with `dp-spark run`; it goes on where it stopped",
        )
    plan = plan_from_bytes(record.plan_bytes, ledger.tables(record.release_id))
    budget = ledger.budget(record.release_id.population)
    sealed = sealed_release(record, record.events[-1].at)
    facts = release_facts(plan, budget=budget, sealed=sealed, receipt=record.took)
    _show(facts, html=html, as_json=as_json)


def _require_no_wave(ledger: Ledger, text: str) -> None:
    """Refuse the name of a wave that the ledger knows, and say where its statement is."""
    parts = text.split("/")
    if len(parts) != _PARTS_OF_A_WAVE or not all(map(is_name, parts)):
        return
    record = ledger.wave(WaveId(*parts))
    if record is None:
        return
    page = None if record.statement is None else Path(record.statement.path)
    raise SpecRefused(
        "bad_release_id",
        f"{text} is no release but a wave of a survey, which is {record.state}",
        way_out="it has a statement once it is sealed: dp-spark survey estimate SPEC --wave WAVE"
        if page is None
        else f"its statement is {page}, and for machines {page.with_suffix('.json')}",
    )


def _show(facts: ReleaseFacts, *, html: Path | None, as_json: bool) -> None:
    if html is not None:
        write_page(html, facts_html(facts))
    if as_json:
        sys.stdout.write(json.dumps(facts.as_json()) + "\n")
    else:
        print_facts(Console(highlight=False), facts)


def write_page(path: Path, page: str) -> None:
    """Write a page where `--html` says.

    Raises:
        SetupRefused: it cannot be written there.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"--html {path} cannot be written ({failure.strerror})",
            way_out="give a file in a directory that exists and that you may write",
        ) from None
