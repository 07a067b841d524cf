"""Something whose profile is known, composed with something of which only (epsilon, delta) is known."""

from collections.abc import Callable
from fractions import Fraction

from flint import ctx

from dp_spark.noise.concentrated import above
from dp_spark.rationals import ball

_BITS = 192


def beside_pair(
    profile: Callable[[Fraction], Fraction], pair: tuple[Fraction, Fraction], epsilon: Fraction
) -> Fraction:
    """An upper bound of delta at `epsilon` of both together, whatever the second one is.

    `profile` gives an upper bound of delta of the first at any epsilon >= 0, for either order of neighbours.
    With (e, d) the pair and w = e^e / (1 + e^e): d + (1 - d) (w D(epsilon - e) + (1 - w) D(epsilon + e)),
    where D(-x) = 1 - e^-x (1 - D(x)).

    Why: every (e, d)-private pair is a post-processing of the one with loss infinity of mass d and losses e
    and -e in the odds w : 1 - w. Since w > 1/2 and D falls, rounding w up errs toward more privacy.

    Source: Kairouz, Oh, Viswanath 2015, theorem 3.1 (the pair).
    """
    lost, rare = pair
    near, far = _anywhere(profile, epsilon - lost), _anywhere(profile, epsilon + lost)
    with ctx.workprec(_BITS):
        power = ball(lost).exp()
        likely = min(Fraction(1), above(power / (1 + power)))
    return min(Fraction(1), rare + (1 - rare) * (likely * near + (1 - likely) * min(near, far)))


def _anywhere(profile: Callable[[Fraction], Fraction], epsilon: Fraction) -> Fraction:
    if epsilon >= 0:
        return profile(epsilon)
    with ctx.workprec(_BITS):
        return above(1 - ball(epsilon).exp() * (1 - ball(profile(-epsilon))))
