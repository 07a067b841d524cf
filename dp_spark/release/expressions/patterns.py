"""Patterns of LIKE and RLIKE that take a bounded time on every text: a part of Java's regular expressions.

Java's matcher goes back over what it has matched, so that a few quantifiers can take hours on one text, and
it overflows its stack on a repeated group. Texts are cut to a length n (`kinds.MAX_TEXT`); what is allowed
here takes a number of steps of at most a constant times n squared, without recursion.
"""

import re
from dataclasses import dataclass

from dp_spark.release.problems import Wrong, wrong

MAX_CHOICES = 1_000
MAX_UNBOUNDED = 2
_QUANTIFIER = re.compile(r"([*+?]|\{(?P<least>[0-9]{1,3})(?P<more>,(?P<most>[0-9]{1,3})?)?\})(?P<lazy>\??)")
_RANGE = re.compile("([^-])-([^-])")
_SET = re.compile("-?(?:[^-](?:-[^-])?)+-?|-")
_SPECIAL = set("\\[](){}*+?|^$.")
_ALLOWED = "characters, '.', [sets], (a|b), ^ and $, and * + ? {n,m} after a character or set"


def like_as_regex(pattern: str) -> str:
    """The regular expression that finds what LIKE matches; each part is sought once, and no more.

    The leftmost place of each part is always good enough, so its search is atomic: linear in the text.
    """
    first, *parts = pattern.split("%")
    middle = "".join(f"(?>.*?{_plain(part)})" for part in parts[:-1] if part)
    last = f".*{_plain(parts[-1])}" if parts else ""
    return rf"(?s)\A{_plain(first)}{middle}{last}\z"


def _plain(part: str) -> str:
    """A part of a LIKE pattern: `_` is any character, every other one itself."""
    return "".join("." if each == "_" else f"\\{each}" if each in _SPECIAL else each for each in part)


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern that was checked.

    Attributes:
        text: the pattern.
        groups: how many bracketed groups it has.
    """

    text: str
    groups: int


@dataclass(frozen=True, slots=True)
class _Cost:
    """How often a matcher may go back: n ** unbounded times choices."""

    unbounded: int = 0
    choices: int = 1

    def then(self, other: "_Cost") -> "_Cost":
        return _Cost(self.unbounded + other.unbounded, self.choices * other.choices)

    def instead(self, other: "_Cost") -> "_Cost":
        return _Cost(max(self.unbounded, other.unbounded), self.choices + other.choices)


def checked_regex(pattern: str) -> Regex:
    """The pattern, if it can be searched for in bounded time.

    Raises:
        Wrong: it is no pattern of ours, or may take too many steps.
    """
    reading = _Reading(pattern)
    cost, anchored = reading.alternatives(top=True)
    if reading.rest():
        raise _no_pattern(pattern, "has a bracket that is never opened")
    if cost.unbounded + (not anchored) > MAX_UNBOUNDED or cost.choices > MAX_CHOICES:
        raise wrong(
            pattern,
            "could take very many steps on some texts",
            allowed=f"{MAX_UNBOUNDED} of * and +, one of them only after ^; few of ? and {{n,m}}",
            way_out="begin with ^, drop .* at either end, or use LIKE",
        )
    return Regex(pattern, reading.groups)


def _no_pattern(pattern: str, why: str) -> Wrong:
    return wrong(pattern, why, allowed=_ALLOWED, way_out="write it so, or use LIKE")


class _Reading:
    """A pattern and how far it has been read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.groups = 0

    def rest(self) -> str:
        return self.pattern[self.at :]

    def alternatives(self, *, top: bool) -> tuple[_Cost, bool]:
        """What `a|b|c` costs, and whether all of them begin with ^."""
        cost, anchored = self._sequence(top=top)
        while self.rest().startswith("|"):
            self.at += 1
            other, too = self._sequence(top=top)
            cost, anchored = cost.instead(other), anchored and too
        return cost, anchored

    def _sequence(self, *, top: bool) -> tuple[_Cost, bool]:
        anchored = top and self.rest().startswith("^")
        self.at += anchored
        cost = _Cost()
        while (rest := self.rest()) and rest[0] not in "|)":
            if top and rest[0] == "$":
                self.at += 1
                if self.rest() and self.rest()[0] != "|":
                    raise _no_pattern(self.pattern, "has $ before its end")
                break
            cost = cost.then(self._piece(rest))
        return cost, anchored

    def _piece(self, rest: str) -> _Cost:
        if rest[0] == "(":
            return self._group(rest)
        if rest[0] == "[":
            self.at += _set_length(self.pattern, rest)
        elif rest[0] == "." or rest[0] not in _SPECIAL:
            self.at += 1
        else:
            raise _no_pattern(self.pattern, f"has {rest[0]!r} where it has no meaning")
        if self.rest()[:1] and self.rest()[0] in "*+?{":
            return self._quantifier()
        return _Cost()

    def _group(self, rest: str) -> _Cost:
        if rest.startswith("(?") or self.groups >= 9:
            raise _no_pattern(self.pattern, "has a group with options, or more than 9 groups")
        self.at += 1
        self.groups += 1
        cost, _ = self.alternatives(top=False)
        if not self.rest().startswith(")"):
            raise _no_pattern(self.pattern, "has a bracket that is never closed")
        self.at += 1
        if self.rest()[:1] and self.rest()[0] in "*+?{":
            raise _no_pattern(self.pattern, "repeats a group")
        return cost

    def _quantifier(self) -> _Cost:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if found is None:
            raise _no_pattern(self.pattern, "has { without a number of times")
        self.at = found.end()
        if self.rest()[:1] and self.rest()[0] in "*+?{":
            raise _no_pattern(self.pattern, "has two quantifiers in a row")
        if found[1][0] in "*+" or (found["more"] and not found["most"]):
            return _Cost(unbounded=1)
        if found[1] == "?":
            return _Cost(choices=2)
        least = int(found["least"])
        most = int(found["most"]) if found["more"] else least
        if most < least or most > 100:
            raise _no_pattern(self.pattern, "repeats from more to fewer times, or over 100 times")
        return _Cost(choices=most - least + 1)


def _set_length(pattern: str, rest: str) -> int:
    """The length of the set `[...]` that `rest` begins with."""
    start = 2 if rest.startswith("[^") else 1
    end = rest.find("]", start)
    inside = rest[start:end]
    backwards = any(low > high for low, high in _RANGE.findall(inside))
    if end < 0 or not inside or set("[&\\^") & set(inside) or not _SET.fullmatch(inside) or backwards:
        raise _no_pattern(pattern, "has a set that is empty, open, nested, or runs backwards")
    return end + 1
