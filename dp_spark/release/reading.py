"""Readers of single values that an operator writes: texts, names, words, exact numbers, lists."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from numbers import Integral, Rational
from os import PathLike, fspath
from typing import TypeVar

from dp_spark.release.problems import MAX_SHOWN, Problem, Wrong, nearest, shown, wrong

MAX_BYTES = 1_000_000  # of one file that an operator writes
# Control characters (tab and line ends may lay out a file), other line separators, half surrogate pairs.
UNPRINTABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,19}")
_NUMBER = re.compile(
    r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?|-?(0|[1-9][0-9]*)/[1-9][0-9]*"
)
_LONGEST_RATIO = 700  # characters: every fraction that is read can be read again from its text, n/d
_LARGEST_TERM = 2**1000  # a fraction of two such integers, unless 0, is not 0 as a float either

LONGEST_TEXT = 1000  # characters

V = TypeVar("V")
W = TypeVar("W", bound=StrEnum)


def read_text(value: object) -> str:
    """A text that is not empty and can be printed on one line."""
    if not isinstance(value, str):
        raise wrong(value, "is not a text", way_out="write one text; in Python a str")
    if not value:
        raise wrong(value, "is empty", allowed="a text of 1 to 1000 characters", way_out="write a value")
    if len(value) > LONGEST_TEXT:
        raise wrong(value, f"has {len(value)} characters", allowed="at most 1000", way_out="shorten it")
    if holds_control(value):
        allowed = "printable text on one line"
        raise wrong(value, "holds a control character", allowed=allowed, way_out="remove it")
    return str(value)


def holds_control(text: str) -> bool:
    """Whether it has a character that does not stand on one line as it is."""
    return bool(UNPRINTABLE.search(text)) or bool({*"\t\n\r"} & {*text})


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
        hint = f"; {guess} is the nearest" if guess and len(known) > 1 else ""
        raise wrong(value, "is not known", allowed=allowed, way_out=f"write one of {allowed}{hint}")

    return read


def read_truth(value: object) -> bool:
    """Whether a claim holds: `true` or `false`."""
    if value not in ("true", "false", True, False) or not isinstance(value, str | bool):
        raise wrong(value, "is neither true nor false", allowed="true | false", way_out="write true or false")
    return value in ("true", True)


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
        number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
        if not isinstance(number, Integral) or isinstance(number, bool):
            way_out = f"write digits 0-9 only, such as {least} or 10: no '_', sign, point, blank or leading 0"
            raise wrong(value, "is not a whole number", allowed=allowed, way_out=way_out)
        if not least <= int(number) <= most:
            raise wrong(value, "is out of range", allowed=allowed, way_out=f"write {allowed}")
        return int(number)

    return read


def exact_number(
    allowed: str, holds: Callable[[Fraction], bool], way_out: str
) -> Callable[[object], Fraction]:
    """A reader of exact numbers for which `holds`; a float counts as the decimal that Python prints."""

    def read(value: object) -> Fraction:
        exact = _exact(value, allowed)
        if not holds(exact):
            raise wrong(value, "is out of range", allowed=allowed, way_out=way_out)
        return exact

    return read


def decimal_number(
    allowed: str, holds: Callable[[Fraction], bool], way_out: str
) -> Callable[[object], Fraction]:
    """As `exact_number`, but only of numbers with finitely many decimals."""
    read_exact = exact_number(allowed, holds, way_out)

    def read(value: object) -> Fraction:
        exact = read_exact(value)
        if 10**1000 % exact.denominator:
            raise wrong(value, "has no finite decimal", allowed=allowed, way_out="round it to a decimal")
        return exact

    return read


def _exact(value: object, allowed: str) -> Fraction:
    text = float.__repr__(value) if isinstance(value, float) else value
    text = str(text) if isinstance(text, Decimal) else text
    if isinstance(text, Rational) and not isinstance(text, bool):
        exact = Fraction(int(text.numerator), int(text.denominator))
    elif (
        isinstance(text, str)
        and len(text) <= (_LONGEST_RATIO if "/" in text else 64)
        and _NUMBER.fullmatch(text)
    ):
        exact = Fraction(text)
    else:
        raise wrong(
            value,
            "is not a number",
            allowed=allowed,
            way_out="write digits 0-9, such as 0.5, 1e-6 or 1/3, without '_', ',', '+', blank, unit or "
            "leading 0 (at most 64 characters, an exponent of at most 2 digits)",
        )
    if max(abs(exact.numerator), exact.denominator) > _LARGEST_TERM:
        raise wrong(value, "has too many digits", allowed=allowed, way_out="round it")
    return exact


def _longest(text: str) -> int:
    return _LONGEST_RATIO if "/" in text else 64
