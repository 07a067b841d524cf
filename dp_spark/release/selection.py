"""Selecting private groups: how many units make a group's name public, and what that costs.

Noise is added to the number of units of every conceivable group, and those whose noisy number exceeds all
that noise alone can reach are released. Noise of -K..K on no units never reaches K + 1, so that groups
without units need not be looked at, and the whole is a post-processing of noisy unit counts: it costs what
these cost, the atom of infinite loss P(noise = K), which one unit alone may pass by, included.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.noise import Fixed, Laplace, NoiseTable, Part, expected_std, freeze
from dp_spark.noise.cutting import support_within
from dp_spark.noise.freezing import step_below
from dp_spark.queries import Bounds

# Of the delta: what the selection of one release may spend on groups that hardly anybody has.
DELTA_SHARE = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """Which groups a release has, by the noisy number of their units.

    Attributes:
        table: the noise.
        part: what one unit moves.
        min_units: groups of fewer units are never released: max(units - (min_units - 1), 0) gets the noise.
        shared: whether the noisy number is that of an ids query, which releases it, and is paid there.
    """

    table: NoiseTable
    part: Part
    min_units: int
    shared: bool

    @property
    def threshold(self) -> int:
        """The least noisy number, max(units - (min_units - 1), 0) plus noise, that is released."""
        return self.table.support + 1

    def probability(self, units: int) -> float:
        """How likely a group of so many units is released."""
        wanted = self.threshold - max(units - (self.min_units - 1), 0)
        return float(self.table.tail(wanted))

    def units_for(self, probability: float) -> int:
        """The least number of units at which a group is released with at least this probability."""
        low, high = 1, self.min_units + 2 * self.table.support
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.probability(middle) >= probability else (middle + 1, high)
        return low


def selecting_part(bounds: Bounds, neighbours: Neighbours) -> Part:
    """What one unit moves of the numbers of units: each of its groups by one.

    Where a unit is replaced, both units are counted in: groups are selected over rows of their own bounding,
    so that how many of them two units share there is another number than in the totals of what is selected.
    """
    return Part(1, bounds.most_groups * (2 if neighbours is Neighbours.REPLACE else 1))


def selecting_table(
    part: Part, others: Sequence[Part], guarantee: PrivacyGuarantee, horizon: int
) -> NoiseTable:
    """The noise that selects beside totals of these parts: of all laws the one that releases most.

    Half of the delta, cell by cell, and a share of epsilon like that of every other total, as simple sums or
    as zero-concentrated privacy would share it, whichever is more; what this leaves is for the totals, which
    are calibrated beside it. Geometric noise that is cut where its last value has no more than the delta is
    the optimal selection at its own (epsilon, delta) [Desfontaines, Voss, Gipson, Mandayam 2022].

    Raises:
        PlanRefused: the table would be too large.
    """
    parts = [part, *others]
    draws = sum(each.most_cells for each in parts) * horizon
    std = expected_std(parts, guarantee, horizon=horizon)
    epsilon = max(float(guarantee.epsilon) / draws, math.sqrt(2) / std)
    delta = float(guarantee.delta * DELTA_SHARE) / (part.most_cells * horizon)
    reach = math.log(1 + math.expm1(epsilon) / (2 * delta)) / epsilon  # of continuous noise; not far off
    support = support_within(max(1, math.ceil(reach) - 1))
    while _last_mass(epsilon, support) > delta:
        support = support_within(support + 1)
    return freeze(Laplace(), step_below(1 / epsilon), support, sensitivity=1, max_groups=part.most_cells)


def _last_mass(epsilon: float, support: int) -> float:
    """P(noise = support) of geometric noise of ratio e^-epsilon on -support..support."""
    inner = 1 + 2 * -math.expm1(-epsilon * support) / math.expm1(epsilon)
    return math.exp(-epsilon * support) / inner


def as_fixed(selection: GroupSelection | None) -> tuple[Fixed, ...]:
    """What totals are calibrated beside: nothing where the noise is a total's own."""
    if selection is None or selection.shared:
        return ()
    return (Fixed(selection.table, selection.part),)
