"""What all gates found, as JSON beside the statement of a release or of a wave."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_spark.errors import SetupRefused
from dp_spark.release.ledger import WaveId
from dp_spark.report.statement import put_file, statement_paths
from dp_spark.report.survey_statement import survey_statement_paths

FORMAT = "dp_spark checks 1"
DECIDED = "published_by_decision"


def evidence_path(release_id: str, directory: Path) -> Path:
    """The file of a release: directory/population/name/period-rN.checks.json.

    Raises:
        SpecRefused: `release_id` is not population/name/period/revision.
    """
    return statement_paths(release_id, directory).json.with_suffix(".checks.json")


def wave_evidence_path(wave_id: WaveId, directory: Path) -> Path:
    """The file of a wave: directory/population/survey/waves/WAVE.checks.json."""
    return survey_statement_paths(wave_id, directory).json.with_suffix(".checks.json")


def write_evidence(path: Path, whose: str, facts: Mapping[str, Any]) -> None:
    """Write the evidence of a release or a wave; it appears whole or not at all.

    Raises:
        SetupRefused: the directory cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {"format": FORMAT, "release": whose, DECIDED: False, **facts}
        put_file(path, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    except OSError as failure:
        raise SetupRefused(
            "evidence_unwritable",
            f"the evidence of checks cannot be written to {path.parent} ({failure.strerror})",
            way_out="make room, give this user write access, run it again: the charge is not taken twice",
        ) from None


def gate_facts(failed: Sequence[str], expectations: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What evidence says of one gate: whether the table passed, and each expectation with its outcome."""
    return {"passed": not failed, "failed": list(failed), "expectations": list(expectations)}


def mark_decided(path: Path, whose: str) -> None:
    """Say in the evidence that somebody has decided to publish; what the gates found stays there.

    Raises:
        SetupRefused: as `write_evidence`.
    """
    write_evidence(path, whose, {**(read_evidence(path) or {}), DECIDED: True})


def read_evidence(path: Path) -> dict[str, Any] | None:
    """The evidence in a file; None where there is none, or it cannot be read."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def load_evidence(path: Path) -> dict[str, Any] | None:
    """The evidence in a file, of the shape that this version writes; None where no file is to be seen.

    Raises:
        SetupRefused: the file cannot be read, or is not of that shape.
    """
    try:
        path.stat()
    except OSError:
        return None
    facts = read_evidence(path)
    wrong = "it is no JSON object that can be read" if facts is None else _wrong(facts)
    if wrong:
        raise SetupRefused(
            "evidence_unreadable",
            f"the evidence of checks in {path} is not as this version writes it: {wrong}",
            way_out="look at the file; restore it from a backup, or use the version that wrote it",
        )
    return facts


def _wrong(facts: Mapping[str, Any]) -> str:
    """The first thing that this version does not write so; "" where there is none.

    A decision about what has no evidence is written without gates.
    """
    gates, findings = facts.get("gates"), facts.get("findings", [])
    if facts.get("format") != FORMAT:
        return f"`format` must be {FORMAT!r}"
    if not (isinstance(facts.get("release"), str) and isinstance(facts.get(DECIDED), bool)):
        return f"`release` must be text, and `{DECIDED}` true or false"
    if not (isinstance(gates, dict) and gates) and not (gates is None and facts[DECIDED]):
        return "`gates` must be an object of gates"
    for name, gate in (gates or {}).items():
        if not _is_gate(gate):
            return f"gate {name!r} must have `passed`, `failed` and `expectations`, each of its type"
    if not (isinstance(findings, list) and all(map(_is_finding, findings))):
        return "`findings` must be a list of objects with `text` and `blocks`"
    return ""


def _is_gate(gate: object) -> bool:
    return (
        isinstance(gate, dict)
        and isinstance(gate.get("passed"), bool)
        and _are_texts(gate.get("failed"))
        and isinstance(gate.get("expectations"), list)
        and all(map(_is_expectation, gate["expectations"]))
    )


def _is_expectation(told: object) -> bool:
    return (
        isinstance(told, dict)
        and isinstance(told.get("met"), bool)
        and _are_texts(told.get("columns"))
        and _are_texts([told.get("expectation"), told.get("bound", ""), told.get("beside", "")])
    )


def _is_finding(told: object) -> bool:
    return (
        isinstance(told, dict) and isinstance(told.get("text"), str) and isinstance(told.get("blocks"), bool)
    )


def _are_texts(told: object) -> bool:
    return isinstance(told, list) and all(isinstance(each, str) for each in told)


def read_warnings(release_id: str, directory: Path) -> tuple[str, ...]:
    """The warnings in the evidence of a release; () where it has none, or none can be read."""
    facts = read_evidence(evidence_path(release_id, directory)) or {}
    try:
        return tuple(str(each["text"]) for each in facts["findings"] if not each["blocks"])
    except (KeyError, TypeError):
        return ()
