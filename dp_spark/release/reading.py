"""Reading what an operator writes: plain YAML as texts, texts as values, and the words that refuse them."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from itertools import islice, takewhile
from numbers import Integral, Rational
from os import PathLike, fspath
from typing import Any, TypeVar, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from dp_spark.errors import SpecRefused

MAX_BYTES = 1_000_000
MAX_DEPTH = 12
MAX_SHOWN = 60
MAX_TOLD = 50
# Control characters (tab and line ends may lay out a file), other line separators, half surrogate pairs.
_UNPRINTABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[\w-]{1,64}")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,19}")
_NUMBER = re.compile(
    r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?|-?(0|[1-9][0-9]*)/[1-9][0-9]*"
)
_LARGEST_TERM = 2**1000  # a fraction of two such integers, unless 0, is not 0 as a float either

Place = tuple[str | int, ...]
V = TypeVar("V")
W = TypeVar("W", bound=StrEnum)
Tree = str | list["Tree"] | dict[str, "Tree"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in what an operator wrote.

    Attributes:
        why: what is wrong, in a few words.
        way_out: what to write instead.
        allowed: the allowed range, or empty.
        written: the value as `shown` renders it, or empty where none was written.
        at: keys and list positions that lead to the value.
    """

    why: str
    way_out: str
    allowed: str = ""
    written: str = ""
    at: Place = ()

    def under(self, *parents: str | int) -> "Problem":
        """The same problem, seen from further up."""
        return replace(self, at=(*parents, *self.at))

    def told(self) -> str:
        """The problem in one line, without its way out."""
        subject = " = ".join(filter(None, (path_text(self.at), self.written)))
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        return f"{subject}: {self.why}{allowed}" if subject else f"{self.why}{allowed}"


class Wrong(ValueError):
    """Raised while a value is read; whoever knows the whole collects the problems and refuses."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


def wrong(value: object, why: str, *, allowed: str = "", way_out: str) -> Wrong:
    """A value that is wrong in one way."""
    return Wrong(Problem(why, way_out, allowed, shown(value)))


def summary(source: str, problems: Sequence[Problem]) -> tuple[str, str]:
    """Message and way out of a refusal that names every problem."""
    if len(problems) == 1:
        return f"{source}: {problems[0].told()}", problems[0].way_out
    lines = [f"  - {problem.told()}; {problem.way_out}" for problem in problems[:MAX_TOLD]]
    number = f"{len(problems)}" if len(problems) <= MAX_TOLD else f"more than {MAX_TOLD}"
    return "\n".join([f"{source}: {number} problems", *lines]), "mend each line as it says"


def refused(code: str, source: str, problems: Sequence[Problem]) -> SpecRefused:
    """The refusal of a spec that has these problems."""
    message, way_out = summary(source, problems)
    return SpecRefused(code, message, way_out=way_out)


def shown(value: object) -> str:
    """The value as Python writes it, cut to a length that fits a line."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def path_text(at: Place) -> str:
    """A place as the operator looks for it: `queries[1].lower`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_key_text(step)}" for step in at)
    return "".join(steps).removeprefix(".")


def _key_text(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else shown(key)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    folded = {option.casefold(): option for option in known}
    close = get_close_matches(word[:100].casefold(), folded, n=1)
    return folded[close[0]] if close else None


def unknown_key(key: str, known: Sequence[str], written: str = "") -> Problem:
    """The problem of a key that nobody reads, with the nearest known one."""
    guess = nearest(key, known)
    hint = f": did you mean {guess!r}?" if guess else ""
    return Problem(
        f"unknown key {shown(key)}{hint}",
        f"write {guess} instead, or remove the key" if guess else "remove the key",
        allowed="the keys " + ", ".join(known),
        written=written,
        at=(key,),
    )


def read_text(value: object) -> str:
    """A text that is not empty and can be printed on one line."""
    if not isinstance(value, str):
        raise wrong(value, "is not a text", way_out="write one text; in Python a str")
    if not value:
        raise wrong(value, "is empty", allowed="a text of 1 to 1000 characters", way_out="write a value")
    if len(value) > 1000:
        raise wrong(value, f"has {len(value)} characters", allowed="at most 1000", way_out="shorten it")
    if _UNPRINTABLE.search(value) or set("\t\n\r") & set(value):
        allowed = "printable text on one line"
        raise wrong(value, "holds a control character", allowed=allowed, way_out="remove it")
    return str(value)


def read_normal_text(value: object) -> str:
    """A text in Unicode's composed form, so that one spelling is one value."""
    text = read_text(value)
    normal = unicodedata.normalize("NFC", text)
    if text != normal:
        raise wrong(
            text,
            "is not in Unicode form NFC, so that two spellings could stand for one group",
            allowed="text in NFC",
            way_out=f"write it composed: {shown(normal)}, that is {ascii(normal)[:MAX_SHOWN]}",
        )
    return text


