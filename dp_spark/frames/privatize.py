"""From exact totals to private answers: fingerprint, noise for every public group, answers."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dp_spark.errors import BoundsExceeded
from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.bound import Integers
from dp_spark.frames.numbering import GROUP
from dp_spark.frames.partition import EXCESS
from dp_spark.noise import cell_ids, derive_key, encode_label, fingerprint, words
from dp_spark.queries import Estimate, NoisyTotal
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import PlannedQuery, PlannedTotal, ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL


def collect_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> Integers:
    """Exact totals of every public group, zero where it has no rows, shape (totals, groups).

    The one Spark action of a release.

    Raises:
        BoundsExceeded: a unit has more rows among those that were added up than the bounds allow.
    """
    wanted = exact_totals(frame, plan=plan, window=window, bounding_key=derive_key(release_key, "bounding"))
    found = _to_arrow(wanted)
    if np.any(found[EXCESS].to_numpy()):
        raise BoundsExceeded()
    group, groups = found[GROUP].to_numpy(), len(plan.spec.group_keys())
    names = [name for name in found.column_names if name not in (GROUP, EXCESS)]
    return np.stack([added_by_group(group, found[name].to_numpy(), groups) for name in names])


def added_by_group(group: Integers, values: Integers, groups: int) -> Integers:
    """The sums of `values`, 64 bits each, by group, within plus and minus LARGEST_TOTAL, shape (groups,).

    Added in halves of 32 bits: nothing overflows on the way.
    """
    high, low = np.zeros((2, groups), dtype=np.int64)
    np.add.at(high, group, values >> 32)
    np.add.at(low, group, values & (2**32 - 1))
    high += low >> 32
    most = LARGEST_TOTAL >> 32
    steps = (np.clip(high, -most - 1, most) << 32) + (low & (2**32 - 1))
    return np.clip(steps, -LARGEST_TOTAL, LARGEST_TOTAL)


def noisy_totals(
    totals: Integers, *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> Integers:
    """Totals on their noise grids plus noise, shape (totals, groups): the same for the same key and data.

    Other data gives independent noise: a keyed fingerprint of the exact totals enters every draw.
    """
    data = fingerprint(derive_key(release_key, "fingerprint"), _facts(totals, plan, window))
    noise_key = derive_key(release_key, "noise")
    ids = cell_ids(noise_key, [encode_label(*key) for key in plan.spec.group_keys()])
    noisy = np.empty_like(totals)
    for i, (query, planned) in enumerate(_planned(plan)):
        label = encode_label("noise", data, query.name, planned.total.name, 0, 0, 0, planned.table.digest)
        exact = rounded(totals[i], planned.grid_steps, planned.saturation)
        noisy[i] = exact + planned.table.draw(words(noise_key, label, ids))
    return noisy


def rounded(totals: Integers, grid_steps: int, saturation: int) -> Integers:
    """The nearest steps of the noise grid, saturated.

    Totals that differ by D come to differ by at most D / grid_steps, rounded up.
    """
    steps = (2 * totals + grid_steps) // (2 * grid_steps)
    return np.clip(steps, -saturation, saturation)


def estimates(noisy: Integers, plan: ReleasePlan) -> list[Estimate]:
    """Each query's answer for every group, from the noisy totals alone."""
    rows = iter(noisy)
    return [
        query.query.estimate([_as_noisy_total(next(rows), planned) for planned in query.totals])
        for query in plan.queries
    ]


def _as_noisy_total(steps: Integers, planned: PlannedTotal) -> NoisyTotal:
    return NoisyTotal(steps, planned.grid, planned.std, planned.half_width_steps)


def _planned(plan: ReleasePlan) -> Iterator[tuple[PlannedQuery, PlannedTotal]]:
    return ((query, planned) for query in plan.queries for planned in query.totals)


def _facts(totals: Integers, plan: ReleasePlan, window: PeriodWindow) -> Iterator[bytes]:
    """What the noise is a function of, besides the key: the question, the period, the exact answer."""
    yield plan.spec.digest.encode()
    yield window.start.isoformat().encode()
    yield totals.astype(">i8").tobytes()


def _to_arrow(frame: DataFrame) -> pa.Table:
    """The frame's rows on the driver; pyspark 3.5 has no `toArrow`."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    names = frame.columns
    return pa.Table.from_pandas(frame.toPandas(), preserve_index=False).select(names)
