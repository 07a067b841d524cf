"""Statements on disk: the facts of a release as JSON and as a page, each written whole or not at all."""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_spark.errors import LedgerRefused
from dp_spark.release.ledger.states import ReleaseId
from dp_spark.report.facts import ReleaseFacts
from dp_spark.report.page import facts_html


@dataclass(frozen=True, slots=True)
class StatementPaths:
    """Where a statement lies, for machines and for people."""

    json: Path
    html: Path


def statement_paths(release_id: str, directory: Path) -> StatementPaths:
    """The files of a release's statement: directory/population/name/period-rN.json and .html.

    Raises:
        LedgerRefused: `release_id` is not population/name/period/revision.
        SpecRefused: a part of it is no name.
    """
    release = _parsed(release_id)
    folder = directory / release.population / release.name
    stem = f"{release.period_key}-r{release.revision}"
    return StatementPaths(folder / f"{stem}.json", folder / f"{stem}.html")


def write_statement(facts: ReleaseFacts, directory: Path) -> StatementPaths:
    """Write the statement of a release; the same facts give the same bytes, however often.

    Raises:
        LedgerRefused: the facts are those of a plan, or its release id is malformed.
    """
    if facts.sealed is None:
        raise LedgerRefused(
            "statement_without_release",
            f"the facts of {facts.release} are those of a plan, not of a release",
            way_out="run the release; `dp-spark plan --html FILE` writes the page of a plan",
        )
    paths = statement_paths(facts.sealed.release_id, directory)
    paths.json.parent.mkdir(parents=True, exist_ok=True)
    _replace(paths.html, facts_html(facts))
    _replace(paths.json, json.dumps(facts.as_json(), indent=2, ensure_ascii=False) + "\n")
    return paths


def read_statement(path: Path) -> dict[str, Any]:
    """The JSON of a statement.

    Raises:
        LedgerRefused: there is none, or it is damaged.
    """
    try:
        statement = json.loads(path.read_bytes())
    except OSError:
        raise LedgerRefused(
            "statement_missing",
            f"there is no readable statement at {path}",
            way_out="only a sealed release has one: `dp-spark run SPEC --key KEY` again seals and writes it",
        ) from None
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(statement, dict):
        raise _damaged(path)
    return statement


def _damaged(path: Path) -> LedgerRefused:
    return LedgerRefused(
        "statement_damaged",
        f"the statement at {path} is not the JSON that was written",
        way_out="restore it from a backup, or delete it and run `dp-spark run SPEC --key KEY` again",
    )


def _parsed(release_id: str) -> ReleaseId:
    parts = release_id.split("/")
    if len(parts) != 4 or not (parts[3].isascii() and parts[3].isdigit()):
        raise LedgerRefused(
            "bad_release_id",
            f"release id {release_id[:200]!r} is not population/name/period/revision",
            way_out="`dp-spark ledger releases` lists ids",
        )
    population, name, period_key, revision = parts
    return ReleaseId(population, name, period_key, int(revision))


def _replace(path: Path, text: str) -> None:
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
