"""Whole plans against all pairs of small databases, with a delta of its own: plain convolution of losses."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import fftconvolve

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.noise import Laplace, NoiseTable, wide
from dp_spark.queries import Bounds, ClampedColumn, Count, MeasureKind, Sum
from dp_spark.release.plan import PlannedTotal, ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.pricing import Form, gathered_steps, part_of, priced_totals
from dp_spark.release.spec import ReleaseSpec
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes

RANGE = {"column": "x", "lower": -1, "upper": 3, "step": 1}
BASE: dict[str, Any] = {
    "release": "trial",
    "input": {"format": "parquet", "path": "in"},
    "unit": {"column": "person", "on_null": "drop"},
    "group_by": ["town"],
    "groups": {"public": ["a", "b"]},
    "guarantee": {"epsilon": 1, "delta": "1e-3"},
    "queries": [
        {"name": "n", "kind": "count"},
        {"name": "people", "kind": "ids"},
        {"name": "capped", "kind": "sum", "clamp": "unit", **RANGE},
        {"name": "middle", "kind": "mean", **RANGE},
    ],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}
FORMS: list[dict[str, int]] = [
    {"max_groups": 2, "max_rows_per_group": 2},
    {"max_rows": 2},
    {"max_groups": 2, "max_rows": 3},
    {"max_rows_per_group": 1, "max_rows": 2},
    {"max_groups": 2, "max_rows_per_group": 2, "max_rows": 3},
]
ROWS = {"bounds": None, "unit": {"row": "true"}, "queries": [*BASE["queries"][:2], BASE["queries"][3]]}
CASES = [*({"bounds": form} for form in FORMS), ROWS]


def planned(**changes: Any) -> ReleasePlan:
    return plan_release(ReleaseSpec(**{**BASE, **changes}))


def totals(plan: ReleasePlan) -> list[PlannedTotal]:
    return [total for query in plan.queries for total in query.totals]


Held = tuple[int, ...]  # the values (9 for none) that a unit keeps in one group, () where it has no row
Unit = tuple[Held, ...]


def kept_units(bounds: Bounds, values: tuple[int, ...]) -> list[Unit]:
    """Every unit within the bounds, in as many groups as it may have; of three, up to their order."""
    holdings: list[Held] = [
        held
        for size in range(bounds.most_rows_in_group + 1)
        for held in combinations_with_replacement(values, size)
    ]
    groups = bounds.most_groups
    units = (
        product(holdings, repeat=groups) if groups < 3 else combinations_with_replacement(holdings, groups)
    )
    return [unit for unit in units if sum(map(len, unit)) <= bounds.most_rows]


def added(total: PlannedTotal, held: Held) -> int:
    """What a unit with these rows in a group adds to it."""
    values = [value for value in held if value != 9]
    return {
        MeasureKind.ROWS: len(held),
        MeasureKind.UNITS: int(len(held) > 0),
        MeasureKind.NON_NULL: len(values),
        MeasureKind.VALUE: sum(values),
        MeasureKind.CENTRED: sum(2 * value - 2 for value in values),
        MeasureKind.UNIT_VALUE: min(max(sum(values), -1), 3),
    }[total.total.measure.kind]


def pairs(plan: ReleasePlan, bounds: Bounds, neighbours: Neighbours) -> set[tuple[tuple[Held, Held], ...]]:
    """Neighbouring databases: what the unit, or each of the two units, holds in each group that differs."""
    reads = any(total.total.measure.of for total in totals(plan))
    units = kept_units(bounds, (-1, 3, 9) if reads else (9,))
    if neighbours is Neighbours.ADD_REMOVE:
        return {tuple((held, ()) for held in unit) for unit in units}
    found = set()
    nothing: Unit = ((),) * bounds.most_groups
    for one, other in product(units, units):
        for shared in range(bounds.most_groups + 1):
            first = one + nothing[:shared]
            second = nothing[:shared] + other
            found.add(tuple(sorted(zip(first, second, strict=True))))
    return found


def shifts(plan: ReleasePlan, pair: tuple[tuple[Held, Held], ...]) -> Counter[tuple[int, int]]:
    """How many cells of each total move by how many grid steps at most, wherever the others' rows lie."""
    found: Counter[tuple[int, int]] = Counter()
    for i, total in enumerate(totals(plan)):
        for one, other in pair:
            move = abs(added(total, one) - added(total, other))
            found[i, -(-move // total.grid_steps)] += bool(move)
    return +found


def losses(table: NoiseTable, shift: int) -> tuple[dict[int, float], float]:
    """The law of the loss of one cell in thousandths, rounded down, and the mass of infinite loss."""
    half = [int(weight) for weight in wide.to_ints(table.weights)]
    reach = len(half) - 1
    law: dict[int, float] = {}
    infinite = 0.0
    for n in range(-reach, reach + 1):
        mass, other = half[abs(n)], half[abs(n - shift)] if abs(n - shift) <= reach else 0
        if mass and other:
            place = math.floor((math.log(mass) - math.log(other)) * 1000)
            law[place] = law.get(place, 0.0) + mass / 2**128
        else:
            infinite += mass / 2**128
    return law, infinite


def plain_delta(plan: ReleasePlan, moved: Counter[tuple[int, int]], cache: dict[Any, Any]) -> float:
    """delta at the release's epsilon of these shifts; low by what a thousandth of epsilon a cell is."""
    lowest, masses, finite = 0, np.ones(1), 1.0
    for (i, shift), cells in moved.items():
        if (i, shift) not in cache:
            cache[i, shift] = losses(totals(plan)[i].table, shift)
        law, infinite = cache[i, shift]
        one = np.zeros(max(law) - min(law) + 1)
        one[[place - min(law) for place in law]] = list(law.values())
        for _ in range(cells):
            masses, lowest, finite = fftconvolve(masses, one), lowest + min(law), finite * (1 - infinite)
    over = np.maximum((lowest + np.arange(len(masses))) / 1000 - float(plan.guarantee.epsilon), 0.0)
    return 1 - finite + float(np.sum(masses * -np.expm1(-over)))


def worst_plain_delta(plan: ReleasePlan, bounds: Bounds) -> float:
    """The largest over all pairs; of those the 12 with the largest sums of squares, and of sizes."""
    moved = {frozenset(shifts(plan, pair).items()) for pair in pairs(plan, bounds, plan.spec.neighbours)}
    stds = [total.table.std for total in totals(plan)]
    chosen: set[frozenset[tuple[tuple[int, int], int]]] = set()
    for power in (1, 2):
        size = {each: sum(n * (shift / stds[i]) ** power for (i, shift), n in each) for each in moved}
        chosen |= set(sorted(moved, key=lambda each: size[each])[-12:])
    cache: dict[Any, Any] = {}
    return max(plain_delta(plan, Counter(dict(each)), cache) for each in chosen)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["bounds"]))
