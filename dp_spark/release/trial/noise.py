"""The noise that a spec's totals would get, searched for in floats: nothing is planned."""

import math
from collections import Counter
from collections.abc import Sequence

from dp_spark.noise import Part, expected_variance
from dp_spark.queries import Total
from dp_spark.release.deciding import families_of
from dp_spark.release.pricing import Form, forms_of, part_of
from dp_spark.release.spec import ReleaseSpec

# An overlap is rounded up to this share of the sensitivity, so that one search serves many clamps.
_OVERLAP_STEPS = 16


class NoiseSearch:
    """Standard deviations of noise; in units of the sensitivity they depend on few numbers, and are kept."""

    def __init__(self) -> None:
        self._variances: dict[frozenset[tuple[Part, int]], float] = {}

    def stds(self, spec: ReleaseSpec, needed: Sequence[Sequence[Total]]) -> dict[Total, float]:
        """The std of each total of the release's own groups, in value; `needed` has those of each level.

        What a selection of private groups takes of the guarantee is left out.

        Raises:
            PlanRefused: as in `expected_variance`, or the guarantee comes from the budget.
        """
        places = list(dict.fromkeys((level, total) for level, each in enumerate(needed) for total in each))
        forms = [
            [forms_of(total)[-1 if gathered else 0] for _, total in places] for gathered in (False, True)
        ]
        found = [self._priced(places, each, spec) for each in (forms if forms[0] != forms[1] else forms[:1])]
        best = min(found, key=lambda stds: sum(map(math.log, stds)))
        return {total: std for (level, total), std in zip(places, best, strict=True) if level == 0}

    def _priced(
        self, places: Sequence[tuple[int, Total]], forms: Sequence[Form], spec: ReleaseSpec
    ) -> list[float]:
        parts = [
            part_of(total, form, 1, spec.neighbours, apart=level > 0)
            for (level, total), form in zip(places, forms, strict=True)
        ]
        relative = math.sqrt(self._variance(list(map(_unit_part, parts)), spec))
        return [
            relative * part.sensitivity * float(total.step)
            for part, (_, total) in zip(parts, places, strict=True)
        ]

    def _variance(self, parts: Sequence[Part], spec: ReleaseSpec) -> float:
        key = frozenset(Counter(parts).items())
        if key not in self._variances:
            families = families_of(spec.noise)
            self._variances[key] = expected_variance(parts, spec.stated_guarantee, families=families)
        return self._variances[key]


def _unit_part(part: Part) -> Part:
    """A part that gets the same noise relative to its sensitivity, or a little more."""
    if part.overlap is None:
        return Part(1, part.cells)
    steps = min(part.sensitivity, _OVERLAP_STEPS)
    return Part(steps, part.cells, overlap=-(-part.overlap * steps // part.sensitivity))
