"""Bounds on rows and clamps of columns that make the total error of a sample's queries least."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_spark.errors import InputRefused, PlanRefused
from dp_spark.queries import ClampedColumn, MeasureKind
from dp_spark.release.asking import query_of
from dp_spark.release.planner import level_bounds
from dp_spark.release.spec import BoundsSpec, QuerySpec, ReleaseSpec
from dp_spark.release.trial.errors import QueryError, query_errors
from dp_spark.release.trial.grids import (
    HIGH_QUANTILES,
    LOW_QUANTILES,
    common_multiple,
    round_numbers,
    whole_numbers,
)
from dp_spark.release.trial.noise import NoiseSearch
from dp_spark.release.trial.sample import Sample
from dp_spark.release.trial.totals import Totals


@dataclass(frozen=True, slots=True)
class Clamped:
    """The values of a column, or the totals of units in it, as one or several queries clamp them.

    Attributes:
        column: its name.
        per_unit: whether the totals of units are clamped.
        queries: names of those that clamp it.
        lower: the least value that counts as it is; of several queries the least.
        upper: the largest such value; of several queries the largest.
    """

    column: str
    per_unit: bool
    queries: tuple[str, ...]
    lower: Fraction
    upper: Fraction


@dataclass(frozen=True, slots=True)
class Tried:
    """One choice of bounds, and what it comes to.

    Attributes:
        max_groups: of a unit; None where there is no such bound.
        max_rows_per_group: of a unit; None likewise.
        clamps: of each column that has any.
        kept: the share of the sample's rows that the bounds keep.
        errors: of each query that is judged.
        relative: geometric mean, over the queries, of the total error relative to that as written.
    """

    max_groups: int | None
    max_rows_per_group: int | None
    clamps: tuple[Clamped, ...]
    kept: float
    errors: tuple[QueryError, ...]
    relative: float


@dataclass(frozen=True, slots=True)
class Trial:
    """Bounds of a spec tried on a public sample.

    Attributes:
        release: name of the spec.
        rows: of the sample, that have a unit and a released group.
        units: that have such rows.
        groups: that are released.
        rate: the share of a period's units that the sample is said to hold.
        max_rows: the bound on all rows of a unit, which is left as it is written.
        as_written: the spec's own bounds.
        bounds: bounds on rows, at the suggested clamps.
        clamps: of each column, clamps of it at all else as suggested.
        suggested: the best of all.
    """

    release: str
    rows: int
    units: int
    groups: int
    rate: float
    max_rows: int | None
    as_written: Tried
    bounds: tuple[Tried, ...]
    clamps: tuple[tuple[Tried, ...], ...]
    suggested: Tried


def tried_bounds(spec: ReleaseSpec, sample: Sample) -> Trial:
    """The spec's bounds, grids of others, and the best, by their expected errors on the sample.

    The geometric mean of the queries' total errors is what is made least: first over bounds on rows with
    clamps that cut nothing off, then over the clamps of one column after the other, then over both again.

    Raises:
        InputRefused: no row of the sample has a released group.
        PlanRefused: the bounds as written cannot have noise, or the guarantee comes from the budget.
    """
    if not len(sample.unit):
        raise InputRefused(
            "sample_without_groups",
            "no row of the public sample has a unit and one of the release's groups",
            way_out="compare groups.public, as texts, with the group columns of the sample",
        )
    search = _Search(spec, sample)
    places = range(len(search.clamped))
    best = search.best(search.bounds_on_rows(search.generous()))
    for _ in ("with clamps that cut nothing off", "with clamps that were chosen"):
        for place in places:
            best = search.best(search.clamps(best, place))
        best = search.best(search.bounds_on_rows(best))
    written = search.as_written
    best = best if search.made(best).relative < 1 else spec
    suggested = search.made(best)
    bounds = tuple(map(search.made, search.possible(search.bounds_on_rows(best))))
    clamps = tuple(tuple(map(search.made, search.possible(search.clamps(best, place)))) for place in places)
    max_rows = None if spec.bounds is None else spec.bounds.max_rows
    rows, units = len(sample.unit), int(sample.unit.max()) + 1
    return Trial(
        spec.release, rows, units, sample.groups, sample.rate, max_rows, written, bounds, clamps, suggested
    )


def clamps_of(spec: ReleaseSpec) -> tuple[Clamped, ...]:
    """The columns of which queries clamp values, or totals of units, in the order of the queries."""
    queries: dict[tuple[str, bool], list[str]] = {}
    for entry in spec.queries:
        of = _clamped_by(entry, spec)
        if of is not None:
            queries.setdefault((of.column, of.per_unit), []).append(entry.name)
    return tuple(
        Clamped(*key, tuple(names), *_ends_of(spec, frozenset(names))) for key, names in queries.items()
    )


def _clamped_by(entry: QuerySpec, spec: ReleaseSpec) -> ClampedColumn | None:
    """What the `lower` and `upper` of a query bound; None where it has none, or they bound no column."""
    if not {"column", "lower", "upper"} <= set(type(entry).model_fields):
        return None
    measures = (total.measure for total in query_of(entry, spec).totals(level_bounds(spec)[0]))
    kinds = {MeasureKind.VALUE, MeasureKind.UNIT_VALUE, MeasureKind.CENTRED}
    return next((each.of for each in measures if each.kind in kinds), None)


def _ends_of(spec: ReleaseSpec, names: frozenset[str]) -> tuple[Fraction, Fraction]:
    """The least `lower` and the largest `upper` of these queries."""
    entries = [dict(each) for each in spec.queries if each.name in names]
    return min(each["lower"] for each in entries), max(each["upper"] for each in entries)


class _Search:
    """Specs that differ in their bounds, and what each comes to; equal ones are looked at once."""

    def __init__(self, spec: ReleaseSpec, sample: Sample) -> None:
        self.spec, self.clamped = spec, clamps_of(spec)
        per_unit = any(each.per_unit for each in self.clamped)
        max_rows = spec.bounds is not None and spec.bounds.max_rows is not None
        self._totals = Totals(sample, apart=per_unit or max_rows)
        self._noise = NoiseSearch()
        self._made: dict[object, Tried] = {}
        self._written = query_errors(spec, self._totals, self._noise)[1]
        self.as_written = self.made(spec)

    def made(self, spec: ReleaseSpec) -> Tried:
        """What the bounds of `spec` come to."""
        key = spec.bounds, spec.queries
        if key not in self._made:
            kept, errors = query_errors(spec, self._totals, self._noise)
            bounds = spec.bounds or BoundsSpec(max_groups=1, max_rows_per_group=1)
            self._made[key] = Tried(
                bounds.max_groups,
                bounds.max_rows_per_group,
                tuple(_as_in(spec, each) for each in self.clamped),
                kept,
                errors,
                _relative(errors, self._written),
            )
        return self._made[key]

    def possible(self, specs: Iterable[ReleaseSpec]) -> list[ReleaseSpec]:
        """Those of which noise can be had and steps are few enough."""
        return [spec for spec in specs if self._is_possible(spec)]

    def best(self, specs: Iterable[ReleaseSpec]) -> ReleaseSpec:
        """The one of least error; of equals the first."""
        return min(self.possible(specs), key=lambda spec: self.made(spec).relative)

    def generous(self) -> ReleaseSpec:
        """The spec with clamps that cut nothing of the sample off, where that is possible."""
        wide = self.spec
        for of in self.clamped:
            lower, upper = self._round_ends(of)
            tried = _with_clamps(wide, of, min(lower[0], upper[-1]), max(lower[0], upper[-1]))
            if tried is not None and self._is_possible(tried):
                wide = tried
        return wide

    def bounds_on_rows(self, spec: ReleaseSpec) -> list[ReleaseSpec]:
        """The spec as it is, and with every pair of bounds of the grid."""
        if spec.bounds is None:
            return [spec]
        cells, written = self._totals.cells, spec.bounds
        pairs = (
            {"max_groups": groups, "max_rows_per_group": rows}
            for groups in whole_numbers(int(cells.unit_groups.max()))
            for rows in whole_numbers(int(cells.rows.max()))
        )
        return [
            spec,
            *(spec.model_copy(update={"bounds": written.model_copy(update=pair)}) for pair in pairs),
        ]

    def clamps(self, spec: ReleaseSpec, place: int) -> list[ReleaseSpec]:
        """The spec as it is, and with every pair of round ends for one column."""
        of = self.clamped[place]
        lower, upper = self._round_ends(of)
        pairs = ((low, high) for low in lower for high in upper if low < high)
        tried = (_with_clamps(spec, of, *pair) for pair in pairs)
        return [spec, *(each for each in tried if each is not None)]

    def _round_ends(self, of: Clamped) -> tuple[Sequence[Fraction], Sequence[Fraction]]:
        column = ClampedColumn(of.column, of.lower, of.upper, Fraction(1), of.per_unit)
        steps = [dict(each).get("step") for each in self.spec.queries if each.name in of.queries]
        step = common_multiple(step for step in steps if step is not None)
        low, high = (self._totals.quantiles(column, at) for at in (LOW_QUANTILES, HIGH_QUANTILES))
        lower, upper = round_numbers(low, step), round_numbers(high, step)
        zero = Fraction(0)  # a natural end: where all values are on one side it is tried first
        if low[0] >= 0:
            lower = (zero, *(each for each in lower if each))
        if high[-1] <= 0:
            upper = (*(each for each in upper if each), zero)
        return lower, upper

    def _is_possible(self, spec: ReleaseSpec) -> bool:
        try:
            self.made(spec)
        except PlanRefused:
            return False
        return True


def _with_clamps(spec: ReleaseSpec, of: Clamped, lower: Fraction, upper: Fraction) -> ReleaseSpec | None:
    """The spec with these ends for one column; None where they leave no range."""
    if lower >= upper:
        return None
    ends = {"lower": lower, "upper": upper}
    queries = tuple(
        each.model_copy(update=ends) if each.name in of.queries else each for each in spec.queries
    )
    return spec.model_copy(update={"queries": queries})


def _as_in(spec: ReleaseSpec, of: Clamped) -> Clamped:
    """The same column with the ends that a spec has."""
    lower, upper = _ends_of(spec, frozenset(of.queries))
    return replace(of, lower=lower, upper=upper)


def _relative(errors: Sequence[QueryError], written: Sequence[QueryError]) -> float:
    """The geometric mean of ratios of total errors."""
    logs = [math.log(one.total / other.total) for one, other in zip(errors, written, strict=True)]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
