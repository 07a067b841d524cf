"""When little is left of a budget: at 20 % and at 5 %."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

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
        share: what is left of whatever is scarcest: epsilon, rho or delta of a pool, slots of a schedule.
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


def warning_of(account: Budget) -> BudgetWarning | None:
    """The warning that an account deserves."""
    share = account.share_left
    for level, threshold in _AT:
        if share <= threshold:
            return BudgetWarning(account.population, level, share)
    return None
