"""From a spec to its plan: shares of the guarantee, noise grids, calibrated tables, output columns."""

from fractions import Fraction
from functools import cache

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import FAMILIES, NoiseTable, calibrate_lattice, least_variance_noise
from dp_spark.queries import Bounds, ClampedColumn, Count, Ids, Mean, Query, Sum, Total
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

# A noise grid this much finer than its scale costs nothing in variance and keeps a table small.
SCALE_IN_GRID_STEPS = 1024
# Row integers below 2^31 keep the sum over one partition (below 2^31 rows) within 64 bits.
LARGEST_ROW_INTEGER = 2**31
# Exact totals saturate here before rounding to the grid: twice as much still fits 64 bits.
LARGEST_TOTAL = 2**60
_LARGEST_BIGINT = 2**63 - 1


def plan_release(spec: ReleaseSpec) -> ReleasePlan:
    """The plan of `spec`; the same spec always gives the same plan.

    The guarantee is divided into equal shares, one for each total.

    Raises:
        PlanRefused: no noise table of a reasonable size meets a share, or numbers do not fit.
    """
    bounds = Bounds(spec.bounds.max_groups, spec.bounds.max_rows_per_group)
    asked = [(entry, query_of(entry)) for entry in spec.queries]
    share = spec.guarantee.share(sum(len(query.totals(bounds)) for _, query in asked))
    table_for = cache(lambda sensitivity: _noise_table(spec.noise, share, sensitivity, bounds.max_groups))

    def planned(total: Total) -> PlannedTotal:
        grid = grid_steps(total.sensitivity, share.epsilon, bounds.max_groups)
        table = table_for(-(-total.sensitivity // grid))
        return PlannedTotal(total, grid, share, table, _saturation(total.step * grid, table))

    queries = tuple(
        PlannedQuery(entry.name, entry.kind, query, tuple(map(planned, query.totals(bounds))))
        for entry, query in asked
    )
    return ReleasePlan(spec, queries, _output_columns(spec, queries))


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


def grid_steps(sensitivity: int, epsilon: Fraction, max_groups: int) -> int:
    """Integers of a total in one step of its noise grid.

    Coarse enough that the noise scale stays near SCALE_IN_GRID_STEPS, and of the octave below that the one
    that raises the sensitivity least by rounding: not at all where it divides it.
    """
    finest = max(1, int(SCALE_IN_GRID_STEPS * epsilon / max_groups))
    if sensitivity <= finest:
        return 1
    grids = {-(-sensitivity // steps) for steps in range((finest + 1) // 2, finest + 1)}
    return min(grids, key=lambda grid: (grid * -(-sensitivity // grid), grid))


def _noise_table(noise: str, share: PrivacyGuarantee, sensitivity: int, max_groups: int) -> NoiseTable:
    if noise == "auto":
        return least_variance_noise(share.epsilon, share.delta, sensitivity, max_groups)
    return calibrate_lattice(FAMILIES[noise], share.epsilon, share.delta, sensitivity, max_groups)


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
