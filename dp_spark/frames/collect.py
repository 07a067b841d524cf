"""Exact totals on the driver: the one Spark action of a release."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dp_spark.errors import BoundsExceeded
from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.bound import Integers
from dp_spark.frames.numbering import GROUP
from dp_spark.frames.partition import EXCESS
from dp_spark.noise import derive_key
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL


def collect_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> list[Integers]:
    """Exact totals of every group, zero where it has no rows, in the order of `plan.drawn`.

    Of shape (groups,), or (groups, bins) where a group has several cells. The one Spark action of a release.

    Raises:
        BoundsExceeded: a unit has more rows among those that were added up than the bounds allow.
    """
    wanted = exact_totals(frame, plan=plan, window=window, bounding_key=derive_key(release_key, "bounding"))
    found = to_arrow(wanted)
    if np.any(found[EXCESS].to_numpy()):
        raise BoundsExceeded()
    group, groups = found[GROUP].to_numpy(), len(plan.keys)
    names = [name for name in found.column_names if name not in (GROUP, EXCESS)]
    return [added_by_group(group, found[name].to_numpy(), groups) for name in names]


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


def to_arrow(frame: DataFrame) -> pa.Table:
    """The frame's rows on the driver; pyspark 3.5 has no `toArrow`."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    names = frame.columns
    return pa.Table.from_pandas(frame.toPandas(), preserve_index=False).select(names)
