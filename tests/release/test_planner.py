"""From spec to plan: shares, noise grids, sensitivities that rounding cannot exceed, plans as bytes."""

import json
import time
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.errors import PlanRefused
from dp_spark.frames.privatize import rounded
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import NoiseTable, Part, Slot, epsilon_alone, slots_delta, worst_delta
from dp_spark.release.ledger.cost import require_within_limit, scheduled_delta
from dp_spark.release.ledger.schedule import Schedule, noise_of
from dp_spark.release.plan import BudgetShare, ColumnRole, ColumnType, PlannedTotal, ReleasePlan
from dp_spark.release.planner import plan_from_budget, plan_release
from dp_spark.release.pricing import grid_steps
from dp_spark.release.spec import ReleaseSpec
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes

BASE: dict[str, Any] = {
    "release": "trial",
    "input": {"format": "parquet", "path": "in"},
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 3, "max_rows_per_group": 7},
    "group_by": ["town"],
    "groups": {"public": ["a", "b"]},
    "guarantee": {"epsilon": "1/3", "delta": "1e-6"},
    "queries": [
        {"name": "n", "kind": "count"},
        {"name": "total", "kind": "sum", "column": "x", "lower": -3, "upper": 1801, "step": 1},
        {"name": "middle", "kind": "mean", "column": "x", "lower": 0, "upper": "0.7", "step": "0.1"},
        {"name": "people", "kind": "ids"},
    ],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}


def planned(**changes: Any) -> ReleasePlan:
    return plan_release(ReleaseSpec(**{**BASE, **changes}))


def totals(plan: ReleasePlan) -> list[PlannedTotal]:
    return [total for query in plan.queries for total in query.totals]


def composed(plan: ReleasePlan) -> float:
    """delta of everything that a release of the plan draws, for one unit, at the release's epsilon.

    Exact for one total in one cell; else an upper bound, which is loose where delta is very small.
    """
    parts = [total.priced.part for total in totals(plan)]
    if len(parts) == parts[0].most_cells == 1:
        return totals(plan)[0].table.privacy_delta(plan.guarantee.epsilon)
    return worst_delta([total.table for total in totals(plan)], parts, plan.guarantee.epsilon)


@pytest.mark.parametrize("max_groups", [1, 3, 40])
@pytest.mark.parametrize("rows", [1, 7, 1013])
def test_everything_a_release_draws_keeps_its_guarantee_and_wastes_little(max_groups: int, rows: int) -> None:
    plan = planned(bounds={"max_groups": max_groups, "max_rows_per_group": rows})
    assert len(totals(plan)) == 5
    assert 0.9 * plan.guarantee.delta < composed(plan) <= plan.guarantee.delta
    for total in totals(plan):
        assert total.table.sensitivity * total.grid_steps >= total.total.sensitivity
        assert total.table.max_groups == max_groups


@pytest.mark.parametrize("noise", ["laplace", "logistic", "gaussian", {"subbotin": "1.5"}])
def test_a_named_family_is_taken_and_keeps_the_guarantee(noise: Any) -> None:
    plan = planned(noise=noise)
    assert {total.table.family for total in totals(plan)} == {plan.spec.noise} == {plan.noise.family}
    assert composed(plan) <= plan.guarantee.delta


def test_auto_has_no_more_variance_than_any_named_family_and_says_what_it_was_chosen_over() -> None:
    auto = planned()
    for noise in ("laplace", "logistic", "gaussian"):
        for chosen, other in zip(totals(auto), totals(planned(noise=noise)), strict=True):
            assert chosen.std <= other.std * 1.005
    assert auto.noise.runner_up not in (None, auto.noise.family)
    assert auto.noise.ratio is not None
    assert auto.noise.ratio >= 1


def test_one_count_of_one_group_is_within_two_percent_of_the_best_possible_noise() -> None:
    bounds = {"max_groups": 1, "max_rows_per_group": 1}
    over_floor = planned(queries=[{"name": "people", "kind": "ids"}], bounds=bounds).noise.over_floor
    assert over_floor is not None
    assert 1 <= over_floor < 1.02


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows"), [(12, "1e-3", 40), (20, "0.1", 7), (31, "1e-6", 1), ("0.5", "1e-15", 1)]
)
def test_a_floor_that_is_not_known_is_no_reason_to_refuse(epsilon: Any, delta: str, rows: int) -> None:
    plan = planned(
        queries=[{"name": "n", "kind": "count"}],
        bounds={"max_groups": 1, "max_rows_per_group": rows},
        guarantee={"epsilon": epsilon, "delta": delta},
    )
    assert composed(plan) <= plan.guarantee.delta
    assert plan.noise.over_floor is None or plan.noise.over_floor >= 1 - 1e-6


@pytest.mark.parametrize("noise", ["auto", "laplace", "logistic"])
def test_noise_smaller_than_128_bits_is_refused_or_planned_but_never_breaks(noise: str) -> None:
    one = {"queries": [{"name": "n", "kind": "ids"}], "guarantee": {"epsilon": 88, "delta": "0.1"}}
    with suppress(PlanRefused):
        plan = planned(noise=noise, bounds={"max_groups": 1, "max_rows_per_group": 1}, **one)
        assert composed(plan) <= plan.guarantee.delta


