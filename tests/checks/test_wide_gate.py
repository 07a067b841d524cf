"""The gate on releases with many columns, without rows, and with rollups."""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from artefacts import (
    BETWEEN,
    COLUMNS,
    GRID,
    GROUPS,
    IN_SET,
    NOT_NULL,
    PAIR,
    ROWS,
    SPEC,
    TYPE,
    artefact,
    cell,
    gate,
    shifted,
    with_column,
)

from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec

QUERIES = """
  - {{name: rows{0}, kind: count, column: v{0}}}
  - {{name: sum{0}, kind: sum, column: v{0}, lower: -3, upper: 18, step: 0.25}}
  - {{name: mean{0}, kind: mean, column: v{0}, lower: 0, upper: 10}}
"""
COUNT = "  - {name: rows0, kind: count}"
HEAD, TAIL = SPEC.split("queries:")[0], SPEC[SPEC.index("budget:") :]


def planned(queries: str, **replaced: str) -> ReleasePlan:
    text = f"{HEAD}queries:\n{queries}\n{TAIL}"
    for old, new in replaced.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"{old}:"))
        text = text.replace(line, new)
    return plan_release(parse_spec(text))


@pytest.fixture(scope="module")
def wide() -> ReleasePlan:
    """A release of 48 queries: 197 columns."""
    return planned("".join(QUERIES.format(i) for i in range(16)))


@pytest.fixture(scope="module")
def table(wide: ReleasePlan) -> pa.Table:
    return artefact(wide)


def changed(table: pa.Table, *changes: Callable[[pa.Table], pa.Table]) -> pa.Table:
    for change in changes:
        table = change(table)
    return table


def test_a_wide_release_passes_in_a_fraction_of_the_time_of_one_expectation_a_column(
    wide: ReleasePlan, table: pa.Table
) -> None:
    gate(table, wide)
    start = time.process_time()
    assert gate(table, wide) == ()
    assert table.num_columns > 190
    assert time.process_time() - start < 2.0  # an expectation a column takes twice that


def test_every_kind_of_fault_is_found_in_a_wide_release_and_names_its_columns(
    wide: ReleasePlan, table: pa.Table
) -> None:
    faulty = changed(
        table,
        lambda t: with_column(t, "rows0", t["rows0"].cast(pa.int32())),
        cell("rows3_std", None),
        shifted("sum5_low", -1),
        cell("mean7_std", float("inf")),
        cell("mean8", float("nan")),
        shifted("mean9_high", -5.5),
        shifted("rows15_std", 1e-12),
        cell("carrier", "ZZ"),
    )
    assert set(gate(faulty, wide)) == {
        GROUPS,
        f"{TYPE}(rows0)",
        f"{NOT_NULL}(rows3_std)",
        f"{GRID}(sum5_low)",
        f"{BETWEEN}(mean7_std)",
        f"{BETWEEN}(mean8)",
        f"{PAIR}(mean8, mean8_low)",
        f"{PAIR}(mean8_high, mean8)",
        f"{PAIR}(mean9_high, mean9)",
        f"{IN_SET}(rows15_std)",
    }


def test_of_many_columns_at_fault_the_first_are_named_and_the_others_counted(
    wide: ReleasePlan, table: pa.Table
) -> None:
    values = [f"{kind}{i}" for i in range(16) for kind in ("rows", "sum", "mean")]
    swapped = {name: table[name] for name in table.column_names}
    for name in values:
        swapped[name], swapped[f"{name}_low"] = table[f"{name}_low"], table[name]
    *named, further = gate(pa.table(swapped, schema=table.schema), wide)
    assert named == [f"{PAIR}({name}, {name}_low)" for name in values[:30]]
    assert further == "36 more columns at fault"


@pytest.fixture(scope="module", params=["", "\nrollup: [[origin]]"], ids=["groups", "rollup"])
def private(request: pytest.FixtureRequest) -> ReleasePlan:
    return planned(COUNT, groups="groups: {private: {}}" + request.param)


def test_a_release_of_no_group_passes(private: ReleasePlan) -> None:
    plan = private.with_selected(())
    empty = artefact(plan)
    assert empty.num_rows == 0
    assert gate(empty, plan) == ()


def test_a_release_of_no_group_is_held_where_it_has_rows_or_another_type(private: ReleasePlan) -> None:
    one, none = artefact(private.with_selected((("EWR", "AA"),))), private.with_selected(())
    assert set(gate(one, none)) == {ROWS, GROUPS}
    empty = artefact(none)
    other_type = with_column(empty, "rows0", pa.array([], pa.int32()))
    assert gate(other_type, none) == (f"{TYPE}(rows0)",)
    assert set(gate(empty.drop_columns(["rows0_std"]), none)) >= {COLUMNS, f"{TYPE}(rows0_std)"}


def test_a_rollup_passes_and_is_held_where_rows_name_another_grouping() -> None:
    plan = planned(
        "  - {name: rows0, kind: count}", group_by="group_by: [origin, carrier]\nrollup: [[origin], []]"
    )
    table = artefact(plan)
    masks = np.array(table["grouping_id"].to_pylist())
    assert masks.tolist() == [0] * 6 + [1] * 3 + [3]
    assert gate(table, plan) == ()
    sums = "expect_table_promises_to_be_kept(rows0, sums)"
    assert gate(with_column(table, "grouping_id", pa.array(masks[::-1], pa.int32())), plan) == (GROUPS, sums)
    assert set(gate(cell("grouping_id", None, 7)(table), plan)) == {GROUPS, f"{NOT_NULL}(grouping_id)", sums}
    assert gate(shifted("rows0", 1e-3, 8)(table), plan) == (sums,)
    assert gate(shifted("rows0", 1e-3, 9)(table), plan) == (sums,)
