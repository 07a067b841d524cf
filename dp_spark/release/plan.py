"""The resolved plan of a release: its totals with their noise, its output columns; nothing left to decide.

A plan knows no period and no row: every night of a release runs the same plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import Fixed, NoiseTable
from dp_spark.queries import Bounds, MeasureKind, Query, Total
from dp_spark.release.levels import Level, levels_of, released_keys
from dp_spark.release.pricing import Priced
from dp_spark.release.selection import GroupSelection, as_fixed
from dp_spark.release.spec import ReleaseSpec, contribution_bounds

COVERAGE = Fraction(95, 100)
DECIMAL_PRECISION = 19  # totals saturate where their unscaled value would leave 64 bits


class ColumnRole(StrEnum):
    """What a column of the released table holds."""

    PERIOD = "period"
    GROUP = "group"
    GROUPING = "grouping"
    VALUE = "value"
    STD = "std"
    LOW = "low"
    HIGH = "high"
    RELEASE = "release"
    REVISION = "revision"


class ColumnType(StrEnum):
    """The SQL type of a column; a decimal has its scale in `OutputColumn.decimals`."""

    DATE = "DATE"
    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the released table; none may be NULL.

    Attributes:
        name: the column's name.
        type: its SQL type.
        role: what it holds.
        comment: what the number covers, in words, for readers of the table.
        query: the query it answers, or None.
        answer: which of the query's answers it is: its suffix.
        grid: for a lattice value, low or high: the value is a multiple of it.
        constant: for the std of a lattice query: the value of every row.
        decimals: digits behind the point of a DECIMAL; its precision is DECIMAL_PRECISION.
    """

    name: str
    type: ColumnType
    role: ColumnRole
    comment: str
    query: str | None = None
    answer: str = ""
    grid: Fraction | None = None
    constant: float | None = None
    decimals: int = 0

    @property
    def sql_type(self) -> str:
        """The type as SQL writes it."""
        return (
            f"DECIMAL({DECIMAL_PRECISION}, {self.decimals})"
            if self.type is ColumnType.DECIMAL
            else self.type.value
        )


