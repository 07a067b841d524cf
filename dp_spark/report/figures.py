"""Numbers as people read them: few digits, thousands in groups, 1e-6 for what is small."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor, isfinite, log10

_DIGITS = 4
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e9
_LARGEST_TERM = 1000
_SHOWN_NAMES = 12


def figures(value: float | Fraction, digits: int = _DIGITS) -> str:
    """`value` to `digits` significant digits; whole numbers below 1e9 that are exact keep all of theirs."""
    if isinstance(value, int | Fraction) and value == int(value) and abs(value) < _PLAIN_BELOW:
        return f"{int(value):,}"
    number = float(value)
    if not isfinite(number) or number == 0:
        return f"{number:g}"
    rounded = float(f"{number:.{digits - 1}e}")
    if not _PLAIN_FROM <= abs(rounded) < _PLAIN_BELOW:
        return _scientific(f"{rounded:.{digits - 1}e}")
    places = max(0, digits - 1 - floor(log10(abs(rounded))))
    return _stripped(f"{rounded:,.{places}f}")


def exact(value: Fraction) -> str:
    """`value` without loss where that is short (0.2, 1e-6, 1/3), else to four digits."""
    close = figures(value, 7)
    if Fraction(close.replace(",", "")) == value:
        return close
    if 1 < value.denominator <= _LARGEST_TERM and abs(value.numerator) <= _LARGEST_TERM:
        return f"{value.numerator:,}/{value.denominator}"
    return figures(value)


def listed_names(names: Sequence[str]) -> str:
    """All of a few names, else the first ones and how many more there are."""
    more = len(names) - _SHOWN_NAMES
    first = names if more <= 1 else names[:_SHOWN_NAMES]
    return ", ".join(first) + (f" and {more:,} more" if more > 1 else "")


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _scientific(text: str) -> str:
    mantissa, exponent = text.split("e")
    return f"{_stripped(mantissa)}e{int(exponent)}"


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
