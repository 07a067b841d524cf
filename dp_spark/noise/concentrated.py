"""From zCDP to (epsilon, delta), and back to the largest rho that a pair allows; certified by balls."""

import math
from fractions import Fraction

from flint import arb, ctx
from scipy.optimize import minimize_scalar

from dp_spark.noise.demand import checked_delta, checked_epsilon
from dp_spark.rationals import ball

_BITS = 128
_SEARCH = 200


def zcdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """An upper bound of delta at `epsilon` > 0 of whatever is rho-zCDP.

    delta = exp((alpha - 1) (alpha rho - epsilon)) (1 - 1 / alpha)^alpha / (alpha - 1), for the alpha > 1 of
    the least of these, near enough; each alpha gives a valid bound, and a ball rounds it up.

    Source: Canonne, Kamath, Steinke 2020, corollary 13.
    """
    if rho <= 0:
        return Fraction(0)
    alpha = 1 + Fraction(math.exp(_best_log_order(float(rho), float(epsilon))))
    with ctx.workprec(_BITS):
        order = ball(alpha)
        log = (order - 1) * (order * ball(rho) - ball(epsilon)) + order * (1 - 1 / order).log()
        return min(Fraction(1), above((log - (order - 1).log()).exp()))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho whose `zcdp_delta` at `epsilon` is at most `delta`, within a relative 1e-6 of the largest.

    Raises:
        PlanRefused: a parameter is out of range.
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    low, high = 0.0, float(epsilon) + 1.0
    while zcdp_delta(Fraction(high), epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(_SEARCH):
        middle = (low + high) / 2
        if zcdp_delta(Fraction(middle), epsilon) <= delta:
            low = middle
        else:
            high = middle
        if high - low <= 1e-7 * high:
            break
    return Fraction(low)


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon whose `zcdp_delta` is at most `delta`, to six digits of the least; 0 where rho is 0."""
    if rho <= 0:
        return Fraction(0)
    low, high = 0.0, float(rho) + 1.0
    while zcdp_delta(rho, Fraction(high)) > delta:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if zcdp_delta(rho, Fraction(middle)) <= delta else (middle, high)
    return Fraction(high)


def above(value: arb) -> Fraction:
    """The upper end of a ball, exactly."""
    mantissa, exponent = value.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _best_log_order(rho: float, epsilon: float) -> float:
    """log(alpha - 1) where the bound is about least."""

    def log_bound(log_order: float) -> float:
        above_one = math.exp(log_order)
        alpha = 1 + above_one
        return above_one * (alpha * rho - epsilon) - log_order + alpha * math.log1p(-1 / alpha)

    centre = math.log(max(epsilon / (2 * rho), 1e-6))
    return float(minimize_scalar(log_bound, bounds=(centre - 8, centre + 4), method="bounded").x)