def test_no_pair_of_small_databases_costs_more_than_the_guarantee(
    case: dict[str, Any], neighbours: Neighbours, noise: str
) -> None:
    plan = planned(**case, neighbours=neighbours, noise=noise)
    assert worst_plain_delta(plan, plan.bounds) <= 1e-3


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", ["count", "ids", "sum"])
def test_one_total_is_priced_by_what_can_happen_and_no_more(kind: str, neighbours: Neighbours) -> None:
    """Counts, ids, and a sum of values of both signs: within 3 % of the guarantee in the worst pair."""
    query = {"name": "q", "kind": kind, **(RANGE if kind == "sum" else {})}
    plan = planned(bounds=FORMS[0], neighbours=neighbours, queries=[query], noise="gaussian")
    assert 0.97e-3 <= worst_plain_delta(plan, plan.bounds) <= 1e-3


def moves_of_bins(neighbours: Neighbours) -> set[tuple[int, ...]]:
    """Sizes of the moves of three groups' two bins each, for all pairs of units of two rows in two groups."""
    cells = list(product(range(3), range(2)))
    units = [
        rows
        for size in range(5)
        for rows in combinations_with_replacement(cells, size)
        if len({group for group, _ in rows}) <= 2
        and max(Counter(group for group, _ in rows).values(), default=0) <= 2
    ]
    added = np.array([[Counter(rows)[cell] for cell in cells] for rows in units])
    pairs = added if neighbours is Neighbours.ADD_REMOVE else added[:, None, :] - added[None, :, :]
    return {tuple(row) for row in np.unique(np.sort(np.abs(pairs.reshape(-1, 6))), axis=0).tolist()}


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_bins_of_a_group_are_priced_by_what_a_unit_moves_of_them_together(
    neighbours: Neighbours, noise: str
) -> None:
    """No pair costs more than the guarantee; the worst costs nearly all of it where no kink hides it."""
    query = {"name": "q", "kind": "histogram", "column": "x", "edges": [0, 1, 2]}
    bounds = {"max_groups": 2, "max_rows_per_group": 2}
    plan = planned(bounds=bounds, neighbours=neighbours, queries=[query], noise=noise)
    (total,) = totals(plan)
    assert (total.total.bins, total.grid_steps) == (2, 1)
    moved = [
        Counter({(0, size): row.count(size) for size in {*row} - {0}}) for row in moves_of_bins(neighbours)
    ]
    least = 0.97e-3 if (neighbours, noise) == (Neighbours.ADD_REMOVE, "gaussian") else 0.4e-3
    cache: dict[Any, Any] = {}
    assert least <= max(plain_delta(plan, each, cache) for each in moved) <= 1e-3


FAULTS = [
    (FORMS[0], Bounds(2, 3)),
    (FORMS[0], Bounds(3, 2)),
    (FORMS[1], Bounds(max_rows=3)),
    (FORMS[2], Bounds(2, max_rows=4)),
]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("form", "truth"), FAULTS, ids=repr)
def test_a_bound_that_is_one_too_small_is_found(
    form: dict[str, int], truth: Bounds, neighbours: Neighbours
) -> None:
    plan = planned(bounds=form, neighbours=neighbours, queries=BASE["queries"][:1], noise="laplace")
    assert worst_plain_delta(plan, truth) > 1.5e-3


