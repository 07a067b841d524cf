"""From exact totals to private answers: fingerprint, noise for every public group, answers."""

from collections.abc import Iterator, Sequence

import numpy as np

from dp_spark.frames.bound import Integers
from dp_spark.noise import cell_ids, derive_key, encode_label, fingerprint, words
from dp_spark.queries import Estimate, Noisy, NoisyTotal, Total, one_below_another
from dp_spark.queries.smoothing import smoothed
from dp_spark.release.levels import Key
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import DrawnTotal, PlannedTotal, ReleasePlan


def noisy_totals(
    totals: Sequence[Integers],
    *,
    plan: ReleasePlan,
    window: PeriodWindow,
    release_key: bytes,
    noisy_units: Integers | None = None,
) -> list[Integers]:
    """Totals on their noise grids plus noise, in the order and shapes of `totals` (`collect_totals`).

    The same for the same key and data, on whatever machine. Where the noise of an ids query has selected the
    groups, its noisy numbers come as `noisy_units`, and are not drawn again.

    Other data gives independent noise: a keyed fingerprint of the exact totals enters every draw.
    """
    data = fingerprint(derive_key(release_key, "fingerprint"), _facts(totals, plan, window))
    noise_key = derive_key(release_key, "noise")
    ids = [cell_ids(noise_key, list(map(_label, level.keys))) for level in plan.levels]
    labels, selecting = _Labels(data), plan.selecting
    noisy = []
    for exact, drawn in zip(totals, plan.drawn, strict=True):
        planned, table = drawn.planned, drawn.planned.table
        if selecting is not None and drawn.planned is selecting.planned:
            assert noisy_units is not None  # who selects by them hands them on
            noisy.append(noisy_units)
            continue
        steps = rounded(exact, planned.grid_steps, planned.saturation)
        for place in range(planned.total.bins):
            label = labels.next(drawn, place)
            cells = steps if planned.total.bins == 1 else steps[:, place]
            cells += table.draw(words(noise_key, label, ids[drawn.level]))
        noisy.append(steps)
    return noisy


class _Labels:
    """The labels of all cells' noise, each handed out once: equal labels would be equal noise."""

    def __init__(self, data: bytes) -> None:
        self._data, self._seen = data, set[bytes]()

    def next(self, drawn: DrawnTotal, place: int) -> bytes:
        """The label of one cell of each group: the total's query and name, its level, the cell, the noise."""
        planned = drawn.planned
        label = encode_label(
            "noise",
            self._data,
            drawn.query,
            planned.total.name,
            drawn.level,
            0,
            place,
            planned.table.digest,
        )
        if label in self._seen:
            raise RuntimeError("internal error: two totals have the same label, so nothing was released")
        self._seen.add(label)
        return label


def _label(key: Key) -> bytes:
    """A group's identity; what is rolled up differs from every text."""
    return encode_label(*(0 if part is None else part for part in key))


def rounded(totals: Integers, grid_steps: int, saturation: int) -> Integers:
    """The nearest steps of the noise grid, saturated.

    Totals that differ by D come to differ by at most D / grid_steps, rounded up.
    """
    steps = (2 * totals + grid_steps) // (2 * grid_steps)
    return np.clip(steps, -saturation, saturation)


def estimates(noisy: Sequence[Integers], plan: ReleasePlan) -> list[tuple[Estimate, ...]]:
    """Each query's answers, from the noisy totals alone: of the groups, then of each coarser grouping."""
    found: dict[tuple[int, Total], Noisy] = {
        (drawn.level, drawn.planned.total): _as_noisy_total(steps, drawn.planned)
        for steps, drawn in zip(noisy, plan.drawn, strict=True)
    }
    if len(plan.levels) > 1:
        _make_consistent(found, plan)
    answers = []
    for query in plan.queries:
        of_levels = [
            query.query.estimate([found[level, planned.total] for planned in totals])
            for level, totals in enumerate(query.levels)
        ]
        answers.append(tuple(one_below_another(each) for each in zip(*of_levels, strict=True)))
    return answers


def _make_consistent(found: dict[tuple[int, Total], Noisy], plan: ReleasePlan) -> None:
    """Put least squares estimates in place of totals that a coarser grouping adds up."""
    of_group = [level.of_group for level in plan.levels]
    for query in plan.queries:
        for totals in zip(*query.levels, strict=True):
            places = [(level, planned.total) for level, planned in enumerate(totals)]
            drawn = [total for place in places if isinstance(total := found[place], NoisyTotal)]
            if places[0][1].adds_up and len(drawn) == len(places):
                found.update(zip(places, smoothed(drawn, of_group), strict=True))


def _as_noisy_total(steps: Integers, planned: PlannedTotal) -> NoisyTotal:
    return NoisyTotal(steps, planned.grid, planned.std, planned.half_width_steps)


def _facts(totals: Sequence[Integers], plan: ReleasePlan, window: PeriodWindow) -> Iterator[bytes]:
    """What the noise is a function of, besides the key: the question, the period, the exact answer."""
    yield plan.spec.digest.encode()
    yield window.start.isoformat().encode()
    if plan.listed is not None:
        yield from (encode_label(*key) for key in plan.listed)
    for exact in totals:
        yield exact.astype(">i8").tobytes()
