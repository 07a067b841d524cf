"""What one unit, or two in each other's place, can move: all pairs of small databases against the claims.

A unit is a multiset of kept rows, each in a group with a value or none and a weight or none, within the
bounds. Everybody else's rows cancel, so that a pair of units is a pair of neighbouring databases; only of a
number of distinct values they do not, and every set of values that others may have is tried.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, product
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_spark.queries import (
    ONE_ROW,
    Bounds,
    ClampedColumn,
    Count,
    Distinct,
    Edges,
    Extreme,
    Histogram,
    Ids,
    Listed,
    Mean,
    MeasureKind,
    Quantiles,
    Query,
    Ratio,
    Std,
    Sum,
    Total,
    Values,
    Variance,
)

Integers: TypeAlias = NDArray[np.int16]
Row: TypeAlias = tuple[int | None, int | None]  # value in steps or bin, weight in steps; None: there is none
Unit: TypeAlias = tuple[tuple[int, Row], ...]  # rows in groups
Others: TypeAlias = frozenset[int]  # listed values that others have in a group

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


WEIGHT = ClampedColumn("w", Fraction(0), Fraction(3), Fraction(1))
FEW, MANY = (Edges("x", tuple(map(Fraction, range(bins + 1)))) for bins in (3, 10))
QUERIES: list[Query] = [
    Count(),
    Count(WEIGHT),
    Values("x"),
    Ids(),
    *(Sum(clamped(*each)) for each in RANGES),
    *(Sum(clamped(*each), WEIGHT) for each in RANGES),
    *(Sum(clamped(*each, per_unit=True)) for each in RANGES),
    *(Mean(clamped(*each)) for each in RANGES[:3]),
    Mean(clamped(-1, 3), WEIGHT),
    *(Variance(clamped(*each)) for each in RANGES[:3]),
    Std(clamped(-1, 4), WEIGHT),
    *(Distinct(Listed("x", values)) for values in (("a", "b"), ("a",))),
    Histogram(FEW),
    Histogram(FEW, WEIGHT),
    Histogram(Edges("x", (Fraction(0), Fraction(1))), WEIGHT),
    Quantiles(MANY, (Fraction(1, 2),)),
    Extreme(MANY, Fraction(1, 100), WEIGHT),
    Ratio(Sum(clamped(-1, 3), WEIGHT), Ids(), Fraction(0), Fraction(1)),
]


def kept_units(bounds: Bounds, rows: Sequence[Row]) -> list[Unit]:
    """Every unit that keeps such rows within the bounds, in twice as many groups as one can have."""
    groups = range(2 * bounds.most_groups)
    return [
        unit
        for size in range(bounds.most_rows + 1)
        for unit in combinations_with_replacement(list(product(groups, rows)), size)
        if len({group for group, _ in unit}) <= bounds.most_groups
        and max(Counter(group for group, _ in unit).values(), default=0) <= bounds.most_rows_in_group
    ]


def contribution(total: Total, rows: Sequence[Row], others: Others) -> list[int]:
    """What a unit with these kept rows adds to each cell of one group, straight from words."""
    measure = total.measure
    counted = [(value, weight) for value, weight in rows if value is not None and weight is not None]
    values, of = [value for value, _ in counted], measure.of
    span = of.upper_steps - of.lower_steps if of is not None else 0
    centred = [2 * value - of.lower_steps - of.upper_steps for value in values] if of is not None else []
    weights = [weight for _, weight in counted]
    match measure.kind:
        case MeasureKind.ROWS:
            return [len(rows)]
        case MeasureKind.UNITS:
            return [int(len(rows) > 0)]
        case MeasureKind.NON_NULL:
            return [sum(weights)]
        case MeasureKind.VALUE:
            return [sum(weight * value for value, weight in counted)]
        case MeasureKind.CENTRED:
            return [sum(weight * each for weight, each in zip(weights, centred, strict=True))]
        case MeasureKind.SQUARE:
            squares = [2 * each**2 - span**2 for each in centred]
            return [sum(weight * each for weight, each in zip(weights, squares, strict=True))]
        case MeasureKind.UNIT_VALUE:
            assert of is not None
            return [min(max(sum(values), of.lower_steps), of.upper_steps) if values else 0]
        case MeasureKind.BIN:
            in_cells = [(value // measure.merged, weight) for value, weight in counted]
            return [sum(weight for at, weight in in_cells if at == cell) for cell in range(total.bins)]
        case MeasureKind.DISTINCT:
            return [len(others | set(values)) - len(others)]


def rows_of(total: Total) -> list[Row]:
    """The rows that matter: values at the ends, in the middle and beyond, or in bins; and none."""
    of, binning, weight = total.measure.of, total.measure.binning, total.measure.weight
    most = 1 if weight is None else weight.upper_steps
    values: list[int] = []
    if of is not None:
        values = [of.lower_steps, of.upper_steps, *([-9, 9] if of.per_unit else [])]
        if total.measure.kind is MeasureKind.SQUARE:
            values.append((of.lower_steps + of.upper_steps) // 2)
    elif binning is not None:
        values = sorted({0, total.measure.merged - 1, binning.bins - 1})
    nothing: list[Row] = [(None, most)] if weight is None or not values else [(values[-1], None)]
    return [*nothing, *((value, most) for value in values)]


def worlds_of(total: Total) -> list[Others]:
    """What others may have in a group, where it matters: of listed values, any of them."""
    if total.measure.kind is not MeasureKind.DISTINCT or total.measure.binning is None:
        return [frozenset()]
    values = range(total.measure.binning.bins)
    return [
        frozenset(each) for each in chain(*(combinations(values, size) for size in range(len(values) + 1)))
    ]


def contributions(total: Total, bounds: Bounds) -> tuple[Integers, NDArray[np.bool_]]:
    """What units add, shape (worlds, units, groups, cells), and where they have rows, shape (units, groups).

    No two units are alike in all of that; cells that no unit adds to are left out.
    """
    units, worlds = kept_units(bounds, rows_of(total)), worlds_of(total)
    groups = 2 * bounds.most_groups
    held = [[[row for where, row in unit if where == group] for group in range(groups)] for unit in units]
    known = {tuple(rows): [contribution(total, rows, others) for others in worlds] for rows in chain(*held)}
    added = np.array([[known[tuple(rows)] for rows in unit] for unit in held], dtype=np.int16)
    present = np.array([[bool(rows) for rows in unit] for unit in held])
    flat = np.concatenate([added.reshape(len(units), -1), present], axis=1)
    distinct = np.unique(flat, axis=0, return_index=True)[1]
    touched = np.any(added, axis=(0, 1, 2))
    return np.moveaxis(added[distinct][..., touched], 2, 0), present[distinct]


@cache
def worst(total: Total, bounds: Bounds) -> Mapping[str, int]:
    """The true worst case of everything that is claimed of a total, and of two units.

    That is how far all groups together move; and by how much, at most, a group that both are in moves
    further than the larger of the moves of one. Whatever others have.
    """
    added, present = contributions(total, bounds)
    sizes = np.abs(added).sum(axis=3)
    pairs = np.abs(added[:, :, None] - added[:, None]).sum(axis=4)
    beyond = pairs - np.maximum(sizes[:, :, None], sizes[:, None])
    both = present[:, None, :] & present[None, :, :]
    size, pair = sizes.max(axis=0), pairs.max(axis=0)
    found = {
        "sensitivity": size.max(),
        "cells": (size > 0).sum(axis=1).max(),
        "in_all": size.sum(axis=1).max(),
        # Two units in one group with several cells count as two groups.
        "overlap": np.where(both, pair, 0).max() if total.bins == 1 else 0,
        "in_all of two units": pair.sum(axis=2).max(),
        "beyond the larger": beyond.max(),
    }
    return {name: int(most) for name, most in found.items()}


def worst_case(total: Total, bounds: Bounds) -> Mapping[str, int]:
    """As `worst`, which is found once for all totals of one measure: it does not look at claims."""
    bare = replace(total, name="", step=Fraction(1), sensitivity=0, cells=0, in_all=0, overlap=0)
    return worst(bare, bounds)


def faults(total: Total, bounds: Bounds) -> dict[str, tuple[int, int]]:
    """What is claimed of a total, and the true worst case, where the two differ."""
    truth = worst_case(total, bounds)
    claims = {name: getattr(total, name) for name in ("sensitivity", "cells", "in_all", "overlap")}
    claims["in_all of two units"] = 2 * total.in_all
    return {name: (claim, truth[name]) for name, claim in claims.items() if claim != truth[name]}


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
        if total.overlap <= total.sensitivity and total.bins == 1:
            assert worst_case(total, bounds)["beyond the larger"] <= 0


@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
@pytest.mark.parametrize("query", [each for each in QUERIES if each.totals(ONE_ROW)[0].bins > 1], ids=repr)
def test_two_units_move_several_cells_of_a_group_as_two_groups_would(query: Query, bounds: Bounds) -> None:
    """What a pair moves up is what the one unit may move, in each group and in all; down, the other."""
    for total in query.totals(bounds):
        (added,), _ = contributions(total, bounds)
        difference = added[:, None] - added[None]
        assert added.min() == 0
        for part in (np.maximum(difference, 0), np.maximum(-difference, 0)):
            in_group = part.sum(axis=3)
            assert in_group.max() <= total.sensitivity
            assert in_group.sum(axis=2).max() <= total.in_all
            assert (in_group > 0).sum(axis=2).max() <= total.cells


WRONG: list[Query] = [
    Sum(clamped(-1, 3)),
    Count(WEIGHT),
    Variance(clamped(-1, 3), WEIGHT),
    Distinct(Listed("x", ("a", "b", "c"))),
]


@pytest.mark.parametrize("query", WRONG, ids=repr)
@pytest.mark.parametrize("name", ["sensitivity", "cells", "in_all", "overlap"])
def test_a_claim_that_is_one_too_small_is_found(name: str, query: Query) -> None:
    bounds = BOUNDS[4]
    *_, total = query.totals(bounds)
    assert faults(total, bounds) == {}
    assert name in faults(replace(total, **{name: getattr(total, name) - 1}), bounds)


@pytest.mark.parametrize("name", ["sensitivity", "cells", "in_all"])
def test_a_claim_about_several_cells_that_is_one_too_small_is_found(name: str) -> None:
    bounds = BOUNDS[4]
    for total in Quantiles(MANY, (Fraction(1, 2),), WEIGHT).totals(bounds):
        assert name in faults(replace(total, **{name: getattr(total, name) - 1}), bounds)


def test_contributions_that_are_squared_with_another_middle_are_found() -> None:
    """The least of 2 c^2 - span^2 is reached in the middle: a claim that forgets it is too small."""
    bounds = BOUNDS[0]
    *_, squares = Variance(clamped(-1, 3)).totals(bounds)
    assert "overlap" in faults(replace(squares, overlap=squares.sensitivity), bounds)


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
