"""Exact rational parameters: from what a user gives, as the text of a name, and as a ball."""

import math
from fractions import Fraction

from flint import arb, fmpq

from dp_spark.errors import PlanRefused


def exact(parameter: str, value: Fraction | float) -> Fraction:
    """`value` as a fraction; a float means its shortest decimal.

    Raises:
        PlanRefused: it is not a finite number.
    """
    is_number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise PlanRefused(
            "not_a_number", f"{parameter} = {value!r} is not a number", way_out="give a finite number"
        )
    return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)


def decimal(value: Fraction) -> str:
    """The finite decimal of `value` if there is one, else a / b."""
    places = 0
    rest = value.denominator
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest, count = rest // prime, count + 1
        places = max(places, count)
    if rest > 1 or value < 0 or places == 0:
        return str(value)
    digits = str(value.numerator * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def ball(value: Fraction) -> arb:
    """A ball that contains `value`, at the precision of the context."""
    return arb(fmpq(value.numerator, value.denominator))
