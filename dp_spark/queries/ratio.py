"""ratio: one noisy total over another, with Fieller's interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from dp_spark.queries.count import Count
from dp_spark.queries.fieller import Term, ratio_estimate
from dp_spark.queries.ids import Ids
from dp_spark.queries.measure import Answer, Bounds, DerivedEstimate, Noisy, Total
from dp_spark.queries.sum import Sum
from dp_spark.queries.values import Values

Countable: TypeAlias = Count | Values | Sum | Ids


@dataclass(frozen=True, slots=True)
class Ratio:
    """A query of one total over another, both of which the release asks by themselves.

    It has no total of its own: equal totals are drawn once.

    Attributes:
        numerator: the one query.
        denominator: the other.
        lower: the least value of the ratio, known to everybody.
        upper: the largest.
        says: the ratio in words.
    """

    numerator: Countable
    denominator: Countable
    lower: Fraction
    upper: Fraction
    says: str = "ratio"

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        return (Answer("", self.says, None),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The numerator's total, then the denominator's."""
        return self.numerator.totals(bounds) + self.denominator.totals(bounds)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate]:
        """Ratio, std by the delta method, and Fieller's interval, all within the public bounds.

        Nothing is divided by less than one integer of the denominator. Where a denominator can be negative,
        both signs are turned if it is.
        """
        top, bottom = noisy
        if self._turns:
            sign = np.where(bottom.values < 0, -1.0, 1.0)
            top, bottom = (Term(sign * each.values, each.std, each.factor) for each in noisy)
        answer = ratio_estimate(
            top,
            bottom,
            least_bottom=self._least_denominator,
            offset=0.0,
            low=float(self.lower),
            high=float(self.upper),
        )
        return (answer,)

    @property
    def _turns(self) -> bool:
        return isinstance(self.denominator, Sum) and self.denominator.of.lower < 0

    @property
    def _least_denominator(self) -> float:
        (total,) = self.denominator.totals(Bounds(1, 1, 1))
        return float(total.step)
