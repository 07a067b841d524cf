"""From exact totals to private answers: fingerprint, noise for every public group, answers."""

from collections.abc import Iterator, Sequence

import numpy as np

from dp_spark.frames.bound import Integers
from dp_spark.noise import cell_ids, derive_key, encode_label, fingerprint, words
from dp_spark.queries import Estimate, NoisyTotal
from dp_spark.release.levels import Key
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import PlannedTotal, ReleasePlan


def noisy_totals(
    totals: Sequence[Integers], *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> list[Integers]:
    """Totals on their noise grids plus noise, in the order and shapes of `totals` (`collect_totals`).

    The same for the same key and data, on whatever machine.

    Other data gives independent noise: a keyed fingerprint of the exact totals enters every draw.
    """
    data = fingerprint(derive_key(release_key, "fingerprint"), _facts(totals, plan, window))
    noise_key = derive_key(release_key, "noise")
    ids = [cell_ids(noise_key, list(map(_label, level.keys))) for level in plan.levels]
    noisy = []
    for exact, drawn in zip(totals, plan.drawn, strict=True):
        planned, table = drawn.planned, drawn.planned.table
        steps = rounded(exact, planned.grid_steps, planned.saturation)
        for place in range(planned.total.bins):
            label = encode_label(
                "noise", data, drawn.query, planned.total.name, drawn.level, 0, place, table.digest
            )
            cells = steps if planned.total.bins == 1 else steps[:, place]
            cells += table.draw(words(noise_key, label, ids[drawn.level]))
        noisy.append(steps)
    return noisy


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
    """Each query's answers for every group, from the noisy totals alone."""
    found = {
        (drawn.level, drawn.planned.total): _as_noisy_total(steps, drawn.planned)
        for steps, drawn in zip(noisy, plan.drawn, strict=True)
    }
    return [
        query.query.estimate([found[0, planned.total] for planned in query.totals]) for query in plan.queries
    ]


def _as_noisy_total(steps: Integers, planned: PlannedTotal) -> NoisyTotal:
    return NoisyTotal(steps, planned.grid, planned.std, planned.half_width_steps)


def _facts(totals: Sequence[Integers], plan: ReleasePlan, window: PeriodWindow) -> Iterator[bytes]:
    """What the noise is a function of, besides the key: the question, the period, the exact answer."""
    yield plan.spec.digest.encode()
    yield window.start.isoformat().encode()
    for exact in totals:
        yield exact.astype(">i8").tobytes()
