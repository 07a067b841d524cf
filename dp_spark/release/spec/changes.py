"""What differs between two specs of one release or survey, in the words of their keys: all is public."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from dp_spark.rationals import decimal
from dp_spark.release.problems import Place, path_text, shown
from dp_spark.uldp import Domain

_ABSENT = object()
_NUMBER = re.compile(r"-?\d+/[1-9]\d*")  # of the canonical form
_MOST_NAMES, _MOST_CHANGES = 4, 12


def spec_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What is otherwise in `now`, a line for each key: `epsilon: 1 instead of 0.5`.

    Both are canonical JSON, read. No more than a dozen lines, and how many more there are.
    """
    changes = tuple(_changes(before, now, ()))
    more = len(changes) - _MOST_CHANGES
    return changes if more <= 0 else (*changes[:_MOST_CHANGES], f"and {more:,} more")


def domain_changes(before: Domain, now: Domain) -> tuple[str, ...]:
    """What is otherwise in `now`: categories of each column, then flags of the cells that both have."""
    if before.columns != now.columns:
        return (f"answer: {_written([*now.columns])} instead of {_written([*before.columns])}",)
    lists = zip(now.columns, before.categories, now.categories, strict=True)
    members = ((f"categories of {shown(column)}", _members(old, new)) for column, old, new in lists)
    told = [f"{what}: {', '.join(each)}" for what, each in members if each]
    moved = _moved(_flags_of(before), _flags_of(now))
    return (*told, f"flags: {moved}") if moved else tuple(told)


def _flags_of(domain: Domain) -> dict[str, bool]:
    """Whether each cell is sensitive, by its texts."""
    return {" / ".join(cell): code < domain.n_sensitive for code, cell in enumerate(domain.cells)}


def _changes(before: Any, now: Any, at: Place) -> Iterator[str]:
    if before == now:
        return
    kinds = _kind(before), _kind(now)
    if kinds == ("flags", "flags"):
        moved = _moved(before, now)
        yield _line(at, ", ".join([*_members(before, now), *([moved] if moved else [])]))
    elif kinds == ("texts", "texts"):
        found = _members(map(_name, before), map(_name, now))
        yield _line(at, ", ".join(found) or "in another order")
    elif kinds == ("named", "named"):
        yield from _changes(_by_name(before), _by_name(now), at)
    elif kinds == ("parts", "parts"):
        for i, (old, new) in enumerate(zip_longest(before, now, fillvalue=_ABSENT)):
            yield from _changes(old, new, (*at, i))
    elif {*kinds} <= {"mapping", "flags"}:
        for key in sorted({*before, *now}):
            yield from _changes(before.get(key, _ABSENT), now.get(key, _ABSENT), (*at, key))
    else:
        yield _line(at, f"{_written(now)} instead of {_written(before)}")


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "flags" if value and all(isinstance(flag, bool) for flag in value.values()) else "mapping"
    if isinstance(value, list):
        if value and all(isinstance(each, Mapping) and "name" in each for each in value):
            return "named"
        return "parts" if any(isinstance(each, Mapping) for each in value) else "texts"
    return "value"


def _by_name(parts: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {part["name"]: part for part in parts}


def _name(member: Any) -> Any:
    """A member of a list; a key of several columns as one text."""
    return " / ".join(map(str, member)) if isinstance(member, list) else member


def _line(at: Place, told: str) -> str:
    return f"{path_text(at)}: {told}"


def _members(before: Iterable[Any], now: Iterable[Any]) -> list[str]:
    """How many were added and removed, and the first of them."""
    old, new = dict.fromkeys(before), dict.fromkeys(now)
    found = {
        "added": [each for each in new if each not in old],
        "removed": [each for each in old if each not in new],
    }
    return [f"{len(names):,} {what} ({_some(names)})" for what, names in found.items() if names]


def _moved(before: Mapping[str, bool], now: Mapping[str, bool]) -> str:
    """How many that both have are sensitive in one of them only, and the first of those; or empty."""
    moved = [text for text, flag in now.items() if before.get(text, flag) != flag]
    into = [text for text in moved if now[text]]
    out = [text for text in moved if not now[text]]
    ways = {"became sensitive": into, "no longer sensitive": out}
    return ", ".join(f"{len(names):,} {way} ({_some(names)})" for way, names in ways.items() if names)


def _some(names: Sequence[Any]) -> str:
    more = len(names) - _MOST_NAMES
    told = ", ".join(map(shown, names[:_MOST_NAMES]))
    return told if more <= 0 else f"{told} and {more:,} more"


def _written(value: Any) -> str:
    if value is _ABSENT:
        return "none"
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return decimal(Fraction(value))
    return shown(value)
