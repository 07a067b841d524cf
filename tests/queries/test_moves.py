"""What one unit, or two in each other's place, can move: all pairs of small databases against the claims.

A unit is a multiset of kept rows, each in a group with a value or none, within the bounds. Everybody else's
rows cancel, so that a pair of units is a pair of neighbouring databases.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_spark.queries import (
    ONE_ROW,
    Bounds,
    ClampedColumn,
    Count,
    Ids,
    Mean,
    Measure,
    MeasureKind,
    Query,
    Sum,
    Total,
)

Integers = NDArray[np.int64]
Unit = tuple[tuple[int, int | None], ...]  # rows: a group and a value in steps, or None

BOUNDS = [
    Bounds(max_groups=2, max_rows_per_group=2),
    Bounds(max_rows=3),
    Bounds(max_groups=2, max_rows=3),
    Bounds(max_rows_per_group=2, max_rows=3),
    Bounds(max_groups=2, max_rows_per_group=2, max_rows=3),
    Bounds(max_groups=5, max_rows_per_group=5, max_rows=2),
    ONE_ROW,
]
RANGES = [(-1, 3), (1, 2), (-4, -2), (0, 2)]


def clamped(lower: int, upper: int, *, per_unit: bool = False) -> ClampedColumn:
    return ClampedColumn("x", Fraction(lower), Fraction(upper), Fraction(1), per_unit)


QUERIES: list[Query] = [
    Count(),
    Ids(),
    *(Sum(clamped(*each)) for each in RANGES),
    *(Sum(clamped(*each, per_unit=True)) for each in RANGES),
    *(Mean(clamped(*each)) for each in RANGES[:3]),
]


def kept_units(bounds: Bounds, values: list[int | None]) -> list[Unit]:
    """Every unit that keeps rows within the bounds, in twice as many groups as one can have."""
    groups = range(2 * bounds.most_groups)
    return [
        rows
        for size in range(bounds.most_rows + 1)
        for rows in combinations_with_replacement(list(product(groups, values)), size)
        if len({group for group, _ in rows}) <= bounds.most_groups
        and max(Counter(group for group, _ in rows).values(), default=0) <= bounds.most_rows_in_group
    ]


def contribution(measure: Measure, rows: list[int | None]) -> int:
    """What a unit with these kept values adds to one group, straight from words."""
    values, of = [value for value in rows if value is not None], measure.of
    match measure.kind:
        case MeasureKind.ROWS:
            return len(rows)
        case MeasureKind.UNITS:
            return int(len(rows) > 0)
        case MeasureKind.NON_NULL:
            return len(values)
        case MeasureKind.VALUE:
            return sum(values)
        case MeasureKind.CENTRED:
            assert of is not None
            return sum(2 * value - of.lower_steps - of.upper_steps for value in values)
        case MeasureKind.UNIT_VALUE:
            assert of is not None
            return min(max(sum(values), of.lower_steps), of.upper_steps) if values else 0


def values_of(total: Total) -> list[int | None]:
    """The values that matter: the ends and beyond, where a unit's total is clamped; and none."""
    of = total.measure.of
    if of is None:
        return [None]
    ends: list[int | None] = [of.lower_steps, of.upper_steps]
    return [None, *ends, *([-9, 9] if of.per_unit else [])]


def contributions(total: Total, bounds: Bounds) -> tuple[Integers, NDArray[np.bool_]]:
    """What units add to every group, and in which they have rows: both of shape (units, groups), distinct."""
    units = kept_units(bounds, values_of(total))
    groups = 2 * bounds.most_groups
    held = [[[value for where, value in unit if where == group] for group in range(groups)] for unit in units]
    added = [[contribution(total.measure, rows) for rows in unit] for unit in held]
    present = [[bool(rows) for rows in unit] for unit in held]
    distinct = np.unique(np.concatenate([added, present], axis=1), axis=0)
    return distinct[:, :groups], distinct[:, groups:] > 0


def faults(total: Total, bounds: Bounds) -> dict[str, tuple[int, int]]:
    """What is claimed of a total, and the true worst case, where the two differ."""
    added, present = contributions(total, bounds)
    moves = np.abs(added[:, None, :] - added[None, :, :])
    both = present[:, None, :] & present[None, :, :]
    truth = {
        "sensitivity": np.abs(added).max(),
        "cells": (added != 0).sum(axis=1).max(),
        "in_all": np.abs(added).sum(axis=1).max(),
        "overlap": np.where(both, moves, 0).max(),
    }
    claims = {name: getattr(total, name) for name in truth}
    found = {name: (claims[name], int(truth[name])) for name in truth if claims[name] != truth[name]}
    if moves.sum(axis=2).max() != 2 * total.in_all:
        found["in_all of two units"] = 2 * total.in_all, int(moves.sum(axis=2).max())
    return found


@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_every_claim_is_exactly_the_worst_case_of_all_small_databases(query: Query, bounds: Bounds) -> None:
    for total in query.totals(bounds):
        assert faults(total, bounds) == {}


@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_where_contributions_have_one_sign_two_units_move_two_cells(query: Query, bounds: Bounds) -> None:
    """Each cell that both have moves by no more than the larger of what they add to it."""
    for total in query.totals(bounds):
        if total.overlap <= total.sensitivity:
            added, _ = contributions(total, bounds)
            moves = np.abs(added[:, None, :] - added[None, :, :])
            sizes = np.abs(added)
            assert np.all(moves <= np.maximum(sizes[:, None, :], sizes[None, :, :]))


@pytest.mark.parametrize("name", ["sensitivity", "cells", "in_all", "overlap"])
def test_a_claim_that_is_one_too_small_is_found(name: str) -> None:
    bounds = BOUNDS[4]
    (total,) = Sum(clamped(-1, 3)).totals(bounds)
    assert name in faults(replace(total, **{name: getattr(total, name) - 1}), bounds)


@pytest.mark.parametrize(
    ("bounds", "groups", "in_group", "rows"),
    [
        (Bounds(3, 5), 3, 5, 15),
        (Bounds(3, 5, 7), 3, 5, 7),
        (Bounds(max_rows=7), 7, 7, 7),
        (Bounds(3, None, 7), 3, 7, 7),
        (Bounds(None, 5, 7), 7, 5, 7),
        (Bounds(9, 9, 7), 7, 7, 7),
        (ONE_ROW, 1, 1, 1),
    ],
)
def test_bounds_say_the_most_of_everything(bounds: Bounds, groups: int, in_group: int, rows: int) -> None:
    assert (bounds.most_groups, bounds.most_rows_in_group, bounds.most_rows) == (groups, in_group, rows)


@pytest.mark.parametrize("bounds", [{}, {"max_groups": 3}, {"max_rows_per_group": 3}])
def test_bounds_that_leave_a_unit_without_limit_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_rows"):
        Bounds(**bounds)
