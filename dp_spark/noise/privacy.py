"""The one-coordinate theorem: delta of a shift, its inverses, and the least scale, for continuous noise.

One number is released as q + scale X, X the standard member of a family; a neighbour moves q by at most the
sensitivity, that is X by shift = sensitivity / scale. With psi from exp(-psi), the density of X,

    t = sup { x : psi(x - shift) - psi(x) >= epsilon }
    delta(epsilon; shift) = F(t) - e^epsilon F(t - shift)

is necessary and sufficient, and increases with the shift. These are floats: they choose and compare noise;
what is promised of a release is certified on its integer table.

Source: Vinterbo, arXiv 2202.11393v3, Lemmas 1 and 2.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from dp_spark.errors import PlanRefused
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic, Subbotin, TruncatedLaplace
from dp_spark.noise.laws import log_cdf, log_difference

_LEAST_LOG = -800.0  # below the log of the least positive float
_SLACK = 2.0**-40  # relative; more than delta and its inverses lose to rounding
_ROOT = 1e-15
_RTOL = 2.0**-50
_STEPS = 1000
_NARROW = 1e-3  # of the support: below, shift - end loses digits of the shift

Number = Fraction | float


def privacy_delta(family: Family, shift: Number, epsilon: Number) -> float:
    """The least delta at `epsilon` >= 0 if a neighbour moves the standard member by `shift` >= 0.

    Zero only where it is zero: a delta below the least positive float is that float.

    Raises:
        PlanRefused: a parameter is out of range.
    """
    log = log_privacy_delta(family, _checked("shift", shift), _checked("epsilon", epsilon))
    return max(math.exp(log), math.ulp(0.0)) if log > -math.inf else 0.0


def privacy_epsilon(family: Family, shift: Number, delta: Number) -> float:
    """The least epsilon >= 0 whose delta is at most `delta`, rounded up by 1e-12 shift; inf if there is none.

    Raises:
        PlanRefused: a parameter is out of range.
    """
    shift, delta = _checked("shift", shift), _checked_delta(delta)
    if delta == 0:
        return family.slope * shift if shift else 0.0
    match _plain(family):
        case Laplace():
            return max(0.0, shift * (1 + _SLACK) + 2 * math.log1p(-delta))
        case Logistic():
            kept = 1 - math.sqrt(-delta * math.expm1(-shift))
            return max(0.0, shift * (1 + _SLACK) + 2 * math.log(kept))
    return _searched_epsilon(family, shift, math.log(delta))


def least_scale(family: Family, epsilon: Number, delta: Number, sensitivity: Number) -> float:
    """The least scale at which noise of this family meets (epsilon, delta), rounded up by 1e-12 of itself.

    Linear in `sensitivity`.

    Raises:
        PlanRefused: a parameter is out of range, or delta = 0 and no scale of this family reaches it.
    """
    epsilon, delta = _checked("epsilon", epsilon), _checked_delta(delta)
    sensitivity = _checked("sensitivity", sensitivity)
    if delta == 0:
        _require_bounded_ratio(family, epsilon)
    return sensitivity * ((1 + _SLACK) / largest_shift(family, epsilon, delta))


def largest_shift(family: Family, epsilon: float, delta: float) -> float:
    """The supremum of the shifts with delta(epsilon; shift) <= delta; closed forms where there are any."""
    if delta == 0:
        return epsilon / family.slope
    match _plain(family):
        case Laplace():
            return epsilon - 2 * math.log1p(-delta)
        case Logistic():
            root = math.sqrt(-delta * math.expm1(math.log1p(-delta) - epsilon))
            return epsilon + 2 * (math.log1p(root) - math.log1p(-delta))
    return searched_shift(family, epsilon, delta, log_privacy_delta)


def log_privacy_delta(family: Family, shift: float, epsilon: float) -> float:
    """The log of delta(epsilon; shift), by the closed form where there is one; -inf where delta is 0."""
    if shift == 0 or family.slope * shift <= epsilon:
        return -math.inf
    match _plain(family):
        case Laplace():
            return _log_excess(shift - epsilon)
        case Logistic():
            return 2 * _log_excess(shift - epsilon) - math.log(-math.expm1(-shift))
        case Gaussian():
            return _log_delta_below(family, shift / 2 - epsilon / shift, shift, epsilon)
        case TruncatedLaplace() as truncated:
            return _truncated_laplace(truncated, shift, epsilon)
    return generic_log_delta(family, shift, epsilon)


def generic_log_delta(family: Family, shift: float, epsilon: float) -> float:
    """The same for any family, from psi and the cdf alone.

    In log space; the difference of the two terms is off by about 1e-15 abs(log F(t)) F(t). Where t lies so
    far out that F(t) is no positive float, F(t) itself is returned: it is an upper bound.
    """
    if shift == 0 or family.slope * shift <= epsilon:
        return -math.inf
    t = _threshold(family, shift, epsilon)
    if t == shift - family.end:
        return _log_end_mass(family, shift)
    return _log_delta_below(family, t, shift, epsilon)


def searched_shift(
    family: Family, epsilon: float, delta: float, log_delta_of: Callable[[Family, float, float], float]
) -> float:
    """The largest shift with log_delta_of(family, shift, epsilon) <= log delta, delta > 0, by root search."""

    def excess(log_shift: float) -> float:
        return max(log_delta_of(family, math.exp(log_shift), epsilon), _LEAST_LOG) - math.log(delta)

    low = high = math.log(epsilon / family.slope) if epsilon and family.slope < math.inf else 0.0
    step = 2.0**-10
    while excess(high) <= 0:
        low, high, step = high, high + step, 2 * step
    step = 2.0**-10
    while excess(low) > 0:
        low, high, step = low - step, low, 2 * step
    root = brentq(excess, low, high, xtol=_ROOT, rtol=_RTOL, maxiter=_STEPS)
    return math.exp(_stepped(root, -_ROOT, lambda log_shift: excess(log_shift) <= 0))


def _searched_epsilon(family: Family, shift: float, log_delta: float) -> float:
    def excess(epsilon: float) -> float:
        return max(log_privacy_delta(family, shift, epsilon), _LEAST_LOG) - log_delta

    if excess(0.0) <= 0:
        return 0.0
    if family.end < math.inf and _log_end_mass(family, shift) > log_delta:
        return math.inf
    high = shift
    while excess(high) > 0:
        high *= 2
    root = brentq(excess, 0.0, high, xtol=_ROOT * shift, rtol=_RTOL, maxiter=_STEPS)
    return _stepped(root, _ROOT * high, lambda epsilon: excess(epsilon) <= 0) + _SLACK * shift


def _stepped(start: float, step: float, meets: Callable[[float], bool]) -> float:
    """The first of start, start + step, start + 3 step, ... that meets what is asked."""
    while not meets(start):
        start, step = start + step, 2 * step
    return start


def _threshold(family: Family, shift: float, epsilon: float) -> float:
    """t, at which the privacy loss psi(x - shift) - psi(x), which falls in x, leaves epsilon."""

    def excess(x: float) -> float:
        neighbour, own = family.psi(np.array([x - shift, x]))
        return float(neighbour - own) - epsilon

    middle, low = shift / 2, shift - family.end
    if low > -math.inf:  # to the left of `low` the loss is infinite
        if low >= middle or excess(low) <= 0:
            return min(low, family.end)
    else:
        step = 1.0
        while excess(low := middle - step) < 0:
            if family.log_cdf(np.array([low]))[0] < _LEAST_LOG:
                return low
            step *= 2
    return float(brentq(excess, low, middle, xtol=_ROOT, rtol=_RTOL, maxiter=_STEPS))


def _log_delta_below(family: Family, t: float, shift: float, epsilon: float) -> float:
    below, neighbour = family.log_cdf(np.array([t, t - shift]))
    if below < _LEAST_LOG:
        return float(below)
    return log_difference(float(below), epsilon + float(neighbour))


def _log_end_mass(family: Family, shift: float) -> float:
    """The log of F(shift - end), the mass that a neighbour can never draw.

    A small shift would be lost in shift - end, so there the density is integrated.
    """
    if shift > _NARROW * family.end:
        return log_cdf(family, shift - family.end)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    densities = np.exp(family.log_density((nodes + 1) * shift / 2 - family.end))
    return math.log(shift / 2) + math.log(max(float(weights @ densities), math.ulp(0.0)))


def _truncated_laplace(family: TruncatedLaplace, shift: float, epsilon: float) -> float:
    """Laplace loss inside, plus the mass beyond the neighbour's end.

    A = cut: the threshold is the larger of shift - A and that of Laplace noise. If it is the former, delta
    is F(shift - A), (e^shift - 1) / (2 (e^A - 1)) for shift <= A; else
    (2 (1 - e^(-(shift - epsilon) / 2)) + (e^epsilon - 1) e^-A) / (2 (1 - e^-A)).
    """
    if shift <= min(epsilon, family.end):
        return shift + math.log(-math.expm1(-shift)) - family.end - family.log_normaliser
    if shift <= epsilon or shift - family.end >= (shift - epsilon) / 2:
        return log_cdf(family, shift - family.end)
    inside = math.log(2) + _log_excess(shift - epsilon)
    outside = epsilon - family.end + (math.log(-math.expm1(-epsilon)) if epsilon else -math.inf)
    return float(np.logaddexp(inside, outside)) - family.log_normaliser


def _log_excess(gap: float) -> float:
    """The log of 1 - e^(-gap / 2), gap > 0."""
    return math.log(-math.expm1(-gap / 2))


def _plain(family: Family) -> Family:
    return Laplace() if isinstance(family, Subbotin) and family.p == 1 else family


def _require_bounded_ratio(family: Family, epsilon: float) -> None:
    if epsilon == 0:
        raise PlanRefused(
            "delta_range", "epsilon = 0 with delta = 0 allows no release", way_out="give epsilon or delta"
        )
    if family.slope == math.inf:
        why = (
            "its likelihood ratio between neighbours has no bound, so its least scale grows without limit"
            " as delta goes to 0"
            if family.end == math.inf
            else "it has values that a neighbour can never draw, whatever its scale"
        )
        raise PlanRefused(
            "delta_range",
            f"delta = 0 is out of reach of {family.name} noise: {why} (Vinterbo 2022, Theorem 6)",
            way_out="take laplace or logistic noise, or delta > 0, well below 1 / number of units",
        )


def _checked(name: str, value: Number) -> float:
    if not 0 <= value < math.inf or (name == "sensitivity" and value == 0):
        raise PlanRefused(
            f"{name}_range",
            f"{name} = {value} must be finite and not negative",
            way_out=f"give a positive {name}",
        )
    return float(value)


def _checked_delta(delta: Number) -> float:
    if not 0 <= delta < 1:
        raise PlanRefused(
            "delta_range",
            f"delta = {delta} must lie in [0, 1)",
            way_out="give a delta well below 1 / number of units",
        )
    return float(delta)
