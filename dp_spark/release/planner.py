"""From a spec to its plan: shares of the guarantee, noise grids, calibrated tables, output columns."""

import math
from collections.abc import Sequence
from fractions import Fraction

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import Fixed, NoiseTable, epsilon_alone, slots_epsilon, worst_cases
from dp_spark.noise.neighbours import case_slots
from dp_spark.queries import Answer, Bounds, Ids, MeasureKind, Total
from dp_spark.release.asking import query_of
from dp_spark.release.deciding import families_of
from dp_spark.release.plan import (
    BudgetShare,
    ColumnRole,
    ColumnType,
    OutputColumn,
    PlannedQuery,
    PlannedTotal,
    ReleasePlan,
)
from dp_spark.release.pricing import priced_totals
from dp_spark.release.selecting import decided_with_selection
from dp_spark.release.selection import GroupSelection, as_fixed
from dp_spark.release.spec import (
    GROUPING_COLUMN,
    PERIOD_COLUMN,
    RELEASE_COLUMN,
    REVISION_COLUMN,
    ReleaseSpec,
    Selection,
    contribution_bounds,
    output_columns,
)

# Exact totals saturate here before rounding to the grid: twice as much still fits 64 bits.
LARGEST_TOTAL = 2**60
_LARGEST_BIGINT = 2**63 - 1


def plan_release(spec: ReleaseSpec) -> ReleasePlan:
    """The plan of `spec`; the same spec always gives the same plan.

    No share of the guarantee is cut off for a total: all are calibrated together, by what they cost composed.

    Raises:
        PlanRefused: no noise table of a reasonable size meets a share, numbers do not fit, or the guarantee
            comes from the budget, which `plan_from_budget` has to be told.
    """
    return _planned(spec, spec.stated_guarantee)


def plan_from_budget(spec: ReleaseSpec, whole: PrivacyGuarantee, horizon: int | None = None) -> ReleasePlan:
    """The plan of each of `horizon` releases that together keep `whole`, all of one noise.

    Noise and its family are chosen for the composition of all of them, not for one. `horizon` is that of
    the spec unless it is given.

    Raises:
        PlanRefused: as in `plan_release`, or no horizon is known.
    """
    horizon = horizon or spec.budget.horizon
    if horizon is None:
        raise PlanRefused(
            "horizon_missing",
            f"release {spec.release} shares a budget among nobody knows how many releases",
            way_out="add `horizon: 365`, the number of releases, to `budget`",
        )
    return _planned(spec, whole, horizon)


def _planned(spec: ReleaseSpec, guarantee: PrivacyGuarantee, horizon: int | None = None) -> ReleasePlan:
    times = horizon or 1
    levels = level_bounds(spec)
    asked = [(entry, query_of(entry, spec)) for entry in spec.queries]
    needed = [[query.totals(bounds) for bounds in levels] for _, query in asked]
    places = {  # each total once in each level
        (level, total): None for level in range(len(levels)) for totals in needed for total in totals[level]
    }
    totals, apart = [total for _, total in places], [_is_apart(spec, *place) for place in places]
    priced = priced_totals(totals, spec.neighbours, guarantee, families_of(spec.noise), times, apart)
    parts = [each.part for each in priced]
    tables, decision, selection = decided_with_selection(spec, parts, guarantee, times)
    drawn = [*map(Fixed, tables, parts), *as_fixed(selection)]
    share = None if horizon is None else _share(drawn, guarantee, horizon)
    one = guarantee if share is None else share.each
    alone = {
        (table, part): epsilon_alone(table, part, one.delta)
        for table, part in dict.fromkeys(zip(tables, parts, strict=True))
    }
    planned = {
        place: PlannedTotal(
            place[1],
            each,
            alone[table, each.part],
            table,
            _saturation(place[1].step * each.grid_steps, table),
        )
        for place, each, table in zip(places, priced, tables, strict=True)
    }
    queries = []
    for (entry, query), totals_of_levels in zip(asked, needed, strict=True):
        of_groups, *rolled = (
            tuple(planned[level, total] for total in totals) for level, totals in enumerate(totals_of_levels)
        )
        queries.append(PlannedQuery(entry.name, entry.kind, query, of_groups, tuple(rolled)))
    selection = selection or _shared_selection(spec, queries)
    columns = _output_columns(spec, queries)
    return ReleasePlan(spec, decision, tuple(queries), columns, share, selection=selection)


def level_bounds(spec: ReleaseSpec) -> tuple[Bounds, ...]:
    """What one unit may contribute to the groups, then to each coarser grouping.

    A coarser group gathers groups: of all rows that a unit keeps, it may have every one.
    """
    bounds = contribution_bounds(spec.unit, spec.bounds)
    coarser = (
        Bounds(bounds.most_groups if columns else 1, bounds.most_rows, bounds.most_rows)
        for columns in spec.rollup or ()
    )
    return (bounds, *coarser)


