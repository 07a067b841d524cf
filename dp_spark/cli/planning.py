"""`plan` and `statement`: the same facts before a run and after its seal."""

import json
import sys
from pathlib import Path

from rich.console import Console

from dp_spark.cli.guard import ERRORS
from dp_spark.errors import SetupRefused
from dp_spark.pipeline import open_ledger, planned_facts, sealed_facts
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import load_spec
from dp_spark.report.facts import ReleaseFacts
from dp_spark.report.page import facts_html
from dp_spark.report.text import print_facts


def plan_command(spec: Path, *, html: Path | None, profile: str | None, as_json: bool) -> None:
    """Print the plan of a spec and what its account has left; with `html`, write it as a page."""
    facts, no_account = planned_facts(load_spec(spec), load_profile(profile))
    if html is not None:
        _write_page(html, facts)
    _show(facts, as_json=as_json)
    if no_account is not None:
        ERRORS.print(f"what is left is not known: {no_account}", markup=False, soft_wrap=True)


def statement_command(release: str, *, html: Path | None, profile: str | None, as_json: bool) -> None:
    """Print the statement of a sealed release; with `html`, write it as a page."""
    facts = sealed_facts(open_ledger(load_profile(profile)), release)
    if html is not None:
        _write_page(html, facts)
    _show(facts, as_json=as_json)


def _show(facts: ReleaseFacts, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(facts.as_json()) + "\n")
    else:
        print_facts(Console(highlight=False), facts)


def _write_page(path: Path, facts: ReleaseFacts) -> None:
    try:
        path.write_text(facts_html(facts), encoding="utf-8")
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"--html {path} cannot be written ({failure.strerror})",
            way_out="give a file in a directory that exists and that you may write",
        ) from None
