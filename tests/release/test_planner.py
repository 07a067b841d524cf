"""From spec to plan: shares, noise grids, sensitivities that rounding cannot exceed, plans as bytes."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.errors import PlanRefused
from dp_spark.frames.privatize import rounded
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import basic_sum
from dp_spark.release.plan import ColumnRole, ColumnType, PlannedTotal, ReleasePlan
from dp_spark.release.planner import grid_steps, plan_release
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


def test_shares_add_up_to_the_guarantee_exactly() -> None:
    plan = planned()
    assert len(totals(plan)) == 5
    assert basic_sum([total.guarantee for total in totals(plan)]) == plan.spec.guarantee


@pytest.mark.parametrize("max_groups", [1, 3, 40])
@pytest.mark.parametrize("rows", [1, 7, 1013])
def test_every_table_covers_what_a_unit_moves_after_rounding_and_keeps_its_share(
    max_groups: int, rows: int
) -> None:
    for total in totals(planned(bounds={"max_groups": max_groups, "max_rows_per_group": rows})):
        assert total.table.sensitivity * total.grid_steps >= total.total.sensitivity
        assert total.table.max_groups == max_groups
        assert total.table.privacy_delta(total.guarantee.epsilon) <= total.guarantee.delta


@given(sensitivity=st.integers(1, 10**13), epsilon=st.fractions("1/1000", 20), max_groups=st.integers(1, 100))
def test_a_grid_wastes_little_and_stays_near_the_scale_that_was_asked(
    sensitivity: int, epsilon: Fraction, max_groups: int
) -> None:
    grid = grid_steps(sensitivity, epsilon, max_groups)
    steps = -(-sensitivity // grid)
    assert 1 <= grid <= sensitivity
    assert grid * steps < sensitivity + grid
    finest = max(1, int(1024 * epsilon / max_groups))
    assert steps <= finest
    assert grid <= -(-sensitivity // -(-finest // 2))  # no coarser than half of the finest


def test_a_grid_that_divides_is_found() -> None:
    assert grid_steps(3600, Fraction(1, 5), 2) == 36  # 100 of at most 102 steps
    assert grid_steps(2, Fraction(1, 5), 2) == 1


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
    assert total.table.entries < 2**19


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


def test_auto_takes_the_smaller_variance_and_a_named_family_is_taken() -> None:
    kinds = {
        noise: {total.table.family for total in totals(planned(noise=noise))}
        for noise in ("auto", "gaussian")
    }
    assert kinds == {"auto": {"laplace"}, "gaussian": {"gaussian"}}


def test_a_plan_survives_its_bytes() -> None:
    plan = planned()
    tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    body = plan_to_bytes(plan)
    again = plan_from_bytes(body, tables)
    assert again == plan
    assert plan_to_bytes(again) == body
    assert plan_to_bytes(planned()) == body


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
