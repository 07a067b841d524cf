"""How a release is named, and which state may follow which."""

import re
from dataclasses import dataclass
from enum import StrEnum

from dp_spark.errors import SpecRefused

_PARTS = 4
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ReleaseState(StrEnum):
    """Where a release stands between its charge and its seal."""

    RESERVED = "reserved"  # charged; no raw row was read
    READING = "reading"  # written before the first raw byte; may be entered again after a crash
    STAGED = "staged"  # the artefact is chosen and the release key is gone
    HELD = "held"  # a gate failed on the artefact
    PUBLISHED = "published"  # every declared sink has the artefact
    SEALED = "sealed"  # the statement is written
    ABORTED = "aborted"  # before anything was read, by decision; the charge was given back
    ABANDONED = "abandoned"  # read or held, and never to be published, by decision; the charge stands
    BURNED = "burned"  # the key leaked; the population stops


# Nothing is under way here.
ENDED = frozenset({ReleaseState.SEALED, ReleaseState.ABORTED, ReleaseState.ABANDONED, ReleaseState.BURNED})
_BURNED = frozenset({ReleaseState.BURNED})
_SUCCESSORS: dict[ReleaseState, frozenset[ReleaseState]] = {
    ReleaseState.RESERVED: frozenset({ReleaseState.READING, ReleaseState.ABORTED}) | _BURNED,
    ReleaseState.READING: frozenset({ReleaseState.READING, ReleaseState.STAGED, ReleaseState.ABANDONED})
    | _BURNED,
    ReleaseState.STAGED: frozenset({ReleaseState.HELD, ReleaseState.PUBLISHED}) | _BURNED,
    ReleaseState.HELD: frozenset({ReleaseState.HELD, ReleaseState.PUBLISHED, ReleaseState.ABANDONED})
    | _BURNED,
    ReleaseState.PUBLISHED: frozenset({ReleaseState.SEALED}) | _BURNED,
    ReleaseState.SEALED: _BURNED,
    ReleaseState.ABORTED: frozenset(),
    ReleaseState.ABANDONED: _BURNED,
    ReleaseState.BURNED: frozenset(),
}


def successors(state: ReleaseState) -> frozenset[ReleaseState]:
    """States that may be entered from `state`."""
    return _SUCCESSORS[state]


def is_name(text: str) -> bool:
    """Whether `text` is a safe path part, as the ledger names populations, releases and periods."""
    return _NAME.fullmatch(text) is not None and text not in {".", ".."}


def check_name(parameter: str, name: str) -> str:
    """`name` itself, if it is a safe path part.

    Raises:
        SpecRefused: it has other characters than `A-Z a-z 0-9 _ . -`, more than 128, or is `.` or `..`.
    """
    if not is_name(name):
        raise SpecRefused(
            "bad_name",
            f"{parameter} = {name[:200]!r} is not a name: 1 to 128 of A-Z a-z 0-9 _ . - and not '.' or '..'",
            way_out=f"choose another {parameter}",
        )
    return name


@dataclass(frozen=True, slots=True)
class ReleaseId:
    """Population, name, period and revision; its text is injective because no part may hold a slash.

    Raises:
        SpecRefused: a part is no name, or the revision is negative.
    """

    population: str
    name: str
    period_key: str
    revision: int = 0

    def __post_init__(self) -> None:
        check_name("population", self.population)
        check_name("release", self.name)
        check_name("period key", self.period_key)
        if self.revision < 0:
            raise SpecRefused(
                "bad_revision",
                f"revision = {self.revision} must be 0 or more",
                way_out="0 is the scheduled revision; count up from there",
            )

    @classmethod
    def parse(cls, text: str) -> "ReleaseId":
        """The id that reads as `text`.

        Raises:
            SpecRefused: no id does.
        """
        parts = text.split("/")
        if len(parts) == _PARTS and re.fullmatch(r"0|[1-9][0-9]{0,8}", parts[3]):
            return cls(parts[0], parts[1], parts[2], revision=int(parts[3]))
        raise SpecRefused(
            "bad_release_id",
            f"{text[:200]!r} is not the id of a release",
            way_out="write population/release/period/revision, such as nyc_planes/flights/2013-01-05/0",
        )

    def __str__(self) -> str:
        return f"{self.population}/{self.name}/{self.period_key}/{self.revision}"
