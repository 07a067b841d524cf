"""How the losses of several cells and of several queries add up."""

from collections.abc import Iterable
from fractions import Fraction

from dp_spark.guarantee import PrivacyGuarantee


def dominating_shift(sensitivity: int, max_groups: int) -> int:
    """The shift of one coordinate that costs at least as much as all cells that a unit can move.

    Claim: independent, identically distributed, symmetric log-concave noise on the integers, shifts with
    sum of abs(d_i) <= D: the product is dominated, at every epsilon, by one coordinate shifted by D.
    Here at most `max_groups` cells move by at most `sensitivity` steps each, so D is their product.

    Precondition: symmetric and log-concave, which the families and truncation at -K, K guarantee; a frozen
    table departs from it by at most one unit per entry, and `NoiseTable.privacy_delta` adds what that costs.

    Why: likelihood ratios are monotone, so one nest of threshold tests is optimal for every shift and the
    trade-off functions satisfy T_{a+b} = T_a o (1 - T_b); the hybrid argument, one coordinate at a time,
    bounds the product by that composition. Signs do not matter: reflect coordinates.
    """
    return sensitivity * max_groups


def basic_sum(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
    """The exact sum of the epsilons and of the deltas; holds for adaptively chosen releases as well.

    Raises:
        ValueError: there is nothing to add, or the deltas reach 1 (no guarantee is left).
    """
    terms = list(guarantees)
    return PrivacyGuarantee(
        epsilon=sum((term.epsilon for term in terms), start=Fraction(0)),
        delta=sum((term.delta for term in terms), start=Fraction(0)),
    )
