"""Which sums a release needs of its rows, and where each stands on its way from the workers to the driver.

Sums travel in rows of `width` 64-bit integers, each row at a PLACE: one for every group, behind these one
for every group of a coarser grouping whose units workers count, behind these the cells of bins, group by
group, as many in a row as it has integers. So one shuffle adds up whatever a release asks, and a release
without bins and coarser groupings sends what it needs of each group and nothing else.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_spark.queries import Binning, ClampedColumn, Measure, MeasureKind

PLACE, EXCESS = "place", "excess"
Pair: TypeAlias = tuple[ClampedColumn, ClampedColumn | None]  # a value and its weight


@dataclass(frozen=True, slots=True)
class Binned:
    """What is added up by bin.

    Attributes:
        binning: says in which bin a row is.
        weight: how much it counts there; None: once.
        start: which of a group's cells, of all binnings together, is that of the first bin.
    """

    binning: Binning
    weight: ClampedColumn | None
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Coarser:
    """A coarser grouping whose units are counted where all rows of a unit are seen.

    Attributes:
        level: which of the plan's groupings.
        of_group: the number of the group here that holds each group of the release, shape (groups,).
        groups: how many it has.
        start: the place of the first.
    """

    level: int
    of_group: NDArray[np.int64]
    groups: int
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The sums of a plan and their places.

    Attributes:
        groups: how many the release has.
        sums: what is added up for each group.
        unit_sums: what is added up for each group of `coarser`: measures of units.
        coarser: empty where a row is a unit, since all measures add up over groups there.
        binned: what is added up by bin for each group.
        coded: the columns and binnings that rows are read through, in the order of first use.
        of_rows: whether each row is a unit.
    """

    groups: int
    sums: tuple[Measure, ...]
    unit_sums: tuple[Measure, ...]
    coarser: tuple[Coarser, ...]
    binned: tuple[Binned, ...]
    coded: tuple[ClampedColumn | Binning, ...]
    of_rows: bool

    @property
    def width(self) -> int:
        """How many integers stand at a place."""
        return max(len(self.sums), len(self.unit_sums), 1)

    @property
    def names(self) -> list[str]:
        """The columns of these integers."""
        return [f"sum_{i}" for i in range(self.width)]

    @property
    def schema(self) -> str:
        """The schema of sums, as Spark reads it."""
        return ", ".join(f"{name} long" for name in (PLACE, EXCESS, *self.names))

    @property
    def cells(self) -> int:
        """How many cells of bins a group has."""
        return self.binned[-1].start + self.binned[-1].binning.bins if self.binned else 0

    @property
    def rows_of_cells(self) -> int:
        """How many places the cells of one group take."""
        return -(-self.cells // self.width)

    @property
    def start_of_cells(self) -> int:
        """The place of the first group's first cells."""
        return self.coarser[-1].start + self.coarser[-1].groups if self.coarser else self.groups

    @property
    def powers(self) -> dict[Pair, int]:
        """Of each value and weight the highest power of the value whose weighted sum is needed."""
        found: dict[Pair, int] = {}
        for measure in self.sums:
            if measure.of is not None and measure.kind is not MeasureKind.UNIT_VALUE:
                pair, power = (measure.of, measure.weight), len(factors(measure)) - 1
                found[pair] = max(power, found.get(pair, 0))
        return found


def factors(measure: Measure) -> tuple[int, ...]:
    """What its sum is made of: times the sums of w, w * above, w * above^2, above = steps above `lower`.

    The distance from the middle in half steps is c = 2 above - span, and SQUARE's 2 c^2 - span^2 is
    8 above^2 - 8 span above + span^2.
    """
    of = measure.of
    assert of is not None  # a measure that adds up values has a column
    span = of.upper_steps - of.lower_steps
    match measure.kind:
        case MeasureKind.NON_NULL:
            return (1,)
        case MeasureKind.VALUE:
            return (of.lower_steps, 1)
        case MeasureKind.CENTRED:
            return (-span, 2)
        case MeasureKind.SQUARE:
            return (span * span, -8 * span, 8)
        case kind:
            raise NotImplementedError(kind)