def test_noise_for_units_that_come_or_go_is_too_small_where_they_are_replaced() -> None:
    plan = planned(bounds=FORMS[0], noise="laplace")
    moved = {frozenset(shifts(plan, pair).items()) for pair in pairs(plan, plan.bounds, Neighbours.REPLACE)}
    worst = max(moved, key=lambda each: sum(n * shift / totals(plan)[i].table.std for (i, shift), n in each))
    assert plain_delta(plan, Counter(dict(worst)), {}) > 1e-2


@given(
    moves=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    grid=st.integers(1, 9),
    spare=st.integers(0, 9),
)
def test_rounding_never_moves_more_steps_than_are_priced(moves: list[int], grid: int, spare: int) -> None:
    rounded = sum(-(-move // grid) for move in moves)
    moved = sum(moves) + spare
    assert rounded <= gathered_steps(max(moved, 1), len(moves), grid)


@given(cells=st.integers(1, 5), grid=st.integers(1, 9), moved=st.integers(1, 60))
def test_the_steps_that_are_priced_can_be_reached(cells: int, grid: int, moved: int) -> None:
    touched = min(cells, moved)
    moves = [1] * (touched - 1) + [1 + (moved - touched) // grid * grid]
    assert sum(moves) <= moved
    assert sum(-(-move // grid) for move in moves) == gathered_steps(moved, cells, grid)


WANTED = PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("bounds", "form"),
    [
        (Bounds(3, 5), Form.SPREAD),
        (Bounds(3, 5, 15), Form.SPREAD),
        (Bounds(3, 5, 14), Form.GATHERED),
        (Bounds(max_rows=8), Form.GATHERED),
        (Bounds(40, 2, 70), Form.SPREAD),
        (Bounds(40, 2, 10), Form.GATHERED),
    ],
)
def test_the_cheaper_form_is_taken(bounds: Bounds, form: Form) -> None:
    """40 groups of 2 rows are better than 70 rows at once, although 70 < 80: many cells are no sum."""
    made = planned(
        bounds={name: getattr(bounds, name) for name in Bounds.__slots__}, queries=BASE["queries"][:1]
    )
    (total,) = totals(made)
    assert total.priced.form is form


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_choice_has_no_more_noise_than_either_form(neighbours: Neighbours) -> None:
    made = planned(bounds={"max_groups": 4, "max_rows_per_group": 3, "max_rows": 6}, neighbours=neighbours)
    for form in ({"max_groups": 4, "max_rows_per_group": 3}, {"max_rows": 6}):
        other = planned(bounds=form, neighbours=neighbours)
        logs = [math.log(one.std / two.std) for one, two in zip(totals(made), totals(other), strict=True)]
        assert sum(logs) / len(logs) < 0.02


def test_ids_never_gather_and_a_unit_s_total_neither() -> None:
    plan = planned(bounds={"max_groups": 4, "max_rows": 6})
    forms = {total.total.measure.kind: total.priced.form for total in totals(plan)}
    assert forms[MeasureKind.UNITS] is forms[MeasureKind.UNIT_VALUE] is Form.SPREAD
    assert forms[MeasureKind.ROWS] is forms[MeasureKind.CENTRED] is Form.GATHERED


def test_two_units_of_one_sign_are_two_cells_and_of_both_signs_one_of_twice_the_size() -> None:
    bounds, replace = Bounds(3, 5, 7), Neighbours.REPLACE
    (rows,) = Count().totals(bounds)
    part = part_of(rows, Form.GATHERED, 1, replace)
    assert (part.sensitivity, part.cells, part.overlap) == (7, 2, None)
    (mixed,) = Sum(ClampedColumn("x", Fraction(-1), Fraction(3), Fraction(1))).totals(bounds)
    part = part_of(mixed, Form.GATHERED, 1, replace)
    assert (part.sensitivity, part.cells, part.overlap) == (42, 1, None)


def test_a_form_whose_tables_are_too_large_is_no_choice() -> None:
    many, few = Bounds(max_rows=10**6), Bounds(5, max_rows=10**6)
    asked = (Neighbours.ADD_REMOVE, WANTED, (Laplace(),))
    (priced,) = priced_totals(Count().totals(few), *asked)
    assert priced.form is Form.GATHERED
    assert priced.part.sensitivity * priced.grid_steps < 10**6 * 1.02
    with pytest.raises(PlanRefused):
        planned(
            bounds={"max_rows": many.max_rows},
            queries=BASE["queries"][:1],
            guarantee={"epsilon": "0.01", "delta": "1e-6"},
        )


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("case", [CASES[4], ROWS], ids=["bounds", "rows"])
def test_plans_of_every_kind_survive_their_bytes(case: dict[str, Any], neighbours: Neighbours) -> None:
    plan = planned(**case, neighbours=neighbours, noise="gaussian")
    tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    again = plan_from_bytes(plan_to_bytes(plan), tables)
    assert again == plan
    assert again.bounds == plan.bounds
    assert plan_to_bytes(again) == plan_to_bytes(plan)
