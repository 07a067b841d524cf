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
    UNIT_VALUE = "unit_value"  # the clamped sum of a unit's values in the group, in steps
    UNITS = "units"  # 1 for a unit that keeps at least one row in the group


@dataclass(frozen=True, slots=True)
class ClampedColumn:
    """A numeric column clamped to public bounds that are multiples of `step`.

    A row whose value is NULL, NaN or no number counts for nothing; an infinite one is clamped.
    """

    column: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    per_unit: bool = False

    @property
    def lower_steps(self) -> int:
        """`lower` in steps."""
        return int(self.lower / self.step)

    @property
    def upper_steps(self) -> int:
        """`upper` in steps."""
        return int(self.upper / self.step)


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure, of a column where its kind reads one."""

    kind: MeasureKind
    of: ClampedColumn | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one unit may contribute: groups it touches, rows it keeps in each."""

    max_groups: int | None
    max_rows_per_group: int | None
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of a measure over each group, which will get noise of its own.

    Attributes:
        name: the component's name within its query.
        measure: what is summed.
        sensitivity: by how many integers one unit, added or removed, moves one group's total.
        step: the value of one integer.
    """

    name: str
    measure: Measure
    sensitivity: int
    step: Fraction


@dataclass(frozen=True, slots=True)
class NoisyTotal:
    """A released total of every group.

    Attributes:
        steps: noisy integers, shape (groups,), in grid steps.
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
        """The totals as floats, shape (groups,)."""
        return np.asarray(self.steps * float(self.grid), dtype=np.float64)


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


def total_estimate(total: NoisyTotal) -> LatticeEstimate:
    """The estimate of a query whose answer is its only total."""
    return LatticeEstimate(
        steps=total.steps,
        low_steps=total.steps - total.half_width,
        high_steps=total.steps + total.half_width,
        grid=total.grid,
        std=total.std,
    )


class Query(Protocol):
    """A kind of question: which totals it needs, and how their noisy forms answer it."""

    @property
    def on_lattice(self) -> bool:
        """Whether the answer is a released total itself (exact type, constant std)."""

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """The totals to release, with their sensitivity under `bounds` (add_remove)."""

    def estimate(self, noisy: Sequence[NoisyTotal]) -> Estimate:
        """The answer from the noisy totals, in the order of `totals`."""
