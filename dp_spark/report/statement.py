"""Statements on disk: the facts of a release as JSON and as a page, each written whole or not at all."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dp_spark import __version__
from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.release.ledger import ReleaseId, ReleaseRecord, ReleaseState
from dp_spark.report.facts import ReleaseFacts, SealedRelease
from dp_spark.report.page import facts_html


@dataclass(frozen=True, slots=True)
class StatementPaths:
    """Where a statement lies, for machines and for people."""

    json: Path
    html: Path


def statement_paths(release_id: str, directory: Path) -> StatementPaths:
    """The files of a release's statement: directory/population/name/period-rN.json and .html.

    Raises:
        SpecRefused: `release_id` is not population/name/period/revision.
    """
    release = ReleaseId.parse(release_id)
    folder = directory / release.population / release.name
    stem = f"{release.period_key}-r{release.revision}"
    return StatementPaths(folder / f"{stem}.json", folder / f"{stem}.html")


def write_statement(facts: ReleaseFacts, directory: Path) -> StatementPaths:
    """Write the statement of a release; the same facts give the same bytes, however often.

    Raises:
        LedgerRefused: the facts are those of a plan.
        SetupRefused: the directory cannot be written.
    """
    if facts.sealed is None:
        raise LedgerRefused(
            "statement_without_release",
            f"the facts of {facts.release} are those of a plan, not of a release",
            way_out="run the release; `dp-spark plan --html FILE` writes the page of a plan",
        )
    paths = statement_paths(facts.sealed.release_id, directory)
    write_both(paths, facts_html(facts), facts.as_json())
    return paths


def write_both(paths: StatementPaths, page: str, facts: Mapping[str, Any]) -> None:
    """Write a page and, after it, its facts; each appears whole or not at all.

    Raises:
        SetupRefused: the directory cannot be written.
    """
    try:
        paths.json.parent.mkdir(parents=True, exist_ok=True)
        put_file(paths.html, page)
        put_file(paths.json, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    except OSError as failure:
        raise SetupRefused(
            "statement_unwritable",
            f"the statement cannot be written to {paths.json.parent} ({failure.strerror})",
            way_out="make room, give this user write access, run it again: only the seal is left",
        ) from None


def sealed_release(record: ReleaseRecord, sealed_at: datetime) -> SealedRelease:
    """What became of a release whose artefact every sink has."""
    assert record.artefact is not None
    return SealedRelease(
        release_id=str(record.release_id),
        state=ReleaseState.SEALED,
        artefact_digest=record.artefact.digest,
        published=tuple(copy.target for copy in record.publications),
        reserved_at=record.reserved_at,
        sealed_at=sealed_at,
        dp_spark_version=__version__,
        source_version=record.source_version,
    )


def file_digest(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def put_file(path: Path, text: str) -> None:
    """Put a file of this text at `path`: readers see the old one or the new one, also after a power cut."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.suffix}-", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(0o644)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
