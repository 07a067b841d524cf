"""The totals of a release: what each adds up, who uses it, what it costs, and its noise."""

from dataclasses import dataclass
from fractions import Fraction

from dp_spark.queries import Edges, Measure, MeasureKind, Total
from dp_spark.release.plan import DrawnTotal, ReleasePlan
from dp_spark.report.levels import level_words


@dataclass(frozen=True, slots=True)
class TotalFacts:
    """A total, what it costs alone, and its noise; all numbers in value.

    Attributes:
        query: the first query that needs it.
        queries: all queries that use it: it is drawn once.
        component: its name there.
        level: the coarser grouping it is of, in words; empty for the groups themselves.
        counts: what it adds up, in words.
        epsilon_alone: what it would cost by itself, at the release's delta.
        family: the law of its noise.
        sensitivity: by how much one unit moves one group at most; all cells of it together.
        sensitivity_all_groups: the same, over all groups that one unit may touch.
        form: which bound prices it: `spread` over the groups of a unit, or `gathered` in one.
        bins: how many cells each group has, with noise of its own each.
        cells: how many cells are priced, of one unit or, under `replace`, of each of two.
        shift: by how much each of them moves, rounding to the grid included.
        overlap: under `replace`, by how much a cell moves that both units have; None where that makes no
            difference.
        grid: the total and its noise are multiples of this.
        scale: of the family's standard member.
        std: standard deviation of the noise.
        half_width: the noise lies within plus and minus this with the coverage of the facts, or more.
        saturation: totals beyond plus and minus this are cut to it.
        table: SHA-256 of the noise table.
    """

    query: str
    queries: tuple[str, ...]
    component: str
    level: str
    counts: str
    epsilon_alone: float
    family: str
    sensitivity: Fraction
    sensitivity_all_groups: Fraction
    form: str
    bins: int
    cells: int
    shift: Fraction
    overlap: Fraction | None
    grid: Fraction
    scale: float
    std: float
    half_width: float
    saturation: Fraction
    table: str


def total_facts(plan: ReleasePlan) -> tuple[TotalFacts, ...]:
    """Share and noise of each total, once each: level by level, in the order of the queries."""
    users: dict[tuple[int, Total], dict[str, None]] = {}
    for query in plan.queries:
        for level, totals in enumerate(query.levels):
            for planned in totals:
                users.setdefault((level, planned.total), {})[query.name] = None
    return tuple(
        _total_facts(drawn, tuple(users[drawn.level, drawn.planned.total]), level_words(plan, drawn.level))
        for drawn in plan.drawn
    )


def counted_words(measure: Measure) -> str:
    """What a measure adds up: `rows`, `euros`, `squared distances of euros from ...`."""
    column = "" if measure.of is None else measure.of.column
    weighed = "" if measure.weight is None else f", times {measure.weight.column}"
    words = {
        MeasureKind.ROWS: "rows",
        MeasureKind.NON_NULL: "values",
        MeasureKind.VALUE: column,
        MeasureKind.CENTRED: f"{column} less the middle of its bounds",
        MeasureKind.SQUARE: f"squares of {column} less the middle of its bounds",
        MeasureKind.UNITS: "units",
        MeasureKind.UNIT_VALUE: f"{column} of units",
        MeasureKind.BIN: _in_cells(measure),
        MeasureKind.DISTINCT: _listed(measure),
    }
    return words[measure.kind] + weighed


def _in_cells(measure: Measure) -> str:
    if not isinstance(measure.binning, Edges):
        return ""
    cells = -(-measure.binning.bins // measure.merged)
    of_bins = "bins" if measure.merged == 1 else f"cells of {measure.merged} bins"
    return f"rows in each of {cells:,} {of_bins} of {measure.binning.column}"


def _listed(measure: Measure) -> str:
    return "" if measure.binning is None else f"listed values of {measure.binning.column}"


def _total_facts(drawn: DrawnTotal, queries: tuple[str, ...], level: str) -> TotalFacts:
    planned, part = drawn.planned, drawn.planned.priced.part
    return TotalFacts(
        query=drawn.query,
        queries=queries,
        component=planned.total.name,
        level=level,
        counts=counted_words(planned.total.measure),
        epsilon_alone=planned.epsilon_alone,
        family=planned.table.family,
        sensitivity=planned.total.sensitivity * planned.total.step,
        sensitivity_all_groups=planned.total.in_all * planned.total.step,
        form=str(planned.priced.form),
        bins=planned.total.bins,
        cells=part.cells,
        shift=part.sensitivity * planned.grid,
        overlap=None if part.overlap is None else part.overlap * planned.grid,
        grid=planned.grid,
        scale=float(planned.grid / planned.table.step),
        std=planned.std,
        half_width=planned.half_width,
        saturation=planned.grid * planned.saturation,
        table=planned.table.digest,
    )