@given(sensitivity=st.integers(1, 10**13), finest=st.integers(1, 10**4))
def test_a_grid_wastes_little_and_is_as_fine_as_was_asked(sensitivity: int, finest: int) -> None:
    grid = grid_steps(sensitivity, finest)
    steps = -(-sensitivity // grid)
    assert 1 <= grid <= sensitivity
    assert grid * steps < sensitivity + grid
    assert steps <= finest
    assert grid <= -(-sensitivity // -(-finest // 2))  # no coarser than half of the finest


def test_a_grid_that_divides_is_found() -> None:
    assert grid_steps(3600, 102) == 36  # 100 of at most 102 steps
    assert grid_steps(2, 102) == 1


@settings(deadline=None)
@given(
    total=st.integers(-(2**60), 2**60),
    move=st.integers(-(10**6), 10**6),
    grid=st.integers(1, 10**7),
    saturation=st.integers(1, 2**60),
)
def test_rounding_and_saturating_two_totals_brings_them_no_further_apart(
    total: int, move: int, grid: int, saturation: int
) -> None:
    both = np.clip(np.array([total, total + move]), -(2**60), 2**60)
    first, second = rounded(both, grid, saturation).tolist()
    assert abs(first - second) <= -(-abs(move) // grid)
    assert max(abs(first), abs(second)) <= saturation


def test_large_ranges_are_planned_at_once() -> None:
    wide = {"name": "s", "kind": "sum", "column": "x", "lower": 0, "upper": 10**6, "step": "0.001"}
    (total,) = totals(planned(queries=[wide]))
    assert total.table.entries < 2**17


def test_a_step_far_too_fine_for_its_bounds_is_refused_with_a_way_out() -> None:
    fine = {"name": "s", "kind": "sum", "column": "x", "lower": 10**15 - 1, "upper": 10**15, "step": 1}
    with pytest.raises(PlanRefused, match="coarser"):
        planned(queries=[fine])


@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [
        (-30, 180, "0.1"),
        (0, 1, "0.001"),
        (0, "0.15", "0.0001"),
        (0, 5000, 1),
        (0, 99_999, 1),
        (0, 100_000, 100),
        (0, "1e-18", "1e-21"),
    ],
)
def test_the_default_step_is_the_coarsest_power_of_ten_with_a_thousand_in_the_range(
    lower: Any, upper: Any, step: Any
) -> None:
    query = {"name": "s", "kind": "sum", "column": "x", "lower": lower, "upper": upper}
    assert totals(planned(queries=[query]))[0].total.step == Fraction(str(step))


def test_columns_are_typed_by_their_grid() -> None:
    plan = planned()
    kinds = {column.name: column.type for column in plan.columns}
    assert kinds["n"] is ColumnType.BIGINT
    assert kinds["middle"] is kinds["n_std"] is ColumnType.DOUBLE
    tenths = {"name": "s", "kind": "sum", "column": "x", "lower": 0, "upper": "0.7", "step": "0.1"}
    (column,) = (each for each in planned(queries=[tenths]).columns if each.role is ColumnRole.VALUE)
    assert column.sql_type == "DECIMAL(19, 1)"


@pytest.mark.parametrize("select", ["optimal", "threshold"])
def test_units_that_are_replaced_share_other_groups_where_groups_are_selected(select: str) -> None:
    """None of them where groups are selected, and all of them in the totals of what was selected."""
    middle = {"name": "middle", "kind": "mean", "column": "x", "lower": -1, "upper": 1}
    plan = planned(
        neighbours="replace",
        noise="gaussian",
        groups={"private": {"select": select}},
        queries=[middle, *([{"name": "people", "kind": "ids"}] if select == "threshold" else [])],
    )
    assert plan.selection is not None
    groups, slots = plan.bounds.most_groups, []
    for table, part in plan.draws:
        if part == plan.selection.part and table is plan.selection.table:
            slots.append(Slot(table, 2 * groups, shift=1))
        elif part.overlap:
            slots.append(Slot(table, groups, shift=part.overlap))
    assert len(slots) == 3  # what selects, the sum, and the number of its values
    assert 0.99e-6 < slots_delta([slots], plan.guarantee.epsilon) <= 1e-6


def test_a_plan_survives_its_bytes() -> None:
    plan = planned()
    tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    body = plan_to_bytes(plan)
    again = plan_from_bytes(body, tables)
    assert again == plan
    assert plan_to_bytes(again) == body
    assert plan_to_bytes(planned()) == body


def test_groups_that_were_read_survive_with_the_plan_and_are_known_by_their_digest() -> None:
    plan = replace(planned(), listed=(("", "b"), ("\u00e9", '"\\')))
    tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    body = plan_to_bytes(plan)
    assert plan_from_bytes(body, tables).keys == plan.listed
    document = json.loads(body)
    document["groups"] |= {"sha256": "0" * 64}
    with pytest.raises(ValueError, match="groups of the stored plan are damaged"):
        plan_from_bytes(json.dumps(document).encode(), tables)


def test_a_stored_plan_with_another_table_under_its_name_is_refused() -> None:
    plan, other = planned(), planned(guarantee={"epsilon": 2, "delta": "1e-6"})
    swapped = dict(zip(plan.tables, (table.to_bytes() for table in other.tables.values()), strict=False))
    with pytest.raises(ValueError, match="missing"):
        plan_from_bytes(plan_to_bytes(plan), swapped)


def test_a_guarantee_is_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        PrivacyGuarantee(Fraction(0), Fraction(1, 10))
    with pytest.raises(ValueError, match="delta"):
        PrivacyGuarantee(Fraction(1), Fraction(1))


def shared(horizon: int, **changes: Any) -> ReleasePlan:
    budget = {"population": "p", "horizon": horizon}
    spec = ReleaseSpec(**{**BASE, "guarantee": "from_budget", "budget": budget, **changes})
    return plan_from_budget(spec, WHOLE)


WHOLE = PrivacyGuarantee(Fraction(4), Fraction(1, 10**6))


@pytest.mark.parametrize(("horizon", "neighbours"), [(365, "add_remove"), (30, "replace")])
def test_a_budget_over_its_horizon_gives_each_release_what_is_used_up_by_all(
    horizon: int, neighbours: str
) -> None:
    started = time.process_time()
    plan = shared(horizon, neighbours=neighbours)
    assert time.process_time() - started <= 10
    schedule = Schedule("nightly", noise_of(plan), horizon)
    together = scheduled_delta([schedule], WHOLE.epsilon)
    assert Fraction(99, 100) * WHOLE.delta < together <= WHOLE.delta
    one_more = scheduled_delta([Schedule("nightly", noise_of(plan), horizon + 5)], WHOLE.epsilon)
    assert one_more > WHOLE.delta
    require_within_limit("p", WHOLE, [schedule], [])


def test_one_release_of_a_horizon_promises_what_its_noise_keeps() -> None:
    plan = shared(30)
    assert plan.guarantee.delta == WHOLE.delta / 30
    assert WHOLE.epsilon / 30 < plan.guarantee.epsilon < WHOLE.epsilon / 4
    drawn = [total.table for total in totals(plan)]
    parts = [total.priced.part for total in totals(plan)]
    assert worst_delta(drawn, parts, plan.guarantee.epsilon) <= plan.guarantee.delta
    assert worst_delta(drawn, parts, plan.guarantee.epsilon * Fraction(99, 100)) > plan.guarantee.delta


def test_a_horizon_has_far_less_noise_than_equal_shares_of_the_budget() -> None:
    together = shared(30, noise="gaussian")
    apart = planned(guarantee={"epsilon": WHOLE.epsilon / 30, "delta": WHOLE.delta / 30}, noise="gaussian")
    assert totals(together)[0].std < 0.25 * totals(apart)[0].std
    assert max(total.table.entries for total in totals(shared(365, noise="gaussian"))) < 20_000


def test_the_horizon_may_change_the_family_that_wins() -> None:
    few = {"bounds": {"max_groups": 1, "max_rows_per_group": 1}, "queries": [{"name": "n", "kind": "count"}]}
    assert "laplace" in shared(1, **few).noise.family
    assert "laplace" not in shared(365, **few).noise.family


def test_a_shared_plan_is_read_back_and_a_plan_of_its_own_keeps_its_bytes() -> None:
    plan = shared(30)
    stored = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    assert plan_from_bytes(plan_to_bytes(plan), stored) == plan
    assert b"share" not in plan_to_bytes(planned())


def test_a_budget_is_not_shared_among_nobody_knows_how_many() -> None:
    spec = ReleaseSpec(**BASE)
    with pytest.raises(PlanRefused, match="nobody knows how many"):
        plan_from_budget(spec, WHOLE)
    assert plan_from_budget(spec, WHOLE, 7).share == BudgetShare(
        WHOLE, 7, plan_from_budget(spec, WHOLE, 7).guarantee
    )


def test_a_release_that_shares_a_budget_is_not_planned_without_it() -> None:
    spec = ReleaseSpec(**{**BASE, "guarantee": "from_budget", "budget": {"population": "p", "horizon": 9}})
    with pytest.raises(PlanRefused) as refused:
        plan_release(spec)
    assert refused.value.code == "guarantee_from_budget"


def test_what_totals_cost_alone_is_computed_once_for_those_that_are_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries = [{"name": f"n{i}", "kind": "count", "column": f"x{i}"} for i in range(30)]
    costs = []

    def noted(table: NoiseTable, part: Part, delta: Fraction) -> float:
        costs.append(epsilon_alone(table, part, delta))
        return costs[-1]

    monkeypatch.setattr("dp_spark.release.planner.epsilon_alone", noted)
    plan = planned(queries=queries)
    assert costs == [plan.drawn[0].planned.epsilon_alone]
    assert len(plan.drawn) == 30
