"""Which sums the totals of a plan need: worked out on the driver, so that workers load no plan."""

from collections.abc import Iterable
from dataclasses import replace

from dp_spark.frames.layout import Binned, Coarser, Layout
from dp_spark.queries import Binning, ClampedColumn, Measure, MeasureKind
from dp_spark.release.plan import ReleasePlan

_OF_UNITS = frozenset({MeasureKind.UNITS, MeasureKind.UNIT_VALUE})
_OF_BINS = frozenset({MeasureKind.BIN, MeasureKind.DISTINCT})


def layout_of(plan: ReleasePlan) -> Layout:
    """The sums that the plan's totals need, each once."""
    of_rows, levels = plan.spec.unit.is_row, plan.levels
    drawn = [(each.level, added_as(each.planned.total.measure, of_rows=of_rows)) for each in plan.drawn]
    of_coarser = [(level, measure) for level, measure in drawn if level and measure.kind in _OF_UNITS]
    coarser: list[Coarser] = []
    start = len(plan.keys)
    for number in sorted({level for level, _ in of_coarser}):
        level = levels[number]
        coarser.append(Coarser(number, level.of_group, len(level.keys), start))
        start += len(level.keys)
    binned: list[Binned] = []
    cells = 0
    for binning, weight in dict.fromkeys((m.binning, m.weight) for _, m in drawn if m.kind in _OF_BINS):
        assert binning is not None  # a measure of bins has them
        binned.append(Binned(binning, weight, cells))
        cells += binning.bins
    apart = {(level, measure) for level, measure in of_coarser}
    sums = (each[1] for each in drawn if each not in apart and each[1].kind not in _OF_BINS)
    return Layout(
        groups=len(plan.keys),
        sums=tuple(dict.fromkeys(sums)),
        unit_sums=tuple(dict.fromkeys(measure for _, measure in of_coarser)),
        coarser=tuple(coarser),
        binned=tuple(binned),
        coded=_coded(measure for _, measure in drawn),
        of_rows=of_rows,
    )


def added_as(measure: Measure, *, of_rows: bool) -> Measure:
    """The measure that is added up for it: where each row is a unit, one of units is one of rows."""
    rows = {MeasureKind.UNITS: MeasureKind.ROWS, MeasureKind.UNIT_VALUE: MeasureKind.VALUE}
    return replace(measure, kind=rows.get(measure.kind, measure.kind)) if of_rows else measure


def _coded(measures: Iterable[Measure]) -> tuple[ClampedColumn | Binning, ...]:
    read = (each for measure in measures for each in (measure.of, measure.weight, measure.binning))
    return tuple(dict.fromkeys(each for each in read if each is not None))
