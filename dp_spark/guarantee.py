"""The words that every room shares: a guarantee, the unit it protects, what neighbours are."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Neighbours(StrEnum):
    """Which pairs of inputs the guarantee makes hard to tell apart."""

    ADD_REMOVE = "add_remove"  # one unit with all its rows is added or removed


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Whom the guarantee protects: all rows that share one value of `column`."""

    column: str


@dataclass(frozen=True, slots=True)
class PrivacyGuarantee:
    """(epsilon, delta) as exact fractions, so that ten times 0.1 is 1.

    Raises:
        ValueError: epsilon is not positive, or delta lies outside [0, 1).
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon = {self.epsilon} must be positive")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta = {self.delta} must lie in [0, 1)")

    def share(self, parts: int) -> "PrivacyGuarantee":
        """One of `parts` equal shares; basic composition of all of them gives this guarantee back."""
        return PrivacyGuarantee(self.epsilon / parts, self.delta / parts)
