"""Whether coarser groups of a release are the sums of its groups, within what their noise explains."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_spark.noise.sums import Drawn, sum_bound
from dp_spark.queries.smoothing import is_smoothed
from dp_spark.release.levels import Level
from dp_spark.release.plan import PlannedTotal, ReleasePlan
from dp_spark.release.spec import GROUPING_COLUMN

_UNLIKELY = 1e-9  # how often a release may be held although nothing is wrong
_ROUNDING = 1e-9  # of a sum, as a share of what is summed
_STDS = 1e-6  # and as a share of the noise


@dataclass(frozen=True, slots=True)
class Sums:
    """One column that adds up to one coarser grouping.

    Attributes:
        value: the column.
        keeps: the columns of group_by that the grouping keeps.
        mask: its `grouping_id`.
        within: how far a coarser group may be from the sum of its groups, beside rounding.
    """

    value: str
    keeps: tuple[str, ...]
    mask: int
    within: float

    @property
    def columns(self) -> tuple[str, ...]:
        """What `add_up` looks at, in its order."""
        return (self.value, GROUPING_COLUMN, *self.keeps)

    @property
    def bound(self) -> str:
        """The rest of what it looks at, as text."""
        return f"{self.mask} {self.within!r}"


def sums_of(plan: ReleasePlan) -> Iterator[Sums]:
    """Everything that adds up in a release of this plan, where that is known.

    Totals of rows that are made consistent add up but for rounding. Those that stay as drawn do within the
    noise of both sides, but for one release in 10^9; of groups that were selected the others are not there,
    so that nothing is known.
    """
    levels = plan.levels
    smoothed = is_smoothed([level.of_group for level in levels])
    if not levels[0].keys or (plan.selection is not None and not smoothed):
        return
    found = [
        (f"{query.name}{answer.suffix}", [totals[answer.total] for totals in query.levels])
        for query in plan.queries
        for answer in query.query.answers
        if query.rolled and answer.total is not None and query.totals[answer.total].total.adds_up
    ]
    compared = len(found) * sum(len(level.keys) for level in levels[1:])
    for name, totals in found:
        for level, planned in zip(levels[1:], totals[1:], strict=True):
            within = _STDS * planned.std
            if not smoothed:
                within = _noise_of_both(totals[0], planned, level, _UNLIKELY / compared)
            keeps = tuple(plan.spec.group_by[place] for place in level.columns)
            yield Sums(name, keeps, level.mask, within)


def _noise_of_both(fine: PlannedTotal, coarse: PlannedTotal, level: Level, chance: float) -> float:
    """The bound for the coarse group of the most fine ones; totals were rounded to their grids before."""
    most = int(np.bincount(level.of_group).max())
    draws = [Drawn(fine.table, float(fine.grid), most), Drawn(coarse.table, float(coarse.grid), 1)]
    return sum_bound(draws, chance) + (most * float(fine.grid) + float(coarse.grid)) / 2


def add_up(columns: "list[pa.Array[Any]]", bound: str) -> bool:
    """Whether each coarser group is the sum of its groups, for the columns and the bound of `Sums`."""
    mask, within = int(bound.split(maxsplit=1)[0]), float(bound.split()[1])
    keeps = [f"k{i}" for i in range(len(columns) - 2)]
    frame = pd.DataFrame(
        {name: column.to_pandas() for name, column in zip(["value", "mask", *keeps], columns, strict=True)}
    )
    frame["value"] = frame["value"].astype(np.float64)
    frame["size"] = frame["value"].abs()
    if not keeps:
        frame["k"], keeps = 0, ["k"]
    sums = frame[frame["mask"] == 0].groupby(keeps, sort=False)[["value", "size"]].sum()
    coarse = frame[frame["mask"] == mask].set_index(keeps)
    if not sums.index.sort_values().equals(coarse.index.sort_values()):
        return False
    beside = sums.loc[coarse.index]
    allowed = within + _ROUNDING * (beside["size"].to_numpy() + coarse["size"].to_numpy())
    return bool((np.abs(beside["value"].to_numpy() - coarse["value"].to_numpy()) <= allowed).all())
