"""The sums of one partition: of the rows that count, as integers that are exact in 64 bits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.bound import Flags, Integers, starts_of_runs
from dp_spark.frames.coding import AnyCoding, Codes, Coding
from dp_spark.frames.layout import EXCESS, PLACE, Layout, factors
from dp_spark.queries import ClampedColumn, Measure, MeasureKind

# Sums of so many integers of at most 2^32 are exact in floats.
_EXACT_ROWS = 2**21
_DENSE_CELLS = 2**22  # 32 MB; more are kept only where there is something
_CELLS_AT_ONCE = 2**18


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Rows that count; those of a unit, and of it in a group, stand together.

    Attributes:
        group: numbers of their groups, shape (rows,).
        first: whether each is the first of its unit in its group.
        first_of_unit: whether each is the first of its unit.
        codes: what is read of them, in the order of `Layout.coded`, each of shape (rows,).
    """

    group: NDArray[Any]
    first: Flags
    first_of_unit: Flags
    codes: Sequence[Codes]


class PartitionSums:
    """Everything in a layout, added up portion by portion; the planner proved that 64 bits hold it."""

    def __init__(self, layout: Layout, codings: Sequence[AnyCoding]) -> None:
        self._layout = layout
        self._place = {coding.of: i for i, coding in enumerate(codings)}
        self._codings = codings
        self._excess = 0
        self._rows = np.zeros(layout.groups, dtype=np.int64)
        self._powers = {
            pair: np.zeros((power + 1, layout.groups), dtype=np.int64)
            for pair, power in layout.powers.items()
        }
        self._units = self._unit_sums(layout.sums, layout.groups)
        self._coarser = [self._unit_sums(layout.unit_sums, each.groups) for each in layout.coarser]
        self._cells = CellSums(layout.groups * layout.cells)

    def add(self, rows: CountedRows, excess: int) -> None:
        """Add rows, and how far they exceed the bounds."""
        self._excess += excess
        self._rows += np.bincount(rows.group, minlength=len(self._rows))
        for (of, weight), sums in self._powers.items():
            self._add_powers(rows, of, weight, sums)
        self._units.add(rows.group, rows.first, rows.codes)
        for coarser, sums_of_units in zip(self._layout.coarser, self._coarser, strict=True):
            group, unit = coarser.of_group[rows.group], np.cumsum(rows.first_of_unit)
            order = np.lexsort((group, unit))
            first = starts_of_runs(group[order]) | starts_of_runs(unit)
            sums_of_units.add(group[order], first, rows.codes, order)
        for binned in self._layout.binned:
            bins, counts = self._present(rows, binned.binning)
            values: Integers | None = None
            if binned.weight is not None:
                weights, weighted = self._present(rows, binned.weight)
                counts = counts & weighted
                values = weights[counts].astype(np.int64)
            cells = rows.group[counts].astype(np.int64) * self._layout.cells + binned.start
            self._cells.add(cells + bins[counts], values)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of `Layout.schema` for every place that has anything."""
        layout = self._layout
        found = [self._sum(measure) for measure in layout.sums]
        present = np.flatnonzero(self._rows)
        if self._excess and not len(present):
            present = np.zeros(1, dtype=np.int64)
        yield self._batch(present, [sums[present] for sums in found], self._excess)
        for coarser, units in zip(layout.coarser, self._coarser, strict=True):
            of_units = [units.of[measure] for measure in layout.unit_sums]
            some = np.flatnonzero(np.any(of_units, axis=0))
            yield self._batch(coarser.start + some, [sums[some] for sums in of_units])
        places, sums = self._cells.found()
        for start in range(0, len(places), _CELLS_AT_ONCE):
            part = slice(start, start + _CELLS_AT_ONCE)
            yield self._batch_of_cells(places[part], sums[part])

    def _unit_sums(self, measures: Sequence[Measure], groups: int) -> "_UnitSums":
        return _UnitSums(measures, groups, self._codings, self._place)

    def _present(self, rows: CountedRows, read: Any) -> tuple[Codes, Flags]:
        """The codes of a column or binning, and which of them are not missing."""
        at = self._place[read]
        return rows.codes[at], rows.codes[at] != self._codings[at].missing

    def _add_powers(
        self, rows: CountedRows, of: ClampedColumn, weight: ClampedColumn | None, sums: Integers
    ) -> None:
        codes, counts = self._present(rows, of)
        factor: Any = None
        if weight is not None:
            weights, weighted = self._present(rows, weight)
            counts = counts & weighted
            factor = weights[counts].astype(np.float64)
        group, above = rows.group[counts], codes[counts]
        for power in range(len(sums)):
            if power:
                factor = above if factor is None else factor * above.astype(np.float64)
            sums[power] += summed(group, factor, len(self._rows))

    def _sum(self, measure: Measure) -> Integers:
        """The sum of a measure for every group."""
        if measure.kind is MeasureKind.ROWS:
            return self._rows
        if measure in self._units.of:
            return self._units.of[measure]
        assert measure.of is not None  # of every other measure
        powers = self._powers[measure.of, measure.weight]
        found = np.zeros_like(self._rows)
        for factor, sums in zip(factors(measure), powers, strict=False):
            found += factor * sums
        return found

    def _batch_of_cells(self, places: Integers, sums: Integers) -> pa.RecordBatch:
        layout = self._layout
        group, cell = np.divmod(places, layout.cells)
        row, slot = np.divmod(cell, layout.width)
        row += layout.start_of_cells + group * layout.rows_of_cells
        starts = starts_of_runs(row)
        table = np.zeros((layout.width, int(starts.sum())), dtype=np.int64)
        table[slot, np.cumsum(starts) - 1] = sums
        return self._batch(row[starts], list(table))

    def _batch(self, places: Integers, sums: Sequence[Integers], excess: int = 0) -> pa.RecordBatch:
        nothing = np.zeros(len(places), dtype=np.int64)
        over = nothing.copy()
        over[:1] = excess
        columns = [places, over, *sums, *[nothing] * (self._layout.width - len(sums))]
        names = [PLACE, EXCESS, *self._layout.names]
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)


class CellSums:
    """Sums at places below `size`, of which few may have any."""

    def __init__(self, size: int) -> None:
        self._dense = np.zeros(size, dtype=np.int64) if size <= _DENSE_CELLS else None
        self._parts: list[tuple[Integers, Integers]] = []

    def add(self, places: Integers, values: Integers | None) -> None:
        """Add values, or 1 each, at places."""
        if self._dense is not None:
            np.add.at(self._dense, places, 1 if values is None else values)
        elif len(places):
            self._parts.append(_gathered(places, np.ones_like(places) if values is None else values))

    def found(self) -> tuple[Integers, Integers]:
        """The places, ascending, whose sum is not 0, and the sums."""
        if self._dense is not None:
            places = np.flatnonzero(self._dense)
            return places, self._dense[places]
        if not self._parts:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        places, values = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        places, values = _gathered(places, values)
        return places[values != 0], values[values != 0]


class _UnitSums:
    """Sums of measures of units, by group."""

    def __init__(
        self,
        measures: Sequence[Measure],
        groups: int,
        codings: Sequence[AnyCoding],
        place: dict[Any, int],
    ) -> None:
        kinds = (MeasureKind.UNITS, MeasureKind.UNIT_VALUE)
        self.of = {each: np.zeros(groups, dtype=np.int64) for each in measures if each.kind in kinds}
        self._groups, self._codings, self._place = groups, codings, place

    def add(
        self, group: NDArray[Any], first: Flags, codes: Sequence[Codes], order: Integers | None = None
    ) -> None:
        """Add rows of which those of a unit in a group stand together, from `first` on.

        `order` is the one that `codes` have to be brought into.
        """
        for measure in self.of:
            if measure.kind is MeasureKind.UNITS:
                self.of[measure] += np.bincount(group[first], minlength=self._groups)
                continue
            coding, own = self._codings[self._place[measure.of]], codes[self._place[measure.of]]
            assert isinstance(coding, Coding)  # the measure is of a column
            where, above = _unit_values(group, first, own if order is None else own[order], coding)
            self.of[measure] += coding.of.lower_steps * summed(where, None, self._groups)
            self.of[measure] += summed(where, above, self._groups)


def summed(group: NDArray[Any], values: NDArray[Any] | None, groups: int) -> Integers:
    """The sums by group of whole numbers from 0 to 2^32, or of ones, shape (groups,)."""
    if values is None:
        return np.bincount(group, minlength=groups)
    total = np.zeros(groups, dtype=np.int64)
    for start in range(0, len(group), _EXACT_ROWS):
        part = slice(start, start + _EXACT_ROWS)
        total += np.bincount(group[part], values[part], minlength=groups).astype(np.int64)
    return total


def _unit_values(
    group: NDArray[Any], first: Flags, codes: Codes, coding: Coding
) -> tuple[NDArray[Any], Integers]:
    """Where, and by how many steps above the lower bound, each unit's clamped total counts."""
    starts = np.flatnonzero(first)
    if not len(starts):
        return group, np.zeros(0, dtype=np.int64)
    counts = codes != coding.missing
    steps = np.where(counts, codes, 0).astype(np.int64) + np.where(counts, coding.least, 0)
    clamped = np.clip(np.add.reduceat(steps, starts), coding.of.lower_steps, coding.of.upper_steps)
    some = np.add.reduceat(counts, starts, dtype=np.int64) > 0
    return group[starts][some], clamped[some] - coding.of.lower_steps


def _gathered(places: Integers, values: Integers) -> tuple[Integers, Integers]:
    """Each place once, ascending, with the sum of its values."""
    order = np.argsort(places)
    in_order = places[order]
    starts = np.flatnonzero(starts_of_runs(in_order))
    return in_order[starts], np.add.reduceat(values[order], starts)
