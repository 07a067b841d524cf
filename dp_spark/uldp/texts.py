"""Texts that name a column or a category: one spelling each, of characters that stand on one line."""

import re
import unicodedata
from typing import TypeGuard

from dp_spark.errors import PlanRefused

LONGEST_TEXT = 1000  # characters
_SHOWN = 60
_WAY_OUT = "write a text of 1 to 1000 printable characters; what is not listed counts as the catch-all"
# Control characters, other line separators, half surrogate pairs: those that no listed group may hold.
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def normal(text: str) -> str:
    """The text in Unicode's composed form (NFC); nothing else is folded."""
    return unicodedata.normalize("NFC", text)


def could_be_listed(answer: object) -> TypeGuard[str]:
    """Whether it is a text, and not too long to be one of LONGEST_TEXT characters in NFC.

    Decomposed, a character becomes 4 at most; to compose a very long text can take very long.
    """
    return isinstance(answer, str) and len(answer) <= 4 * LONGEST_TEXT


def checked_text(parameter: str, value: object) -> str:
    """A text in NFC.

    Raises:
        PlanRefused: it is no text, empty, too long, or holds a character that does not stand on one line.
    """
    if not isinstance(value, str):
        raise PlanRefused("uldp_text", f"{parameter} = {shown(value)} is no text", way_out=_WAY_OUT)
    text = normal(value) if could_be_listed(value) else str(value)
    if not 0 < len(text) <= LONGEST_TEXT:
        raise PlanRefused(
            "uldp_text",
            f"{parameter} = {shown(text)} has {len(text):,} characters (allowed: 1 to {LONGEST_TEXT:,})",
            way_out=_WAY_OUT,
        )
    if holds_unprintable(text):
        raise PlanRefused(
            "uldp_text",
            f"{parameter} = {shown(text)} holds a control character or half a surrogate pair",
            way_out=_WAY_OUT,
        )
    return text


def holds_unprintable(text: str) -> bool:
    """Whether it has a character that does not stand on one line as it is."""
    return bool(_UNPRINTABLE.search(text))


def shown(value: object) -> str:
    """The value in ASCII as Python writes it, cut to a length that fits a line."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
