"""A public sample as numbers, and which share of its rows bounds keep in expectation: closed forms."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dp_spark.queries import Bounds

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows of the released groups that have a unit.

    Attributes:
        unit: number of each row's unit, from 0 up, shape (rows,).
        group: number of its group, below `groups`, shape (rows,).
        numbers: of each column that is read as numbers, shape (rows,); NaN counts for nothing.
        present: of each column of which only the presence counts, whether there is a value, shape (rows,).
        groups: how many are released, with rows or without.
        rate: the share of a period's units that the sample holds, above 0, at most 1.
    """

    unit: Integers
    group: Integers
    numbers: Mapping[str, Floats]
    present: Mapping[str, Flags]
    groups: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Pairs of a unit and a group in which it has rows; those that bounds treat alike are one cell.

    Attributes:
        group: of the cell, shape (cells,).
        pairs: how many pairs it holds, shape (cells,).
        unit: number of the pair's unit, where each pair is a cell by itself; else 0, shape (cells,).
        unit_groups: groups in which the unit has rows, shape (cells,).
        rows: rows of each pair, shape (cells,).
        of_row: the cell that holds each row of the sample, shape (rows,).
    """

    group: Integers
    pairs: Integers
    unit: Integers
    unit_groups: Integers
    rows: Integers
    of_row: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What bounds keep of the pairs of each cell, each of shape (cells,).

    Attributes:
        chosen: the probability that the group is among those that its unit keeps.
        row: given that, the probability that a row is kept.
        any_row: given the same, the probability that at least one of the pair's rows is.
    """

    chosen: Floats
    row: Floats
    any_row: Floats


def cells_of(sample: Sample, *, apart: bool) -> Cells:
    """The cells of a sample; `apart` makes each pair one, which `max_rows` and totals of units need."""
    keys, pair_of_row, rows = np.unique(
        sample.unit * sample.groups + sample.group, return_inverse=True, return_counts=True
    )
    unit, group = np.divmod(keys, sample.groups)
    unit_groups = np.bincount(unit)[unit]
    if apart:
        return Cells(group, np.ones_like(group), unit, unit_groups, rows, pair_of_row)
    many, width = np.unique(unit_groups, return_inverse=True)
    long, height = np.unique(rows, return_inverse=True)
    kinds, of_pair, pairs = np.unique(
        (group * len(many) + width) * len(long) + height, return_inverse=True, return_counts=True
    )
    rest, height = np.divmod(kinds, len(long))
    group, width = np.divmod(rest, len(many))
    return Cells(group, pairs, np.zeros_like(group), many[width], long[height], of_pair[pair_of_row])


def kept_in(cells: Cells, bounds: Bounds) -> Kept:
    """What `bounds` keep in expectation, over the keys that decide which rows.

    A unit with g groups keeps each with probability min(1, max_groups / g); of the r rows of one, each with
    min(1, max_rows_per_group / r); of the n rows that are left in all, each with min(1, max_rows / n). The
    last is exact where n does not depend on which groups are kept; else n stands for its expectation, given
    the group. Precondition: cells are apart if `max_rows` is given.
    """
    chosen = _at_most(bounds.max_groups, cells.unit_groups)
    row = _at_most(bounds.max_rows_per_group, cells.rows)
    if bounds.max_rows is None:
        return Kept(chosen, row, np.ones(len(chosen)))
    left = row * cells.rows
    others = np.bincount(cells.unit, weights=left)[cells.unit] - left
    kept_others = np.minimum(cells.unit_groups, bounds.max_groups or np.inf) - 1
    in_all = left + others * kept_others / np.maximum(cells.unit_groups - 1, 1)
    return Kept(chosen, row * _at_most(bounds.max_rows, in_all), _any_of(left, in_all, bounds.max_rows))


def _at_most(limit: int | None, numbers: Integers | Floats) -> Floats:
    """The share that is left of each number if at most `limit` is."""
    return np.ones(len(numbers)) if limit is None else np.minimum(1.0, limit / numbers)


def _any_of(own: Floats, in_all: Floats, drawn: int) -> Floats:
    """The probability that a draw of `drawn` of `in_all` rows, without replacement, meets one of `own`."""
    found = _at_most(drawn, in_all)  # as it is for one row
    several = np.flatnonzero((own > 1) & (found < 1))
    possible = several[in_all[several] - own[several] >= drawn]
    found[several] = 1.0
    all_rows, rest = in_all[possible], in_all[possible] - own[possible]
    logs = (
        gammaln(rest + 1) - gammaln(rest - drawn + 1) + gammaln(all_rows - drawn + 1) - gammaln(all_rows + 1)
    )
    found[possible] = -np.expm1(logs)
    return found
