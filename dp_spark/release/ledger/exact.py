"""Exact fractions as text: `n/d` for the database, decimals for people."""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, Context, Decimal, Inexact
from fractions import Fraction

_DIGITS = 12


def encode(value: Fraction) -> str:
    """`value` as `n/d` in lowest terms."""
    return f"{value.numerator}/{value.denominator}"


def decode(text: str) -> Fraction:
    """The fraction that `encode` wrote."""
    return Fraction(text)


def show(value: Fraction, *, rounding: str = ROUND_DOWN) -> str:
    """`value` as a decimal, after the word `about` where 12 digits do not hold it."""
    context = Context(prec=_DIGITS, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    inexact = context.flags[Inexact]
    decimal = context.normalize(quotient)
    plain = -7 <= decimal.adjusted() < _DIGITS
    text = f"{decimal:f}" if plain else str(decimal)
    return f"about {text}" if inexact else text
