"""What the totals of each group are in a sample, and what bounded and clamped ones are in expectation."""

import numpy as np

from dp_spark.queries import Bounds, ClampedColumn, Listed, Measure, MeasureKind
from dp_spark.release.trial.sample import Cells, Flags, Floats, Integers, Kept, Sample, cells_of, kept_in

_UNCLAMPED = (-np.inf, np.inf)
_FIRST = Bounds(1, 1)


class Totals:
    """The totals of one sample; sums over cells are kept, for many candidates ask for the same ones.

    Values are not rounded to steps. An infinite one counts as the largest, or least, finite one.

    Attributes:
        rows: the sample.
        cells: they, as far as bounds tell them apart.
    """

    def __init__(self, sample: Sample, *, apart: bool) -> None:
        self.rows = sample
        self.cells: Cells = cells_of(sample, apart=apart)
        self._numbers = {column: _finite(values) for column, values in sample.numbers.items()}
        self._sums: dict[tuple[object, ...], Floats] = {}
        self._kept = _FIRST, _kept(self.cells, _FIRST)  # of the bounds that were last asked for

    def true(self, measure: Measure) -> Floats:
        """The measure's total in each group without bounds and clamps, in value, shape (groups,)."""
        match measure.kind:
            case MeasureKind.UNITS:
                return self._by_group(self.cells.pairs)
            case MeasureKind.VALUE | MeasureKind.CENTRED | MeasureKind.UNIT_VALUE:
                return self._by_group(self._clamped(measure, _UNCLAMPED, true=True))
            case _:
                return self._by_group(self._counted(measure, true=True))

    def expected(self, measure: Measure, kept: Kept) -> Floats:
        """The same of rows that bounds keep, clamped; what squares and bins add is counted as rows."""
        match measure.kind:
            case MeasureKind.UNITS:
                return self._by_group(self.cells.pairs * kept.chosen * kept.any_row)
            case MeasureKind.UNIT_VALUE:
                return self._by_group(kept.chosen * self._of_units(measure, kept))
            case MeasureKind.VALUE | MeasureKind.CENTRED:
                return self._by_group(kept.chosen * kept.row * self._clamped(measure, _ends(measure)))
            case _:
                return self._by_group(kept.chosen * kept.row * self._counted(measure))

    def kept(self, bounds: Bounds) -> tuple[Kept, float]:
        """What `bounds` keep, and the share of all rows that this is."""
        if self._kept[0] != bounds:
            self._kept = bounds, _kept(self.cells, bounds)
        return self._kept[1]

    def quantiles(self, of: ClampedColumn, at: tuple[float, ...]) -> Floats:
        """Quantiles of the column's values, or of the totals of units in their groups, shape of `at`."""
        if not of.per_unit:
            there = self._numbers[of.column][~np.isnan(self._numbers[of.column])]
        else:
            measure = Measure(MeasureKind.UNIT_VALUE, of)
            there = self._clamped(measure, _UNCLAMPED)[self._counted(measure) > 0]
        return np.quantile(there, at) if len(there) else np.zeros(len(at))

    def _by_group(self, of_cells: Floats | Integers) -> Floats:
        return _added(self.cells.group, of_cells / self.rows.rate, self.rows.groups)

    def _of_units(self, measure: Measure, kept: Kept) -> Floats:
        """The clamped totals of units, taking for each the expected sum of its kept rows."""
        lower, upper = _ends(measure)
        sums = kept.row * self._clamped(measure, _UNCLAMPED)
        return np.where(self._counted(measure) > 0, np.clip(sums, lower, upper), 0.0)

    def _clamped(self, measure: Measure, ends: tuple[float, float], *, true: bool = False) -> Floats:
        """Sums of clamped values, shape (cells,): clamp(v) = min(v, upper) + max(v, lower) - v."""
        above = self._summed(measure, (-np.inf, ends[1]), true=true)
        below = self._summed(measure, (ends[0], np.inf), true=true)
        return above + below - self._summed(measure, _UNCLAMPED, true=true)

    def _counted(self, measure: Measure, *, true: bool = False) -> Floats:
        """How many rows count, shape (cells,)."""
        return self._summed(measure, None, true=true)

    def _summed(self, measure: Measure, ends: tuple[float, float] | None, *, true: bool) -> Floats:
        """Sums over rows of their weight, times their value between `ends` if there are any."""
        column, weight = _column(measure), measure.weight
        top = np.inf if weight is None or true else float(weight.upper)
        key = (column, ends, weight and weight.column, top)
        if key not in self._sums:
            factor = self._present(measure).astype(np.float64)
            if weight is not None:
                factor = factor * np.nan_to_num(np.clip(self._numbers[weight.column], 0, top))
            if ends is not None:
                factor = factor * np.nan_to_num(np.clip(self._numbers[column[0]], *ends))
            self._sums[key] = _added(self.cells.of_row, factor, len(self.cells.group))
        return self._sums[key]

    def _present(self, measure: Measure) -> Flags:
        column, presence = _column(measure)
        if not column:
            return np.ones(len(self.rows.unit), dtype=bool)
        return self.rows.present[column] if presence else ~np.isnan(self._numbers[column])


def _kept(cells: Cells, bounds: Bounds) -> tuple[Kept, float]:
    kept, rows = kept_in(cells, bounds), cells.pairs * cells.rows
    return kept, float(np.sum(kept.chosen * kept.row * rows) / rows.sum())


def columns_read(measures: set[Measure]) -> tuple[set[str], set[str]]:
    """The columns that measures read as numbers, and those of which they look at the presence."""
    read = {_column(measure) for measure in measures}
    weights = {measure.weight.column for measure in measures if measure.weight is not None}
    return {name for name, presence in read if name and not presence} | weights, {
        name for name, presence in read if presence
    }


def _column(measure: Measure) -> tuple[str, bool]:
    """The column that says whether a row counts, and whether its presence does; ("", False) for none."""
    if measure.binning is not None:
        return measure.binning.column, isinstance(measure.binning, Listed)
    return ("", False) if measure.of is None else (measure.of.column, measure.of.presence)


def _ends(measure: Measure) -> tuple[float, float]:
    assert measure.of is not None  # as of every measure that adds up values
    return float(measure.of.lower), float(measure.of.upper)


def _added(place: Integers, values: Floats, places: int) -> Floats:
    """Sums of the values by place, shape (places,)."""
    sums: Floats = np.bincount(place, weights=values, minlength=places).astype(np.float64, copy=False)
    return sums


def _finite(values: Floats) -> Floats:
    finite = values[np.isfinite(values)]
    return np.clip(values, finite.min(), finite.max()) if len(finite) else np.full(len(values), np.nan)
