"""What one unit can do under each neighbour relation, as shifts of cells, and what that costs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dp_spark.errors import PlanRefused
from dp_spark.noise.composition import Slot, slots_delta, slots_epsilon
from dp_spark.noise.demand import checked_count

if TYPE_CHECKING:
    from dp_spark.noise.lattice import NoiseTable

# How many numbers of kept cells are priced one by one; more are priced in as many blocks.
_MOST_SPLITS = 16


@dataclass(frozen=True, slots=True)
class Part:
    """One total: what one unit moves, in how many cells, and how much it matters.

    Attributes:
        sensitivity: grid steps by which one unit moves one cell at most.
        cells: cells that one unit moves at most.
        weight: the noise scale is divided by it; 1 gives every total the same noise relative to sensitivity.
        overlap: None where `cells` cells at `sensitivity` are all that neighbours differ in: one unit comes
            or goes, or both units of a replacement are counted in already. Else one unit is replaced by
            another: each has rows in at most `cells` cells, the same ones for all parts; a cell that only one
            of them has moves by at most `sensitivity`, a cell that both have by at most `overlap`.

    Raises:
        PlanRefused: a number is out of range.
    """

    sensitivity: int
    cells: int
    weight: float = 1.0
    overlap: int | None = None

    def __post_init__(self) -> None:
        checked_count("sensitivity", self.sensitivity)
        checked_count("cells", self.cells)
        if not 0 < self.weight < math.inf:
            raise PlanRefused(
                "weight_range", f"weight = {self.weight} must be positive", way_out="give a weight near 1"
            )
        if self.overlap is not None and not 0 <= self.overlap <= 2 * self.sensitivity:
            raise PlanRefused(
                "overlap_range",
                f"overlap = {self.overlap} must lie in [0, {2 * self.sensitivity}], twice the sensitivity",
                way_out="a kept cell moves no further than one that is left and entered again",
            )

    @property
    def farthest(self) -> int:
        """Grid steps by which a cell may move at most."""
        return max(self.sensitivity, self.overlap or 0)

    @property
    def most_cells(self) -> int:
        """Cells that may move, whatever the relation; none further than `sensitivity` on average."""
        return self.cells if self.overlap is None else 2 * self.cells


class Moved(NamedTuple):
    """`cells` cells, each moved by `shift` grid steps."""

    shift: int
    cells: int


Case: TypeAlias = tuple[tuple[Moved, ...], ...]  # for each part, what moves


def worst_cases(parts: Sequence[Part], times: int = 1, most_splits: int = _MOST_SPLITS) -> tuple[Case, ...]:
    """Cases of which, for every pair of neighbours, at least one costs as much or more at every epsilon.

    Of `times` releases of all parts: what moves in all of them is counted. In each release the two units may
    have another number of cells in common; since the tables are the same, only the sum of these numbers
    matters, and it takes every value from 0 to times * cells. So `times` releases are one of as many cells.

    Parts without `overlap` move alike in every case. The others share m, the cells that both units have:
    m cells move by `overlap`, 2 (cells - m) by `sensitivity`, m = 0..cells. Sound for every pair of units,
    since units with fewer cells move fewer. Not always reached: for a mean the largest move of sum and count
    in a kept cell are counted together, although rows cannot do both.

    Fewer cases do where one of them dominates the rest, cell by cell, by the l1 lemma of `dominating_shift`:
    if no overlap is above its sensitivity, a cell at overlap costs no more than one of two at sensitivity,
    and m = 0 is the worst; if every overlap is twice its sensitivity, two cells at sensitivity cost no more
    than one at overlap, and m = cells is. Above `most_splits` cells, m in a..b is covered by b kept cells
    with 2 (cells - a) others: an upper bound, 1 / `most_splits` of the cells too many.

    Raises:
        PlanRefused: parts with overlap have different numbers of cells.
    """
    kept = [part for part in parts if part.overlap is not None]
    if len({part.cells for part in kept}) > 1:
        raise PlanRefused(
            "cells_differ",
            "totals of one release under `replace` must share their cells",
            way_out="price what moves other cells without overlap, both units counted in",
        )
    over_all = [replace(part, cells=part.cells * times) for part in parts]
    splits = _splits([part for part in over_all if part.overlap is not None], most_splits)
    return tuple(tuple(_moved(part, *split) for part in over_all) for split in splits)


def case_slots(case: Case, tables: Sequence["NoiseTable"]) -> list[Slot]:
    """What a case draws from the table of each part."""
    return [
        Slot(table, moved.cells, shift=moved.shift)
        for table, moves in zip(tables, case, strict=True)
        for moved in moves
    ]


def worst_delta(
    tables: Sequence["NoiseTable"],
    parts: Sequence[Part],
    epsilon: Fraction | float,
    *,
    times: int = 1,
) -> float:
    """The delta at `epsilon` of all parts together, `times` times, for every pair of neighbours."""
    return slots_delta([case_slots(case, tables) for case in worst_cases(parts, times)], epsilon)


def epsilon_alone(table: "NoiseTable", part: Part, delta: Fraction | float) -> float:
    """The epsilon that one part costs by itself at `delta`, for every pair of neighbours."""
    return slots_epsilon([case_slots(case, [table]) for case in worst_cases([part])], float(delta))


def _splits(parts: Sequence[Part], most: int) -> Iterator[tuple[int, int]]:
    """Pairs of kept cells and of cells that each unit has alone."""
    if not parts:
        yield 0, 0
        return
    cells = parts[0].cells
    if all(part.farthest == part.sensitivity for part in parts):
        yield 0, cells
    elif all(part.overlap == 2 * part.sensitivity for part in parts):
        yield cells, 0
    elif cells <= most:
        yield from ((kept, cells - kept) for kept in range(cells + 1))
    else:
        edges = [cells * block // most for block in range(most + 1)]
        yield from ((last, cells - first) for first, last in pairwise(edges))


def _moved(part: Part, kept: int, alone: int) -> tuple[Moved, ...]:
    if part.overlap is None:
        return (Moved(part.sensitivity, part.cells),)
    moves = Moved(part.overlap, kept), Moved(part.sensitivity, 2 * alone)
    return tuple(each for each in moves if each.shift and each.cells)
