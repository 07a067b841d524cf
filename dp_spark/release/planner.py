"""From a spec to its plan: shares of the guarantee, noise grids, calibrated tables, output columns."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import islice

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import NoiseTable, Part, Slot, composed_epsilon, expected_std
from dp_spark.queries import Bounds, ClampedColumn, Count, Ids, Mean, Query, Sum, Total
from dp_spark.release.deciding import decided_noise
from dp_spark.release.plan import (
    ColumnRole,
    ColumnType,
    OutputColumn,
    PlannedQuery,
    PlannedTotal,
    ReleasePlan,
)
from dp_spark.release.spec import (
    PERIOD_COLUMN,
    RELEASE_COLUMN,
    REVISION_COLUMN,
    ColumnQuerySpec,
    QuerySpec,
    ReleaseSpec,
    output_columns,
)

# A noise grid this much finer than the noise costs nothing in variance and keeps a table small.
STD_IN_GRID_STEPS = 1024
# Row integers below 2^31 keep the sum over one partition (below 2^31 rows) within 64 bits.
LARGEST_ROW_INTEGER = 2**31
# Exact totals saturate here before rounding to the grid: twice as much still fits 64 bits.
LARGEST_TOTAL = 2**60
_LARGEST_BIGINT = 2**63 - 1


def plan_release(spec: ReleaseSpec) -> ReleasePlan:
    """The plan of `spec`; the same spec always gives the same plan.

    No share of the guarantee is cut off for a total: all are calibrated together, by what they cost composed.

    Raises:
        PlanRefused: no noise table of a reasonable size meets a share, or numbers do not fit.
    """
    bounds = Bounds(spec.bounds.max_groups, spec.bounds.max_rows_per_group)
    asked = [(entry, query_of(entry)) for entry in spec.queries]
    totals = [total for _, query in asked for total in query.totals(bounds)]
    grids = _grids(totals, spec.guarantee, bounds.max_groups)
    parts = [
        Part(-(-total.sensitivity // grid), bounds.max_groups)
        for total, grid in zip(totals, grids, strict=True)
    ]
    tables, decision = decided_noise(spec.noise, parts, spec.guarantee)
    alone = {
        table: composed_epsilon([Slot(table, bounds.max_groups)], spec.guarantee.delta) for table in tables
    }
    planned = iter(
        PlannedTotal(total, grid, alone[table], table, _saturation(total.step * grid, table))
        for total, grid, table in zip(totals, grids, tables, strict=True)
    )
    queries = tuple(
        PlannedQuery(entry.name, entry.kind, query, tuple(islice(planned, len(query.totals(bounds)))))
        for entry, query in asked
    )
    return ReleasePlan(spec, decision, queries, _output_columns(spec, queries))


def query_of(entry: QuerySpec) -> Query:
    """The question that one entry of `queries` asks."""
    if isinstance(entry, ColumnQuerySpec):
        column = _clamped_column(entry)
        return Sum(column) if entry.kind == "sum" else Mean(column)
    return Count() if entry.kind == "count" else Ids()


def _clamped_column(entry: ColumnQuerySpec) -> ClampedColumn:
    step = entry.step or _default_step(entry.lower, entry.upper)
    largest = max(abs(entry.lower), abs(entry.upper)) / step
    if largest > LARGEST_ROW_INTEGER:
        raise PlanRefused(
            "step_too_fine",
            f"queries {entry.name}: bounds of [{float(entry.lower):g}, {float(entry.upper):g}] are "
            f"{float(largest):.3g} steps of {float(step):g} from 0; at most {LARGEST_ROW_INTEGER} are exact",
            way_out="give a coarser `step`, or tighter `lower` and `upper`",
        )
    return ClampedColumn(entry.column, entry.lower, entry.upper, step)


def _default_step(lower: Fraction, upper: Fraction) -> Fraction:
    """The coarsest power of ten of which both bounds are multiples and the range has 1,000."""
    step = Fraction(1)
    while step * 10 * 1000 <= upper - lower:
        step *= 10
    while step * 1000 > upper - lower or (lower / step).denominator > 1 or (upper / step).denominator > 1:
        step /= 10
    return step


def _grids(totals: Sequence[Total], guarantee: PrivacyGuarantee, max_groups: int) -> list[int]:
    """Integers of each total in one step of its noise grid, all as fine against the noise to come."""
    std = expected_std([Part(total.sensitivity, max_groups) for total in totals], guarantee)
    return [grid_steps(total.sensitivity, max(1, int(STD_IN_GRID_STEPS / std))) for total in totals]


def grid_steps(sensitivity: int, finest: int) -> int:
    """Integers of a total in one grid step, such that a unit moves it by at most `finest` steps.

    Of the octave below that, the grid that raises the sensitivity least by rounding: not at all where it
    divides it.
    """
    if sensitivity <= finest:
        return 1
    grids = {-(-sensitivity // steps) for steps in range((finest + 1) // 2, finest + 1)}
    return min(grids, key=lambda grid: (grid * -(-sensitivity // grid), grid))


def _saturation(grid: Fraction, table: NoiseTable) -> int:
    """Grid steps at which a total saturates, so that total + noise + interval fits its column."""
    unscaled = int(grid * 10 ** _decimals(grid))
    saturation = min(LARGEST_TOTAL, _LARGEST_BIGINT // unscaled - 2 * table.support)
    if saturation < 1:
        raise PlanRefused(
            "grid_too_coarse",
            f"a noise grid of {float(grid):g} leaves no room in 64 bits",
            way_out="give tighter `lower` and `upper`, a coarser `step`, or a smaller `max_rows_per_group`",
        )
    return saturation


def _decimals(grid: Fraction) -> int:
    """Digits behind the point that multiples of `grid` (a finite decimal) need."""
    digits = 0
    while (grid * 10**digits).denominator > 1:
        digits += 1
    return digits


def _output_columns(spec: ReleaseSpec, queries: tuple[PlannedQuery, ...]) -> tuple[OutputColumn, ...]:
    columns = [OutputColumn(PERIOD_COLUMN, ColumnType.DATE, ColumnRole.PERIOD, "first day of the period")]
    columns += [
        OutputColumn(name, ColumnType.STRING, ColumnRole.GROUP, f"public group: {name}, as text")
        for name in spec.group_by
    ]
    for query in queries:
        columns += _query_columns(query)
    columns.append(
        OutputColumn(RELEASE_COLUMN, ColumnType.STRING, ColumnRole.RELEASE, "the release in the ledger")
    )
    columns.append(OutputColumn(REVISION_COLUMN, ColumnType.INT, ColumnRole.REVISION, "0 = as scheduled"))
    return tuple(columns)


def _query_columns(query: PlannedQuery) -> list[OutputColumn]:
    lattice = query.query.on_lattice
    grid = query.totals[0].grid if lattice else None
    decimals = _decimals(grid) if grid is not None else 0
    kind = ColumnType.DOUBLE if grid is None else ColumnType.DECIMAL if decimals else ColumnType.BIGINT
    value, std, low, high = output_columns(query.name)
    covers = "95 % of the noise; bias of bounding and clamping is not in it"

    def number(name: str, role: ColumnRole, comment: str) -> OutputColumn:
        return OutputColumn(name, kind, role, comment, query=query.name, grid=grid, decimals=decimals)

    return [
        number(value, ColumnRole.VALUE, f"{query.kind}, private"),
        OutputColumn(
            std,
            ColumnType.DOUBLE,
            ColumnRole.STD,
            f"standard deviation of the noise in {value}",
            query=query.name,
            constant=query.totals[0].std if lattice else None,
        ),
        number(low, ColumnRole.LOW, f"lower end of an interval that covers {covers}"),
        number(high, ColumnRole.HIGH, f"upper end of an interval that covers {covers}"),
    ]
