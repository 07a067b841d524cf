"""What the numbers of a plan will be worth: noise of each total, std and interval of each answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_spark.queries import ClampedColumn, Mean, MeasureKind, NoisyTotal, Sum
from dp_spark.release.plan import PlannedQuery, PlannedTotal, ReleasePlan
from dp_spark.report.figures import figures

# An answer counts as useful from the size at which its std is this share of it.
USEFUL_STD = 0.1
REFERENCE_SIZES = (100, 1_000, 10_000)

_COUNTED = {
    MeasureKind.ROWS: "rows",
    MeasureKind.NON_NULL: "values",
    MeasureKind.UNITS: "units",
}


@dataclass(frozen=True, slots=True)
class ClampFacts:
    """The public bounds of a column that a query reads: of each row's value, or of each unit's total."""

    query: str
    column: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    per_unit: bool


@dataclass(frozen=True, slots=True)
class TotalFacts:
    """A total, what it costs alone, and its noise; all numbers in value.

    Attributes:
        query: the query that needs it.
        component: its name there.
        counts: what it adds up: `rows`, `values`, `units` or a column.
        epsilon_alone: what it would cost by itself, at the release's delta.
        family: the law of its noise.
        sensitivity: by how much one unit moves one group at most.
        sensitivity_all_groups: the same, over all groups that one unit may touch.
        form: which bound prices it: `spread` over the groups of a unit, or `gathered` in one.
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
    component: str
    counts: str
    epsilon_alone: float
    family: str
    sensitivity: Fraction
    sensitivity_all_groups: Fraction
    form: str
    cells: int
    shift: Fraction
    overlap: Fraction | None
    grid: Fraction
    scale: float
    std: float
    half_width: float
    saturation: Fraction
    table: str


@dataclass(frozen=True, slots=True)
class ReferenceFacts:
    """Std and half width of the interval that a derived answer has for a group of `size` values."""

    size: int
    std: float
    half_width: float


@dataclass(frozen=True, slots=True)
class UsefulFacts:
    """From when on the std of an answer is `relative_std` of `of`.

    Attributes:
        relative_std: the share.
        of: what the std is compared with, in words.
        least: the smallest size or total for which it holds.
        unit: what `least` counts: `rows`, `values`, `units` or a column.
    """

    relative_std: float
    of: str
    least: float
    unit: str


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What the answer to a query will be worth.

    Attributes:
        name: of the query.
        kind: of the query.
        columns: what it writes: value, std, low, high.
        std: of the noise in every group, or None where it depends on the group.
        half_width: of the interval in every group, or None likewise.
        std_in_words: the std as a sentence would put it.
        useful: from which size on it is useful.
        references: std and half width at some sizes, where they depend on the group.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    std: float | None
    half_width: float | None
    std_in_words: str
    useful: UsefulFacts
    references: tuple[ReferenceFacts, ...]


def clamp_facts(plan: ReleasePlan) -> tuple[ClampFacts, ...]:
    """Bounds and step of each query that reads a column."""
    return tuple(
        ClampFacts(query.name, query.query.of.column, *_range_and_step(query.query.of))
        for query in plan.queries
        if isinstance(query.query, Sum | Mean)
    )


def total_facts(plan: ReleasePlan) -> tuple[TotalFacts, ...]:
    """Share and noise of each total, in the order of the queries."""
    return tuple(_total_facts(drawn.query, drawn.planned) for drawn in plan.drawn)


def query_facts(plan: ReleasePlan) -> tuple[QueryFacts, ...]:
    """What each answer will be worth, in the order of the spec."""
    written = {
        query.name: tuple(each.name for each in plan.columns if each.query == query.name)
        for query in plan.queries
    }
    return tuple(
        _mean_facts(query, query.query, written[query.name])
        if isinstance(query.query, Mean)
        else _lattice_facts(query, written[query.name])
        for query in plan.queries
    )


def _range_and_step(of: ClampedColumn) -> tuple[Fraction, Fraction, Fraction, bool]:
    return of.lower, of.upper, of.step, of.per_unit


def _total_facts(query: str, planned: PlannedTotal) -> TotalFacts:
    part = planned.priced.part
    return TotalFacts(
        query=query,
        component=planned.total.name,
        counts=_counts(planned),
        epsilon_alone=planned.epsilon_alone,
        family=planned.table.family,
        sensitivity=planned.total.sensitivity * planned.total.step,
        sensitivity_all_groups=planned.total.in_all * planned.total.step,
        form=str(planned.priced.form),
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


def _counts(planned: PlannedTotal) -> str:
    measure = planned.total.measure
    return measure.of.column if measure.kind not in _COUNTED and measure.of else _COUNTED[measure.kind]


def _lattice_facts(query: PlannedQuery, columns: tuple[str, ...]) -> QueryFacts:
    (total,) = query.totals
    unit = _counts(total)
    of = "the size of the true total" if isinstance(query.query, Sum) else "the true count"
    return QueryFacts(
        name=query.name,
        kind=str(query.kind),
        columns=columns,
        std=total.std,
        half_width=total.half_width,
        std_in_words=f"{figures(total.std)} in every group, whatever its size",
        useful=UsefulFacts(USEFUL_STD, of, total.std / USEFUL_STD, unit),
        references=(),
    )


def _mean_facts(query: PlannedQuery, mean: Mean, columns: tuple[str, ...]) -> QueryFacts:
    centred, count = query.totals
    radius = float(mean.of.upper - mean.of.lower) / 2
    at_bounds = math.hypot(1.0, radius * count.std / centred.std)
    return QueryFacts(
        name=query.name,
        kind=str(query.kind),
        columns=columns,
        std=None,
        half_width=None,
        std_in_words=(
            f"{figures(centred.std)} / number of values for a mean midway between the bounds, "
            f"{figures(at_bounds, 3)} times that at a bound, at most {figures(radius)}"
        ),
        useful=UsefulFacts(
            USEFUL_STD, "half the distance of the bounds", centred.std / (USEFUL_STD * radius), "values"
        ),
        references=_references(mean, query.totals),
    )


def _references(mean: Mean, totals: Sequence[PlannedTotal]) -> tuple[ReferenceFacts, ...]:
    """What a run would print for a mean midway between the bounds, if the noise happened to be 0."""
    centred, count = totals
    sizes = np.array(REFERENCE_SIZES, dtype=np.int64)
    in_values = int(count.grid)  # a count has a grid of whole values; in values, every size is on it
    (answer,) = mean.estimate(
        [
            NoisyTotal(np.zeros_like(sizes), centred.grid, centred.std, centred.half_width_steps),
            NoisyTotal(sizes, Fraction(1), count.std, count.half_width_steps * in_values),
        ]
    )
    half_widths = (answer.high - answer.low) / 2
    return tuple(
        ReferenceFacts(size, float(std), float(half_width))
        for size, std, half_width in zip(REFERENCE_SIZES, answer.std, half_widths, strict=True)
    )
