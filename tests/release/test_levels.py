"""Coarser groupings: their groups, and what one unit can move in them, against all small units."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from dp_spark.guarantee import Neighbours
from dp_spark.queries import Bounds, ClampedColumn, Count, Ids, Mean, MeasureKind, Query, Sum, Total
from dp_spark.release.levels import levels_of, released_keys
from dp_spark.release.planner import level_bounds, plan_release
from dp_spark.release.pricing import Form, part_of
from dp_spark.release.spec import BoundsSpec, ReleaseSpec

SPEC = ReleaseSpec(
    release="r",
    unit={"column": "p", "on_null": "drop"},
    bounds={"max_groups": 2, "max_rows_per_group": 2},
    group_by=["region", "town"],
    rollup=[["region"], []],
    groups={"public": [["n", "a"], ["n", "b"], ["s", "c"]]},
    guarantee={"epsilon": 1, "delta": "1e-6"},
    queries=[{"name": "n", "kind": "count"}, {"name": "people", "kind": "ids"}],
    budget={"population": "people"},
    publish=[{"sink": "parquet", "path": "out"}],
)
X = ClampedColumn("x", Fraction(-1), Fraction(2), Fraction(1))
BOUNDS = [
    Bounds(max_groups=2, max_rows_per_group=2),
    Bounds(max_rows=3),
    Bounds(max_groups=2, max_rows_per_group=2, max_rows=3),
]
COARSE = np.array([0, 0, 0, 1])  # of four groups, all but one lie in the first coarse group


def test_levels_are_the_groups_and_their_projections() -> None:
    groups, regions, total = levels_of(SPEC, SPEC.group_keys())
    assert groups.keys == (("n", "a"), ("n", "b"), ("s", "c"))
    assert (regions.keys, regions.of_group.tolist()) == ((("n", None), ("s", None)), [0, 0, 1])
    assert (total.keys, total.of_group.tolist()) == (((None, None),), [0, 0, 0])
    assert [level.mask for level in (groups, regions, total)] == [0, 1, 3]
    assert released_keys((groups, regions, total), "(all)")[3:] == (
        ("n", "(all)"),
        ("s", "(all)"),
        ("(all)", "(all)"),
    )


def test_no_group_makes_no_coarser_one() -> None:
    assert [level.keys for level in levels_of(SPEC, ())] == [(), (), ()]


def added(total: Total, rows: list[int | None]) -> int:
    values = [value for value in rows if value is not None]
    match total.measure.kind:
        case MeasureKind.ROWS:
            return len(rows)
        case MeasureKind.UNITS:
            return int(bool(rows))
        case MeasureKind.NON_NULL:
            return len(values)
        case MeasureKind.VALUE:
            return sum(values)
        case MeasureKind.CENTRED:
            return sum(2 * value - 1 for value in values)
    raise NotImplementedError(total.measure.kind)


def coarse_moves(total: Total, bounds: Bounds) -> np.ndarray:
    """What each unit within the bounds on four groups adds to the two coarse ones, shape (units, 2)."""
    values = [None, -1, 2] if total.measure.of else [None]
    units = [
        rows
        for size in range(bounds.most_rows + 1)
        for rows in combinations_with_replacement(list(product(range(4), values)), size)
        if len({group for group, _ in rows}) <= bounds.most_groups
        and max(Counter(group for group, _ in rows).values(), default=0) <= bounds.most_rows_in_group
    ]
    moves = [
        [added(total, [value for group, value in unit if COARSE[group] == coarse]) for coarse in range(2)]
        for unit in units
    ]
    return np.unique(np.array(moves), axis=0)


@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
@pytest.mark.parametrize("query", [Count(), Ids(), Sum(X), Mean(X)], ids=repr)
def test_what_a_unit_moves_of_coarser_groups_is_within_the_claims(query: Query, bounds: Bounds) -> None:
    """And reached where it should be: a claim that is one too small would be found."""
    spec = replace_bounds(bounds)
    coarser, whole = level_bounds(spec)[1:]
    for total, of_all in zip(query.totals(coarser), query.totals(whole), strict=True):
        moves = coarse_moves(total, bounds)
        assert np.abs(moves).max() == total.sensitivity
        assert (moves != 0).sum(axis=1).max() <= total.cells
        assert np.abs(moves).sum(axis=1).max() <= total.in_all
        assert of_all.cells == 1
        if total.measure.kind is not MeasureKind.UNITS:
            assert np.abs(moves.sum(axis=1)).max() == of_all.sensitivity
        pairs = moves[:, None, :] - moves[None, :, :]
        covered_by_part(pairs.reshape(-1, 2), total)


def replace_bounds(bounds: Bounds) -> ReleaseSpec:
    given = {name: getattr(bounds, name) for name in ("max_groups", "max_rows_per_group", "max_rows")}
    return SPEC.model_copy(update={"bounds": BoundsSpec(**{k: v for k, v in given.items() if v})})


def covered_by_part(moves: np.ndarray, total: Total) -> None:
    """Every move of two units in each other's place costs no more than the part, cells one by one."""
    part = part_of(total, Form.SPREAD, 1, Neighbours.REPLACE, apart=True)
    assert part.overlap is None
    sizes = np.abs(moves)
    if part.sensitivity == total.sensitivity:
        assert sizes.max() <= part.sensitivity
        assert (sizes > 0).sum(axis=1).max() <= part.cells
    else:
        far = (sizes > total.sensitivity).sum(axis=1)
        near = ((sizes > 0) & (sizes <= total.sensitivity)).sum(axis=1)
        assert sizes.max() <= part.sensitivity
        assert (far + -(-near // 2)).max() <= part.cells
    gathered = part_of(total, Form.GATHERED, 1, Neighbours.REPLACE, apart=True)
    assert sizes.sum(axis=1).max() <= gathered.sensitivity * gathered.cells


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_level_is_drawn_and_paid(neighbours: Neighbours) -> None:
    plan = plan_release(SPEC.model_copy(update={"neighbours": neighbours}))
    assert [(each.query, each.level) for each in plan.drawn] == [
        (query, level) for level in range(3) for query in ("n", "people")
    ]
    assert len(plan.draws) == len(plan.drawn) == 6
    rows = [each.planned for each in plan.drawn if each.query == "n"]
    assert [each.total.in_all for each in rows] == [4, 4, 4]
    one = plan_release(SPEC.model_copy(update={"neighbours": neighbours, "rollup": None}))
    assert one.drawn[0].planned.std < rows[0].std


def test_a_plan_with_levels_comes_back_from_its_bytes() -> None:
    from dp_spark.release.stored import plan_from_bytes, plan_to_bytes

    plan = plan_release(SPEC)
    tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    again = plan_from_bytes(plan_to_bytes(plan), tables)
    assert again == plan
    assert replace(again, share=None).drawn == plan.drawn
