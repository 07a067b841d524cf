"""Exact decimals as text."""

from decimal import Decimal, localcontext
from fractions import Fraction


def decimal_text(exact: Fraction) -> str:
    """A number with finitely many decimals as one writes it."""
    with localcontext(prec=1000):
        return format(Decimal(exact.numerator) / Decimal(exact.denominator), "f")
