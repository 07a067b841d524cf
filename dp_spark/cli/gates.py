"""`release checks` and `survey checks`: what the gates found, in words and as a page."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dp_spark.checks import checks_page
from dp_spark.cli.planning import write_page
from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger import ReleaseId, WaveId
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import load_survey
from dp_spark.report import evidence_path, load_evidence, wave_evidence_path

_UNTOLD = 10  # so many expectations that are not met are printed of a gate


def release_checks_command(release: str, *, html: Path | None, profile: str | None, as_json: bool) -> None:
    """Print what the gates found of a release; with `html`, write it as a page.

    Raises:
        SpecRefused: it is no id of a release.
        LedgerRefused: no gate has looked at it yet.
        SetupRefused: the evidence cannot be read, or the page not be written.
    """
    release_id = str(ReleaseId.parse(release))
    path = evidence_path(release_id, load_profile(profile).statements)
    _show(path, release_id, "dp-spark run SPEC --key KEY", html=html, as_json=as_json)


def wave_checks_command(
    spec: Path, wave: str, *, html: Path | None, profile: str | None, as_json: bool
) -> None:
    """Print what the gates found of a wave; with `html`, write it as a page.

    Raises:
        LedgerRefused: no gate has looked at it yet.
        SetupRefused: as `release_checks_command`.
    """
    survey = load_survey(spec)
    wave_id = WaveId(survey.budget.population, survey.survey, wave)
    path = wave_evidence_path(wave_id, load_profile(profile).statements)
    _show(path, str(wave_id), f"dp-spark survey estimate SPEC --wave {wave}", html=html, as_json=as_json)


def _show(path: Path, whose: str, command: str, *, html: Path | None, as_json: bool) -> None:
    facts = load_evidence(path)
    if facts is None:
        raise LedgerRefused(
            "not_checked",
            f"there is no evidence of checks of {whose}: {path} cannot be read",
            way_out=f"gates look at what is staged, in {command}",
        )
    if html is not None:
        write_page(html, checks_page(facts))
    if as_json:
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(facts, path)))
        if html is not None:
            sys.stdout.write(f"page       {html}\n")


def _lines(facts: Mapping[str, Any], path: Path) -> Iterator[str]:
    for name, gate in facts.get("gates", {}).items():
        word = "passed" if gate["passed"] else "FAILED"
        yield f"{name:<10} {word}  {len(gate['expectations'])} expectations"
        yield from (f"           not met: {text}" for text in gate["failed"][:_UNTOLD])
    yield from (f"warning    {each['text']}" for each in facts.get("findings", ()) if not each["blocks"])
    if facts.get("published_by_decision"):
        yield "decision   somebody decided to publish it as it is"
    yield f"evidence   {path}"
