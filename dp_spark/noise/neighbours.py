"""What one unit can do under each neighbour relation, as shifts of cells, and what that costs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_spark.noise.composition import Slot, composed_delta

if TYPE_CHECKING:
    from dp_spark.noise.lattice import NoiseTable


@dataclass(frozen=True, slots=True)
class Moves:
    """How far one unit moves a cell of one total.

    Attributes:
        table: noise of the total.
        overlap: grid steps by which it moves a cell that it had and keeps, rows replaced:
            linf (U - L) for sums, linf for counts, 1 for ids.
        times: releases.

    The table's sensitivity is how far it moves a cell that it leaves or enters.
    """

    table: "NoiseTable"
    overlap: int
    times: int = 1


def add_remove(totals: Sequence[Moves], cells: int) -> list[Slot]:
    """One unit comes or goes: `cells` cells of every total at its sensitivity."""
    return [Slot(total.table, cells, total.times) for total in totals]


def replace_cases(totals: Sequence[Moves], cells: int) -> Iterator[list[Slot]]:
    """One unit is replaced by another: for m = 0..cells it keeps m cells and moves 2 (cells - m) others.

    The cells of all totals are the same cells, so that m is common to them.
    """
    for kept in range(cells + 1):
        slots = []
        for total in totals:
            if kept:
                slots.append(Slot(total.table, kept, total.times, total.overlap))
            if kept < cells:
                slots.append(Slot(total.table, 2 * (cells - kept), total.times))
        yield slots


def add_remove_delta(totals: Sequence[Moves], cells: int, epsilon: Fraction | float) -> float:
    """The delta at `epsilon` when one unit comes or goes."""
    return composed_delta(add_remove(totals, cells), epsilon)


def replace_delta(
    totals: Sequence[Moves],
    cells: int,
    epsilon: Fraction | float,
    *,
    price: Callable[[Sequence[Slot], Fraction | float], float] = composed_delta,
) -> float:
    """The delta at `epsilon` when one unit is replaced: the maximum over how many cells it keeps.

    Sound for every pair of units, since a cell that both have moves by at most `overlap` and one that only
    one has by at most the sensitivity. For a mean it counts the sum's and the count's largest move in a
    kept cell together, although rows cannot do both: an upper bound, not always reached.
    """
    return max(price(slots, epsilon) for slots in replace_cases(totals, cells))
