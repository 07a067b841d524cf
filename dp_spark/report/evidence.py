"""What checks on history found, as JSON beside the statement of a release."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_spark.errors import SetupRefused
from dp_spark.report.statement import put_file, statement_paths

FORMAT = "dp_spark checks 1"


def evidence_path(release_id: str, directory: Path) -> Path:
    """The file: directory/population/name/period-rN.checks.json.

    Raises:
        SpecRefused: `release_id` is not population/name/period/revision.
    """
    return statement_paths(release_id, directory).json.with_suffix(".checks.json")


def write_evidence(release_id: str, facts: Mapping[str, Any], directory: Path) -> Path:
    """Write the evidence of a release; it appears whole or not at all.

    Raises:
        SetupRefused: the directory cannot be written.
    """
    path = evidence_path(release_id, directory)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "release": release_id, **facts}, indent=2, ensure_ascii=False)
        put_file(path, text + "\n")
    except OSError as failure:
        raise SetupRefused(
            "statement_unwritable",
            f"the evidence of checks cannot be written to {path.parent} ({failure.strerror})",
            way_out="make room, give this user write access, run it again: only the seal is left",
        ) from None
    return path


def read_warnings(release_id: str, directory: Path) -> tuple[str, ...]:
    """The warnings in the evidence of a release; () where it has none, or none can be read."""
    try:
        facts = json.loads(evidence_path(release_id, directory).read_text(encoding="utf-8"))
        return tuple(str(each["text"]) for each in facts["findings"] if not each["blocks"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()