def _is_apart(spec: ReleaseSpec, level: int, total: Total) -> bool:
    """Whether two units may share another number of groups in this total than in the others.

    They may in a coarser grouping, and in the units that select groups: those are counted over all groups,
    and the other totals over the rows of the selected ones, which are bounded anew.
    """
    private = spec.groups.private
    selects = private is not None and private.select is Selection.THRESHOLD
    return level > 0 or (selects and total.measure.kind is MeasureKind.UNITS)


def _shared_selection(spec: ReleaseSpec, queries: Sequence[PlannedQuery]) -> GroupSelection | None:
    """What selects private groups by the noise of an ids query."""
    private = spec.groups.private
    if private is None or private.select is not Selection.THRESHOLD:
        return None
    (units,) = next(query.totals for query in queries if isinstance(query.query, Ids))
    return GroupSelection(units.table, units.priced.part, private.min_units, shared=True)


def _share(drawn: Sequence[Fixed], whole: PrivacyGuarantee, horizon: int) -> BudgetShare:
    """What one release keeps by itself: its epsilon, rounded up to 1e-6, at 1 / horizon of the delta."""
    if horizon == 1:
        return BudgetShare(whole, horizon, whole)
    delta = whole.delta / horizon
    tables, cases = [each.table for each in drawn], worst_cases([each.part for each in drawn])
    epsilon = slots_epsilon([case_slots(case, tables) for case in cases], float(delta))
    if not math.isfinite(epsilon):
        raise PlanRefused(
            "share_without_epsilon",
            f"one of {horizon} releases has no epsilon at delta = {float(delta):g}",
            way_out="take a larger delta, or another noise",
        )
    each = PrivacyGuarantee(Fraction(math.ceil(epsilon * 10**6) + 1, 10**6), delta)
    return BudgetShare(whole, horizon, each)


def _saturation(grid: Fraction, table: NoiseTable) -> int:
    """Grid steps at which a total saturates, so that total + noise + interval fits its column."""
    unscaled = int(grid * 10 ** _decimals(grid))
    saturation = min(LARGEST_TOTAL, _LARGEST_BIGINT // unscaled - 2 * table.support)
    if saturation < 1:
        raise PlanRefused(
            "grid_too_coarse",
            f"a noise grid of {float(grid):g} leaves no room in 64 bits",
            way_out="give tighter `lower` and `upper`, a coarser `step`, or smaller bounds on rows",
        )
    return saturation


def _decimals(grid: Fraction) -> int:
    """Digits behind the point that multiples of `grid` (a finite decimal) need."""
    digits = 0
    while (grid * 10**digits).denominator > 1:
        digits += 1
    return digits


def _output_columns(spec: ReleaseSpec, queries: Sequence[PlannedQuery]) -> tuple[OutputColumn, ...]:
    columns = [OutputColumn(PERIOD_COLUMN, ColumnType.DATE, ColumnRole.PERIOD, "first day of the period")]
    columns += [
        OutputColumn(name, ColumnType.STRING, ColumnRole.GROUP, f"public group: {name}, as text")
        for name in spec.group_by
    ]
    if spec.rollup:
        columns.append(
            OutputColumn(
                GROUPING_COLUMN,
                ColumnType.INT,
                ColumnRole.GROUPING,
                "0 = a group; else which columns are rolled up, as SQL's GROUPING_ID says it",
            )
        )
    for query in queries:
        for answer in query.query.answers:
            columns += _answer_columns(query, answer)
    columns.append(
        OutputColumn(RELEASE_COLUMN, ColumnType.STRING, ColumnRole.RELEASE, "the release in the ledger")
    )
    columns.append(OutputColumn(REVISION_COLUMN, ColumnType.INT, ColumnRole.REVISION, "0 = as scheduled"))
    return tuple(columns)


def _answer_columns(query: PlannedQuery, answer: Answer) -> list[OutputColumn]:
    total = None if answer.total is None or query.rolled else query.totals[answer.total]
    grid = None if total is None else total.grid
    decimals = _decimals(grid) if grid is not None else 0
    kind = ColumnType.DOUBLE if grid is None else ColumnType.DECIMAL if decimals else ColumnType.BIGINT
    value, std, low, high = output_columns(query.name + answer.suffix)
    covers = "95 % of the noise; bias of bounding and clamping is not in it"

    def number(name: str, role: ColumnRole, comment: str) -> OutputColumn:
        return OutputColumn(
            name, kind, role, comment, query=query.name, answer=answer.suffix, grid=grid, decimals=decimals
        )

    return [
        number(value, ColumnRole.VALUE, f"{answer.says}, private"),
        OutputColumn(
            std,
            ColumnType.DOUBLE,
            ColumnRole.STD,
            f"standard deviation of the noise in {value}",
            query=query.name,
            answer=answer.suffix,
            constant=None if total is None else total.std,
        ),
        number(low, ColumnRole.LOW, f"lower end of an interval that covers {covers}"),
        number(high, ColumnRole.HIGH, f"upper end of an interval that covers {covers}"),
    ]
