"""The noise of a release together with that which selects its private groups."""

import math
from collections.abc import Sequence

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import Fixed, NoiseTable, Part
from dp_spark.release.deciding import decided_noise
from dp_spark.release.plan import NoiseDecision
from dp_spark.release.selection import (
    DELTA_SHARE,
    GroupSelection,
    selecting_part,
    selecting_table,
)
from dp_spark.release.spec import ReleaseSpec, Selection, contribution_bounds

Noise = tuple[tuple[NoiseTable, ...], NoiseDecision, GroupSelection | None]


def decided_with_selection(
    spec: ReleaseSpec, parts: Sequence[Part], guarantee: PrivacyGuarantee, times: int
) -> Noise:
    """A table for each part and the reasons, and what selects private groups by noise of its own, if any.

    Where noise of an ids query selects, all noise is cut short, so that its threshold is low. Own noise is
    either the optimal selection at its share of the guarantee, or, where there are many draws and tails that
    fall faster pay, of the family of the totals, cut likewise: whichever has the lower product of noise and
    of the units that a group needs to be released.

    Raises:
        PlanRefused: no tables of a reasonable size meet the guarantee.
    """
    private = spec.groups.private
    if private is None:
        return (*decided_noise(spec.noise, parts, guarantee, times), None)
    if private.select is Selection.THRESHOLD:
        cut = float(DELTA_SHARE)
        return (*decided_noise(spec.noise, parts, guarantee, times, cut_share=cut), None)
    part = selecting_part(contribution_bounds(spec.unit, spec.bounds), spec.neighbours)
    found: list[Noise] = []
    refusals: list[PlanRefused] = []
    for decided in (_beside_optimal, _of_one_family):
        try:
            tables, decision, table = decided(spec.noise, part, parts, guarantee, times)
            selection = GroupSelection(table, part, private.min_units, shared=False)
            found.append((tables, decision, selection))
        except PlanRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return min(found, key=_cost)


def _beside_optimal(
    noise: str, part: Part, parts: Sequence[Part], guarantee: PrivacyGuarantee, times: int
) -> tuple[tuple[NoiseTable, ...], NoiseDecision, NoiseTable]:
    """The totals' noise, why, and the optimal selection's."""
    table = selecting_table(part, parts, guarantee, times)
    tables, decision = decided_noise(noise, parts, guarantee, times, fixed=[Fixed(table, part)])
    return tables, decision, table


def _of_one_family(
    noise: str, part: Part, parts: Sequence[Part], guarantee: PrivacyGuarantee, times: int
) -> tuple[tuple[NoiseTable, ...], NoiseDecision, NoiseTable]:
    """The totals' noise, why, and a selection's of the same family, cut short."""
    (*tables, table), decision = decided_noise(
        noise, [*parts, part], guarantee, times, cut_share=float(DELTA_SHARE)
    )
    return tuple(tables), decision, table


def _cost(noise: Noise) -> float:
    """Log of the units that a group needs, plus the mean log of all stds relative to what one unit moves."""
    tables, _, selection = noise
    assert selection is not None  # both ways have one
    stds = [math.log(table.std / table.sensitivity) for table in tables]
    return math.log(selection.units_for(0.5)) + sum(stds) / len(stds)
