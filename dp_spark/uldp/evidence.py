"""What counted reports say of the shares of the sensitive categories: their likelihood and its derivatives.

With S(B) the share of all people whose category lies in block B, g = e^epsilon - 1 and alpha the share of all
sensitive categories, the logarithm of the likelihood is, up to a constant,

    sum over blocks of N(B) log(1 + g S(B)) + (answers in clear) log(1 - alpha),

the non-sensitive shares being (1 - alpha) in proportion to their answers. It is concave.
"""

from dataclasses import dataclass

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.uldp.designs import Floats, Incidence
from dp_spark.uldp.estimate import Observed

_LEAST_CURVATURE = 1e-9  # of a category's own: blocks that do not tell categories apart have none
_NEWTON_STEPS = 60
_LEAST_MASS = 1e-3  # of one person; what ends there is 0


@dataclass(frozen=True, slots=True)
class Counted:
    """Blocks of one component that were reported alone: how often, and how many points each has."""

    incidence: Incidence
    counts: Floats
    sizes: Floats


@dataclass(frozen=True, slots=True)
class Slopes:
    """Derivatives of the likelihood's logarithm at some shares.

    Attributes:
        slope: (v,) the first.
        curvature: (v,) minus the second where what a share gains the others lose alike: the diagonal of the
            information less the mean of the rest of its row.
        beside: (v,) the means of the rows of the information beside its diagonal.
    """

    slope: Floats
    curvature: Floats
    beside: Floats


@dataclass(frozen=True, slots=True)
class Evidence:
    """Counted reports, as the likelihood uses them.

    Attributes:
        n_sensitive: v.
        growth: g.
        expected: n tau, of which n is the number of reports: each slope's expectation at the truth.
        blocks: those reported alone.
        answered: reports that are an answer in clear.
        n: reports in all.
    """

    n_sensitive: int
    growth: float
    expected: float
    blocks: tuple[Counted, ...]
    answered: float
    n: int

    @classmethod
    def of(cls, observed: Observed) -> "Evidence":
        """The evidence of counted reports.

        Raises:
            PlanRefused: where there is no report.
        """
        if observed.n < 1:
            raise PlanRefused(
                "no_reports",
                f"shares of {observed.n} reports; at least 1 is needed",
                way_out="wait until somebody has reported",
            )
        everywhere = np.ones(observed.n_sensitive)
        blocks = []
        for block in observed.blocks:
            sizes = block.incidence.sums(everywhere)
            counts = np.where(sizes > 0, block.alone, 0).astype(float)  # an empty block says nothing
            if counts.any():
                blocks.append(Counted(block.incidence, counts, sizes))
        return cls(
            n_sensitive=observed.n_sensitive,
            growth=observed.growth,
            expected=observed.n * observed.answer_rate,
            blocks=tuple(blocks),
            answered=float(observed.answers.sum()),
            n=observed.n,
        )

    def log_likelihood(self, shares: Floats) -> float:
        """Up to a constant, at (v,) sensitive shares."""
        blocks = sum(
            float(block.counts @ np.log1p(self.growth * block.incidence.sums(shares)))
            for block in self.blocks
        )
        return blocks + (self.answered * float(np.log1p(-shares.sum())) if self.answered else 0.0)

    def gain(self, old: Floats, new: Floats) -> float:
        """How much the logarithm of the likelihood gains by the new shares; exact where they are near."""
        total = 0.0
        for block in self.blocks:
            before = 1 + self.growth * block.incidence.sums(old)
            change = self.growth * block.incidence.sums(new - old)
            total += float(block.counts @ np.log1p(np.maximum(change / before, -1 + 1e-16)))
        if self.answered:
            rest = 1 - old.sum()
            total += self.answered * float(np.log1p(-(new - old).sum() / rest))
        return total

    def slopes(self, shares: Floats) -> Slopes:
        """First and second derivatives at (v,) sensitive shares."""
        slope, own, row = (np.zeros(self.n_sensitive) for _ in range(3))
        for block in self.blocks:
            rate = self.growth / (1 + self.growth * block.incidence.sums(shares))
            weight = block.counts * rate
            slope += block.incidence.supports(weight)
            own += block.incidence.supports(weight * rate)
            row += block.incidence.supports(weight * rate * block.sizes)
        beside = (row - own) / max(self.n_sensitive - 1, 1)
        return Slopes(slope, np.maximum(own - beside, _LEAST_CURVATURE * own), beside)

    def mass(self, shape: Floats) -> float:
        """The most likely sensitive share of all people, given the (v,) shape inside, which sums to 1."""
        if not self.answered:
            return 1.0
        rates = [(block.counts, self.growth * block.incidence.sums(shape)) for block in self.blocks]
        least = _LEAST_MASS / self.n
        mass = 0.5
        for _ in range(_NEWTON_STEPS):
            rises = [(counts, rate / (1 + mass * rate)) for counts, rate in rates]
            slope = sum(float(counts @ rise) for counts, rise in rises) - self.answered / (1 - mass)
            bend = sum(float(counts @ rise**2) for counts, rise in rises) + self.answered / (1 - mass) ** 2
            stepped = min(max(mass + slope / bend, mass / 10, least), 1 - (1 - mass) / 10)
            if abs(stepped - mass) <= 1e-14:
                break
            mass = stepped
        return mass

    def is_least(self, mass: float) -> bool:
        """Whether a mass is that of nobody."""
        return mass <= 1.01 * _LEAST_MASS / self.n