def read_path(value: object) -> str:
    """A path or URL as text."""
    return read_text(fspath(value) if isinstance(value, PathLike) else value)


def read_list(value: object) -> Sequence[object]:
    """A list that is not empty."""
    if not isinstance(value, list | tuple):
        raise wrong(
            value, "is not a list", allowed="a list", way_out="write [first, second] or lines of `- `"
        )
    if not value:
        raise wrong(value, "is an empty list", allowed="1 entry or more", way_out="write at least one entry")
    return value


def read_each(entries: Iterable[tuple[str | int, object]], read: Callable[[object], V]) -> list[V]:
    """Every entry as `read` reads it; the problems of all of them at their places."""
    values: list[V] = []
    problems: list[Problem] = []
    for step, entry in entries:
        try:
            values.append(read(entry))
        except Wrong as failure:
            problems += [problem.under(step) for problem in failure.problems]
    if problems:
        raise Wrong(*problems)
    return values


def word_of(words: Iterable[W]) -> Callable[[object], W]:
    """A reader of one word of an enum, or of some of its words."""
    known = {str(word): word for word in words}
    allowed = " | ".join(known)

    def read(value: object) -> W:
        if isinstance(value, str) and value in known:
            return known[value]
        guess = nearest(value, known) if isinstance(value, str) else None
        raise wrong(value, "is not known", allowed=allowed, way_out=f"write {guess or allowed}")

    return read


def name_like(pattern: str, way_out: str) -> Callable[[object], str]:
    """A reader of names that match a pattern."""
    name = re.compile(pattern)

    def read(value: object) -> str:
        text = read_text(value)
        if not name.fullmatch(text):
            raise wrong(value, "is not a name of this form", allowed=pattern, way_out=way_out)
        return text

    return read


def whole_number(least: int, most: int) -> Callable[[object], int]:
    """A reader of whole numbers, written in plain digits."""
    allowed = f"a whole number from {least} to {most}"

    def read(value: object) -> int:
        plain = isinstance(value, str) and _WHOLE.fullmatch(value)
        number = int(cast(str, value)) if plain else value
        if not isinstance(number, Integral) or isinstance(number, bool):
            way_out = f"write digits 0-9 only, such as {least} or 10: no '_', sign, point, blank or leading 0"
            raise wrong(value, "is not a whole number", allowed=allowed, way_out=way_out)
        if not least <= int(number) <= most:
            raise wrong(value, "is out of range", allowed=allowed, way_out=f"write {allowed}")
        return int(number)

    return read


def exact_number(
    allowed: str, holds: Callable[[Fraction], bool], way_out: str, *, decimal: bool = False
) -> Callable[[object], Fraction]:
    """A reader of exact numbers for which `holds`; if `decimal`, only of those with finitely many decimals.

    A float counts as the decimal that Python prints for it.
    """

    def read(value: object) -> Fraction:
        exact = _exact(value, allowed)
        if not holds(exact):
            raise wrong(value, "is out of range", allowed=allowed, way_out=way_out)
        if decimal and 10**1000 % exact.denominator:
            raise wrong(value, "has no finite decimal", allowed=allowed, way_out="round it to a decimal")
        return exact

    return read


def _exact(value: object, allowed: str) -> Fraction:
    if isinstance(value, Rational) and not isinstance(value, bool):
        exact = Fraction(int(value.numerator), int(value.denominator))
        if max(abs(exact.numerator), exact.denominator) <= _LARGEST_TERM:
            return exact
        raise wrong(value, "has too many digits", allowed=allowed, way_out="round it")
    text = float.__repr__(value) if isinstance(value, float) else value
    text = str(text) if isinstance(text, Decimal) else text
    if isinstance(text, str) and len(text) <= 64 and _NUMBER.fullmatch(text):
        return Fraction(text)
    raise wrong(
        value,
        "is not a number",
        allowed=allowed,
        way_out="write digits 0-9, such as 0.5, 1e-6 or 1/3, without '_', ',', '+', blank, unit or leading 0 "
        "(at most 64 characters, an exponent of at most 2 digits)",
    )


def decimal_text(exact: Fraction) -> str:
    """A number with finitely many decimals as one writes it."""
    with localcontext(prec=1000):
        return format(Decimal(exact.numerator) / Decimal(exact.denominator), "f")


