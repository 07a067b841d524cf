"""What a query asks of the rows (measures, totals) and what it makes of noisy totals (estimates)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Steps: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


class MeasureKind(StrEnum):
    """The integer that one kept row (or one unit) adds to its group's total."""

    ROWS = "rows"  # 1 for a row
    NON_NULL = "non_null"  # 1 for a row whose value counts
    VALUE = "value"  # the clamped value in steps: floor(value / step + 1/2)
    CENTRED = "centred"  # twice VALUE less (lower + upper) / step: half steps from the midpoint
    UNITS = "units"  # 1 for a unit that keeps at least one row in the group
    UNIT_VALUE = "unit_value"  # for a unit: its rows' values in steps, added up, then clamped
    SQUARE = "square"  # twice CENTRED^2, less the largest CENTRED^2 that bounds allow
    BIN = "bin"  # 1 for a row, in the cell of the bin that its value lies in
    DISTINCT = "distinct"  # 1 for each listed value that at least one row of the group has


# Under UNIT_VALUE a row's value is cut to this many steps either side before the rows of its unit are added:
# the sum of 2^20 rows, more than a unit may keep, then fits 64 bits.
LARGEST_UNCLAMPED = 2**40


@dataclass(frozen=True, slots=True)
class ClampedColumn:
    """A numeric column clamped to public bounds that are multiples of `step`.

    A row whose value is NULL, NaN or no number counts for nothing; an infinite one is clamped.

    Attributes:
        column: its name.
        lower: the least value that counts as it is.
        upper: the largest such value.
        step: values are rounded to it: floor(value / step + 1/2).
        per_unit: what is clamped: the value of each row, or, if true, the sum of all values that a unit keeps
            in a group, in steps. Row values are then only rounded to `step`, and cut to plus and minus
            LARGEST_UNCLAMPED steps. A unit without a value that counts in a group adds nothing there.
        presence: whether only the presence of a value is read: then it counts as 1 where there is one, of
            whatever type.
    """

    column: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    per_unit: bool = False
    presence: bool = False

    @property
    def lower_steps(self) -> int:
        """`lower` in steps."""
        return int(self.lower / self.step)

    @property
    def upper_steps(self) -> int:
        """`upper` in steps."""
        return int(self.upper / self.step)


@dataclass(frozen=True, slots=True)
class Edges:
    """Bins of a number: [edges[0], edges[1]), [edges[1], edges[2]), ...; the outer two hold what lies beyond.

    A row whose value is NULL, NaN or no number is in no bin.
    """

    column: str
    edges: tuple[Fraction, ...]

    @property
    def bins(self) -> int:
        """How many there are."""
        return len(self.edges) - 1


@dataclass(frozen=True, slots=True)
class Listed:
    """Bins of a text: one for each listed value, in NFC; a row with another value is in no bin."""

    column: str
    values: tuple[str, ...]

    @property
    def bins(self) -> int:
        """How many there are."""
        return len(self.values)


Binning: TypeAlias = Edges | Listed


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure, of a column where its kind reads one.

    Attributes:
        kind: what a row or a unit adds.
        of: the clamped column whose values are read, of the kinds that add up values.
        weight: a column from 0 up to a bound; every row's integer is multiplied by its steps, and a row
            without a weight counts for nothing. None: every row counts once. Kinds of units have none.
        binning: of BIN and DISTINCT: what says which bin a row is in.
        merged: of BIN: so many bins that stand together make one cell; the last may have fewer.
    """

    kind: MeasureKind
    of: ClampedColumn | None = None
    weight: ClampedColumn | None = None
    binning: Binning | None = None
    merged: int = 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one unit may contribute at most; None where there is no such bound.

    Attributes:
        max_groups: groups in which it keeps rows.
        max_rows_per_group: rows that it keeps in each of them.
        max_rows: rows that it keeps in all of them together.

    Raises:
        ValueError: the bounds leave a unit without limit in some group, or in the number of groups.
    """

    max_groups: int | None = None
    max_rows_per_group: int | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if self.max_rows is None and None in (self.max_groups, self.max_rows_per_group):
            raise ValueError(f"{self} bounds nothing: give max_rows, or both of the others")

    @property
    def most_groups(self) -> int:
        """The most groups in which one unit can have rows."""
        return min(bound for bound in (self.max_groups, self.max_rows) if bound is not None)

    @property
    def most_rows_in_group(self) -> int:
        """The most rows that one unit can have in one group."""
        return min(bound for bound in (self.max_rows_per_group, self.max_rows) if bound is not None)

    @property
    def most_rows(self) -> int:
        """The most rows that one unit can have in all groups together."""
        spread = self.most_groups * self.most_rows_in_group
        return spread if self.max_rows is None else min(spread, self.max_rows)


ONE_ROW = Bounds(1, 1, 1)  # of a unit that is a row


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of a measure over each group, which will get noise of its own.

    Attributes:
        name: the component's name within its query.
        measure: what is summed.
        step: the value of one integer.
        sensitivity: by how many integers one unit, added or removed, moves one group's total at most.
        cells: how many groups one unit moves at most.
        in_all: by how many integers it moves all groups together at most: the sum of the moves' sizes.
        overlap: by how many integers a group's total moves at most if one unit that has rows there is
            replaced by another that has too. If that is no more than the sensitivity, contributions to this
            total have one sign.
        bins: how many cells each group has. If more than one, `sensitivity` is by how much a unit moves all
            cells of a group together, and contributions have one sign.
    """

    name: str
    measure: Measure
    step: Fraction
    sensitivity: int
    cells: int
    in_all: int
    overlap: int
    bins: int = 1

    @property
    def adds_up(self) -> bool:
        """Whether the total of a coarser group is the sum of its groups' totals, each of one cell."""
        additive = self.measure.kind not in {
            MeasureKind.UNITS,
            MeasureKind.UNIT_VALUE,
            MeasureKind.DISTINCT,
        }
        return additive and self.bins == 1


