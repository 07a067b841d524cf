"""When little is left of a budget: at 20 % and at 5 %."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.release.ledger.accounts import Budget


class Level(StrEnum):
    """How little is left."""

    LOW = "low"
    CRITICAL = "critical"


_AT = ((Level.CRITICAL, Fraction(5, 100)), (Level.LOW, Fraction(20, 100)))  # the worst first


@dataclass(frozen=True, slots=True)
class BudgetWarning:
    """Little is left of a population's budget.

    Attributes:
        share: what is left of the limit, in epsilon or delta, whichever is scarcer.
    """

    population: str
    level: Level
    share: Fraction

    def __str__(self) -> str:
        return f"{self.level}: {float(self.share):.1%} of the budget of {self.population} is left"

    def as_json(self) -> dict[str, str | float]:
        """The warning for machines."""
        return {
            "population": self.population,
            "level": self.level.value,
            "share_left": float(self.share),
        }


def share_left(account: Budget) -> Fraction:
    """What is left of the limit, in epsilon or delta, whichever is scarcer."""
    epsilon = account.left.epsilon / account.limit.epsilon
    return min(epsilon, account.left.delta / account.limit.delta) if account.limit.delta else epsilon


def warning_of(account: Budget) -> BudgetWarning | None:
    """The warning that an account deserves."""
    share = share_left(account)
    for level, threshold in _AT:
        if share <= threshold:
            return BudgetWarning(account.population, level, share)
    return None


def releases_that_fit(account: Budget, charge: PrivacyGuarantee) -> int:
    """How many more releases of one charge the account admits."""
    left = account.left
    fits = left.epsilon // charge.epsilon
    return int(min(fits, left.delta // charge.delta) if charge.delta else fits)
