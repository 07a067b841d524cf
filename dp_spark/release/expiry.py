"""What of the restricted zone is not needed any more: staged tables of what was sealed long ago.

Published copies and the ledger's record stay. Only files that the ledger names, and what attempts have left
beside them under their own names, are ever deleted; nothing of what is not sealed is looked at.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from dp_spark.release.ledger import Ledger, ReleaseState, StoredFile, WaveState
from dp_spark.release.profile import Profile

_STAGED = re.compile(r"\.?(attempt-[0-9]+|(counts|estimates)-[0-9a-f]+)\.parquet(\.[0-9a-f]{16})?")


class Reason(StrEnum):
    """Why a file goes."""

    EXPIRED = "expired"  # it was sealed more than retention_days ago
    LEFT = "left over"  # of an attempt that lost or died


@dataclass(frozen=True, slots=True)
class Disused:
    """A file of the restricted zone that is not needed any more, and whose it is: a release or a wave."""

    path: Path
    whose: str
    reason: Reason


def disused(ledger: Ledger, profile: Profile, now: datetime) -> list[Disused]:
    """The files that may go at `now`, by the profile's retention; nothing is deleted."""
    found: list[Disused] = []
    for whose, sealed_at, staged in _sealed(ledger):
        keep = {Path(os.path.realpath(each.path)) for each in staged}
        is_over = profile.retention_days is not None and (
            sealed_at + timedelta(days=profile.retention_days) <= now
        )
        for file in _files_beside(staged, profile.staging):
            if file not in keep:
                found.append(Disused(file, whose, Reason.LEFT))
            elif is_over:
                found.append(Disused(file, whose, Reason.EXPIRED))
    return found


def delete(files: Iterable[Disused]) -> None:
    """Delete them unread, and the directories that are empty then; what is gone already is no matter."""
    for each in files:
        with suppress(FileNotFoundError, NotADirectoryError):
            each.path.unlink()
        with suppress(OSError):  # it holds something, or somebody else was faster
            each.path.parent.rmdir()


def _sealed(ledger: Ledger) -> Iterator[tuple[str, datetime, list[StoredFile]]]:
    """Whatever is sealed: its name, since when, and its staged tables."""
    for population in ledger.populations():
        for record in ledger.releases(population):
            if record.state is ReleaseState.SEALED and record.artefact is not None:
                yield str(record.release_id), record.events[-1].at, [record.artefact]
    for account in ledger.survey_accounts():
        for wave in account.waves:
            if wave.state is WaveState.SEALED and wave.sealed_at is not None:
                staged = [each for each in (wave.counts, wave.estimates) if each is not None]
                yield f"survey {wave.wave_id}", datetime.fromisoformat(wave.sealed_at), staged


def _files_beside(staged: Iterable[StoredFile], zone: Path) -> list[Path]:
    """Regular files with the names of staged tables, in the directories of these and within the zone.

    Their paths are real ones: a zone may be recorded through a link.
    """
    homes = {Path(os.path.realpath(each.path)).parent for each in staged}
    real = os.path.realpath(zone)
    own = (home for home in homes if home.is_dir() and home.is_relative_to(real))
    return sorted(
        Path(entry.path)
        for home in own
        for entry in os.scandir(home)
        if _STAGED.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
    )