def total_of_rows(
    name: str, measure: Measure, step: Fraction, bounds: Bounds, *, least: int, most: int
) -> Total:
    """A total to which a row adds `least`..`most` integers, or 0 where its value does not count.

    A unit's rows in a group add up to anything from rows * min(least, 0) to rows * max(most, 0), whatever
    their values: rows that do not count add 0. That is how far apart two units can be in one group.
    """
    largest, span = max(abs(least), abs(most)), max(most, 0) - min(least, 0)
    return Total(
        name,
        measure,
        step,
        sensitivity=bounds.most_rows_in_group * largest,
        cells=bounds.most_groups,
        in_all=bounds.most_rows * largest,
        overlap=bounds.most_rows_in_group * span,
    )


def total_of_units(name: str, measure: Measure, step: Fraction, bounds: Bounds, *, largest: int) -> Total:
    """A total to which a unit adds at most `largest` integers in each group, however many rows it has there.

    `overlap` is 0: the caller says what two units can differ by in one group, if not by nothing.
    """
    groups = bounds.most_groups
    return Total(name, measure, step, sensitivity=largest, cells=groups, in_all=groups * largest, overlap=0)


class Noisy(Protocol):
    """Released totals as numbers, of which estimates are made."""

    @property
    def values(self) -> Floats:
        """The totals, shape (groups,) or, of a total with several cells a group, (groups, bins)."""

    @property
    def std(self) -> float | Floats:
        """Standard deviation of each value: one for all, or of the shape of `values`."""

    @property
    def factor(self) -> float:
        """Noise lies within `factor` times `std` with probability 95 % or more."""


@dataclass(frozen=True, slots=True)
class NoisyTotal:
    """A released total of every group, as it was drawn.

    Attributes:
        steps: noisy integers in grid steps, shape (groups,), or (groups, bins) if a group has several cells.
        grid: the value of one grid step.
        std: standard deviation of the noise, in value.
        half_width: noise lies within this many grid steps with probability 95 % or more.
    """

    steps: Steps
    grid: Fraction
    std: float
    half_width: int

    @property
    def values(self) -> Floats:
        """The totals as floats."""
        return np.asarray(self.steps * float(self.grid), dtype=np.float64)

    @property
    def factor(self) -> float:
        """`half_width` in standard deviations."""
        return self.half_width * float(self.grid) / self.std


@dataclass(frozen=True, slots=True)
class SmoothedTotal:
    """Least squares estimates of a total, from released totals of several groupings: see `Noisy`."""

    values: Floats
    std: Floats
    factor: float


@dataclass(frozen=True, slots=True)
class LatticeEstimate:
    """A released total itself: value and interval are multiples of `grid`, std is a constant."""

    steps: Steps
    low_steps: Steps
    high_steps: Steps
    grid: Fraction
    std: float


@dataclass(frozen=True, slots=True)
class DerivedEstimate:
    """Numbers computed from released totals, each of shape (groups,)."""

    value: Floats
    std: Floats
    low: Floats
    high: Floats


Estimate: TypeAlias = LatticeEstimate | DerivedEstimate


def one_below_another(estimates: Sequence[Estimate]) -> Estimate:
    """The estimates of several groupings as those of one; a single one stays as it is."""
    if len(estimates) == 1:
        return estimates[0]
    parts = [each if isinstance(each, DerivedEstimate) else _off_lattice(each) for each in estimates]
    columns = zip(*((part.value, part.std, part.low, part.high) for part in parts), strict=True)
    return DerivedEstimate(*map(np.concatenate, columns))


def _off_lattice(estimate: LatticeEstimate) -> DerivedEstimate:
    grid = float(estimate.grid)
    on_grid = (estimate.steps, estimate.low_steps, estimate.high_steps)
    value, low, high = (np.asarray(steps * grid, dtype=np.float64) for steps in on_grid)
    return DerivedEstimate(value, np.full(len(value), estimate.std), low, high)


def total_estimate(total: Noisy) -> Estimate:
    """The estimate of a query whose answer is its only total."""
    if isinstance(total, NoisyTotal):
        return LatticeEstimate(
            steps=total.steps,
            low_steps=total.steps - total.half_width,
            high_steps=total.steps + total.half_width,
            grid=total.grid,
            std=total.std,
        )
    std = np.broadcast_to(total.std, total.values.shape)
    half_width = total.factor * std
    return DerivedEstimate(total.values, std, total.values - half_width, total.values + half_width)


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the numbers that a query gives for each group.

    Attributes:
        suffix: what its columns are called behind the query's name: "" or for instance "_p50".
        says: what the number is, in words, for readers of the table.
        total: index of the total that it is a cell of, where it is one; None where it is computed.
    """

    suffix: str
    says: str
    total: int | None


class Query(Protocol):
    """A kind of question: which totals it needs, and how their noisy forms answer it."""

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The numbers it gives, in the order of `estimate`."""

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The totals to release, with what one unit can move in them under `bounds`."""

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[Estimate, ...]:
        """The answers from the noisy totals, in the order of `totals`."""
