"""What the ledger hands to a run: its claim on a release, and how the race to stage ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dp_spark.release.ledger.records import StoredFile
from dp_spark.release.ledger.states import ReleaseId, ReleaseState


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt at a release, as its reservation was answered; a later attempt has a higher fence.

    `cleared` says that somebody decided to publish it although a gate failed, `source_version` which version
    of its source it reads.
    """

    release_id: ReleaseId
    state: ReleaseState
    fence: int
    charged_now: bool
    cleared: bool
    artefact: StoredFile | None
    statement: StoredFile | None
    plan_bytes: bytes = field(repr=False)
    tables: Mapping[str, bytes] = field(repr=False)
    source_version: str | None = None


@dataclass(frozen=True, slots=True)
class StagedOutcome:
    """How an attempt's race to STAGED ended.

    Attributes:
        artefact: the one artefact of the release, which every attempt goes on with.
        won: whether this attempt staged it.
        discard: path of this attempt's own artefact, to be deleted unread; None if nothing is to be deleted.
        log_erased: whether the write-ahead log, which held the wrapped key, is gone already; if not, a reader
            was in the way, and a later call of the ledger erases it.
    """

    artefact: StoredFile
    won: bool
    discard: str | None
    log_erased: bool
