"""Exact totals on the driver: the one Spark action over a release's rows, and its sums put together."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dp_spark.errors import BoundsExceeded
from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.bound import Integers
from dp_spark.frames.layout import EXCESS, PLACE, Binned, Layout
from dp_spark.frames.needed import added_as, layout_of
from dp_spark.frames.wide import PLACES, unpacked_sums
from dp_spark.noise import derive_key
from dp_spark.queries import Measure, MeasureKind
from dp_spark.release.levels import Level
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL


def collect_totals(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> list[Integers]:
    """Exact totals of every group, zero where it has no rows, in the order of `plan.drawn`.

    Of shape (groups,), or (groups, bins) where a group has several cells; the groups are those of the total's
    level. The one Spark action over its rows; where it selected no group, rows are not asked again.

    Raises:
        BoundsExceeded: a unit has more rows among those that were added up than the bounds allow.
    """
    if not plan.keys:  # nothing was selected
        bins = [drawn.planned.total.bins for drawn in plan.drawn]
        return [np.zeros(0 if each == 1 else (0, each), dtype=np.int64) for each in bins]
    layout, levels = layout_of(plan), plan.levels
    key = derive_key(release_key, "bounding")
    found = to_arrow(exact_totals(frame, plan=plan, window=window, bounding_key=key, layout=layout))
    if np.any(found[EXCESS].to_numpy()):
        raise BoundsExceeded()
    sums = _Found(layout, found)
    totals = []
    for drawn in plan.drawn:
        total, level = drawn.planned.total, levels[drawn.level]
        measure = added_as(total.measure, of_rows=layout.of_rows)
        match measure.kind:
            case MeasureKind.BIN:
                cells = sums.of_bins(measure, level)
                totals.append(cells[:, 0] if total.bins == 1 else cells)
            case MeasureKind.DISTINCT:
                totals.append(sums.distinct(measure, level))
            case _:
                totals.append(sums.of_groups(measure, drawn.level, level))
    return totals


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


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells that have something, in the order of `cell`; one may occur several times.

    Attributes:
        cell: which of a group's cells, of all binnings together, shape (found,).
        group: the number of its group.
        value: what was added up.
    """

    cell: Integers
    group: Integers
    value: Integers

    def of(self, binned: Binned) -> "_Cells":
        """Those of one binning, by bin."""
        first, after = np.searchsorted(self.cell, [binned.start, binned.start + binned.binning.bins])
        part = slice(first, after)
        return _Cells(self.cell[part] - binned.start, self.group[part], self.value[part])


class _Found:
    """The sums that Spark gave, by measure and level."""

    def __init__(self, layout: Layout, found: pa.Table) -> None:
        self._layout = layout
        if PLACES in found.column_names:
            self._place, self._columns = unpacked_sums(found, layout)
        else:
            self._place = found[PLACE].to_numpy()
            self._columns = [found[name].to_numpy() for name in layout.names]
        self._group, self._of_all = self._between(0, layout.groups)
        self._cells = self._all_cells()
        self._slot = {measure: i for i, measure in enumerate(layout.sums)}
        self._binned = {(each.binning, each.weight): each for each in layout.binned}

    def of_groups(self, measure: Measure, number: int, level: Level) -> Integers:
        """The totals of a measure for the groups of a level, of that number, shape (groups,)."""
        coarser = next((each for each in self._layout.coarser if each.level == number), None)
        if coarser is not None and measure in self._layout.unit_sums:
            group, there = self._between(coarser.start, coarser.start + coarser.groups)
            values = self._columns[self._layout.unit_sums.index(measure)][there]
            return added_by_group(group, values, coarser.groups)
        values = self._columns[self._slot[measure]][self._of_all]
        return added_by_group(level.of_group[self._group], values, len(level.keys))

    def of_bins(self, measure: Measure, level: Level) -> Integers:
        """The totals of every cell of merged bins, shape (groups, cells)."""
        binned = self._binned_of(measure)
        found, cells = self._cells.of(binned), -(-binned.binning.bins // measure.merged)
        at = level.of_group[found.group] * cells + found.cell // measure.merged
        return added_by_group(at, found.value, len(level.keys) * cells).reshape(-1, cells)

    def distinct(self, measure: Measure, level: Level) -> Integers:
        """How many bins have a row, shape (groups,)."""
        binned = self._binned_of(measure)
        found = self._cells.of(binned)
        pairs = np.unique(level.of_group[found.group] * binned.binning.bins + found.cell)
        return np.bincount(pairs // binned.binning.bins, minlength=len(level.keys))

    def _between(self, start: int, end: int) -> tuple[Integers, Integers]:
        """The places from `start` to `end`, counted from `start`, and in which rows they were found."""
        there = np.flatnonzero((self._place >= start) & (self._place < end))
        return self._place[there] - start, there

    def _all_cells(self) -> _Cells:
        layout = self._layout
        end = layout.start_of_cells + layout.groups * layout.rows_of_cells
        row, there = self._between(layout.start_of_cells, end)
        parts = []
        for slot, column in enumerate(self._columns):
            values = column[there]
            some = np.flatnonzero(values)
            group, of_group = np.divmod(row[some], max(layout.rows_of_cells, 1))
            parts.append((of_group * layout.width + slot, group, values[some]))
        cell, group, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(cell, kind="stable")
        return _Cells(cell[order], group[order], value[order])

    def _binned_of(self, measure: Measure) -> Binned:
        assert measure.binning is not None  # a measure of bins has them
        return self._binned[measure.binning, measure.weight]


def to_arrow(frame: DataFrame) -> pa.Table:
    """The frame's rows on the driver; pyspark 3.5 has no `toArrow`."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    names = frame.columns
    return pa.Table.from_pandas(frame.toPandas(), preserve_index=False).select(names)