def read_tree(text: str, *, source: str) -> dict[str, Tree]:
    """The one mapping that a YAML text holds, every scalar as its text.

    Raises:
        SpecRefused: the text is no plain YAML (no anchors, aliases, tags, directives), holds a key twice,
            is nested too deeply, too long or empty, or is not one mapping.
    """
    _check_characters(text, source)
    twice: list[Problem] = []
    try:
        trees = list(islice(_documents(text.removeprefix("\ufeff"), twice), 2))
    except Wrong as failure:
        raise refused("spec_not_plain", source, failure.problems) from None
    except YAMLError as failure:
        raise refused("spec_not_yaml", source, [_syntax_problem(failure)]) from None
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, OverflowError):
        # The scanner itself stumbles over some malformed escapes and directives.
        raise refused(
            "spec_not_yaml", source, [Problem("is not YAML", "write plain YAML without escapes")]
        ) from None
    if twice:
        raise refused("spec_key_twice", source, twice)
    match trees:
        case [dict(tree)]:
            return tree
        case []:
            problem = Problem("is empty", "write a release; `dp-spark init` writes a first one")
        case [other]:
            problem = Problem(
                "is not a mapping", "write `release: NAME` and the other keys", "", shown(other)
            )
        case _:
            problem = Problem("holds several documents", "keep one; write each release into its own file")
    raise refused("spec_not_a_mapping", source, [problem])


def _check_characters(text: str, source: str) -> None:
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        problem = Problem("is too long", "list fewer groups", f"at most {MAX_BYTES:,} bytes")
        raise refused("spec_too_long", source, [problem])
    if found := _UNPRINTABLE.search(text, int(text.startswith("\ufeff"))):
        line = text.count("\n", 0, found.start()) + 1
        problem = Problem(f"line {line} holds the control character {found[0]!a}", "remove it")
        raise refused("spec_not_plain", source, [problem])


def _syntax_problem(failure: YAMLError) -> Problem:
    mark = failure.problem_mark if isinstance(failure, MarkedYAMLError) else None
    said = failure.problem if isinstance(failure, MarkedYAMLError) else None
    line = f"line {mark.line + 1} is not YAML" if mark else "is not YAML"
    return Problem(
        f"{line}: {said}" if said else line,
        "indent with blanks, close every bracket and quote, quote a text that holds ': ' or ' #'",
    )


def _documents(text: str, twice: list[Problem]) -> Iterator[Tree]:
    events: Iterator[Any] = iter(YAML(typ="base", pure=True).parse(text))
    for event in events:
        if isinstance(event, DocumentStartEvent):
            if event.version or event.tags:
                raise _not_plain(event, "a directive")
            yield _tree(next(events), events, (), twice)


def _tree(event: Any, events: Iterator[Any], at: Place, twice: list[Problem]) -> Tree:
    """The node that starts with `event`; its end is taken from `events`."""
    if isinstance(event, AliasEvent) or event.anchor is not None:
        raise _not_plain(event, "an anchor or an alias")
    if event.tag is not None:
        raise _not_plain(event, "a tag")
    if len(at) > MAX_DEPTH:
        raise _not_plain(event, f"a list or mapping more than {MAX_DEPTH} levels deep")
    if isinstance(event, SequenceStartEvent):
        inner = takewhile(lambda each: not isinstance(each, SequenceEndEvent), events)
        return [_tree(each, events, (*at, i), twice) for i, each in enumerate(inner)]
    if isinstance(event, MappingStartEvent):
        return _mapping(events, at, twice)
    return str(event.value)


def _mapping(events: Iterator[Any], at: Place, twice: list[Problem]) -> Tree:
    tree: dict[str, Tree] = {}
    for event in takewhile(lambda each: not isinstance(each, MappingEndEvent), events):
        if not isinstance(event, ScalarEvent):
            raise _not_plain(event, "a key that is not a text")
        key = str(_tree(event, events, at, twice))  # a scalar is its text
        if _UNPRINTABLE.search(key):
            raise _not_plain(event, "a control character in a key")
        if key in tree:
            line = event.start_mark.line + 1
            twice.append(Problem(f"line {line} writes this key again", "keep one of the two", at=(*at, key)))
        tree[key] = _tree(next(events), events, (*at, key), twice)
    return tree


def _not_plain(event: Any, what: str) -> Wrong:
    line = event.start_mark.line + 1
    return Wrong(
        Problem(
            f"line {line} holds {what}",
            "write every value out where it belongs; quote a text that starts with one of & * ! %",
            allowed="plain YAML only",
        )
    )