@dataclass(frozen=True, slots=True)
class PlannedTotal:
    """A total with the noise it will get.

    Attributes:
        total: what is summed, in its own integers.
        priced: its noise grid, and what one unit moves on it, by the neighbours of the release.
        epsilon_alone: the epsilon that this total costs by itself at the release's delta. All totals are
            calibrated together and cost less than the sum of these.
        table: the noise, in grid steps.
        saturation: totals are clamped to plus and minus this many grid steps, so that they always fit.
    """

    total: Total
    priced: Priced
    epsilon_alone: float
    table: NoiseTable
    saturation: int

    @property
    def grid_steps(self) -> int:
        """Integers of the total in one step of the noise grid; the total is rounded to the grid."""
        return self.priced.grid_steps

    @property
    def grid(self) -> Fraction:
        """The value of one grid step."""
        return self.total.step * self.grid_steps

    @property
    def std(self) -> float:
        """Standard deviation of the noise, in value."""
        return self.table.std * float(self.grid)

    @property
    def half_width_steps(self) -> int:
        """Grid steps either side that hold the noise with probability COVERAGE or more."""
        return self.table.half_width(COVERAGE)

    @property
    def half_width(self) -> float:
        """`half_width_steps` in value."""
        return self.half_width_steps * float(self.grid)


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query of the spec with its planned totals, in the order `query.totals` gives them.

    Queries that need the same total share it: it is drawn once, and paid once.

    Attributes:
        name: of the query.
        kind: of the query.
        query: the question.
        totals: of the groups.
        rolled: of each coarser grouping in turn, the same totals with what a unit moves there.
    """

    name: str
    kind: str
    query: Query
    totals: tuple[PlannedTotal, ...]
    rolled: tuple[tuple[PlannedTotal, ...], ...] = ()

    @property
    def levels(self) -> tuple[tuple[PlannedTotal, ...], ...]:
        """The totals of the groups, then of each coarser grouping."""
        return (self.totals, *self.rolled)


@dataclass(frozen=True, slots=True)
class DrawnTotal:
    """A total that gets noise once: the first query that needs it, and the grouping it is of.

    Attributes:
        query: name of that query; it labels the noise.
        level: 0 for the groups themselves, i for the i-th coarser grouping.
        planned: the total.
    """

    query: str
    level: int
    planned: PlannedTotal


@dataclass(frozen=True, slots=True)
class NoiseDecision:
    """Why the noise is as it is.

    Attributes:
        family: the law of all totals' noise.
        runner_up: the best of another kind; None where the spec named the family.
        ratio: variance of the runner-up over that of the family, good to about 1e-3.
        over_floor: variance over the least that any integer noise can have, where that is known: for one
            total in one group a unit; else None.
    """

    family: str
    runner_up: str | None = None
    ratio: float | None = None
    over_floor: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """What a release has of a budget that it shares with the others of its horizon.

    Attributes:
        whole: the pair that all of them together keep.
        horizon: how many they are.
        each: a pair that one of them keeps, at an equal share of the delta.
    """

    whole: PrivacyGuarantee
    horizon: int
    each: PrivacyGuarantee


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """Everything a run needs but the rows, the period and the key.

    Attributes:
        spec: what was asked.
        noise: why the noise is as it is.
        queries: with their totals.
        columns: of the released table.
        share: of a budget; None where the spec states the guarantee of one release.
        listed: the groups, where a run has read or selected them; None where the spec lists them.
        selection: what selects private groups; None where they are public.
    """

    spec: ReleaseSpec
    noise: NoiseDecision
    queries: tuple[PlannedQuery, ...]
    columns: tuple[OutputColumn, ...]
    share: BudgetShare | None = None
    listed: tuple[tuple[str, ...], ...] | None = None
    selection: GroupSelection | None = None

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What one release promises by itself: as the spec states it, or as its share of the budget gives."""
        return self.spec.stated_guarantee if self.share is None else self.share.each

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The groups that are released, in code point order."""
        return self.spec.group_keys() if self.listed is None else self.listed

    @property
    def has_other(self) -> bool:
        """Whether the last of `keys` gathers the rows of all groups that are not among the others."""
        private = self.spec.groups.private
        return private is not None and private.other

    @property
    def null_label(self) -> str | None:
        """The text that a NULL in a column of group_by counts as; None: its row is in no group."""
        return self.spec.groups.null_label

    def with_selected(self, keys: tuple[tuple[str, ...], ...]) -> "ReleasePlan":
        """The plan of a run that selected these groups, in code point order."""
        other = (self.spec.groups.other_label,) * len(self.spec.group_by)
        return replace(self, listed=(*keys, other) if self.has_other else keys)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The groups, and the coarser groupings of them."""
        return levels_of(self.spec, self.keys)

    @property
    def released_keys(self) -> tuple[tuple[str, ...], ...]:
        """What the group columns hold, row by row."""
        return released_keys(self.levels, self.spec.groups.total_label) if self.spec.rollup else self.keys

    @property
    def bounds(self) -> Bounds:
        """What one unit may contribute at most: one row where a row is a unit."""
        return contribution_bounds(self.spec.unit, self.spec.bounds)

    @property
    def drawn(self) -> tuple[DrawnTotal, ...]:
        """Every total that gets noise, each once: level by level, in the order of the queries."""
        found: dict[tuple[int, Total], DrawnTotal] = {}
        for level in range(1 + max(len(query.rolled) for query in self.queries)):
            for query in self.queries:
                for planned in query.levels[level]:
                    found.setdefault((level, planned.total), DrawnTotal(query.name, level, planned))
        return tuple(found.values())

    @property
    def selecting(self) -> DrawnTotal | None:
        """The total whose noisy values select the groups, and are released; None where no total's do."""
        if self.selection is None or not self.selection.shared:
            return None
        return next(each for each in self.drawn if each.planned.total.measure.kind is MeasureKind.UNITS)

    @property
    def tables(self) -> Mapping[str, NoiseTable]:
        """The noise tables by digest."""
        return {each.table.digest: each.table for each in self.draws}

    @property
    def draws(self) -> tuple[Fixed, ...]:
        """Everything that noise is drawn for, with what one unit moves of it: what the release costs."""
        totals = (Fixed(each.planned.table, each.planned.priced.part) for each in self.drawn)
        return (*totals, *as_fixed(self.selection))
