"""The released table: answers laid out in the plan's columns, with the plan's exact types."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from dp_spark.publish.artefact import arrow_schema
from dp_spark.queries import DerivedEstimate, Estimate
from dp_spark.queries.measure import Steps
from dp_spark.release.plan import DECIMAL_PRECISION, ColumnRole, ColumnType, OutputColumn, ReleasePlan
from dp_spark.release.spec import GROUPING_COLUMN


def released_table(
    plan: ReleasePlan,
    estimates: Sequence[tuple[Estimate, ...]],
    *,
    period_start: date,
    release_id: str,
    revision: int,
) -> pa.Table:
    """One row for each group, then for each coarser one; `estimates` stand in the order of `plan.queries`."""
    levels, keys = plan.levels, plan.released_keys
    constants = {
        ColumnRole.PERIOD: period_start,
        ColumnRole.RELEASE: release_id,
        ColumnRole.REVISION: revision,
    }
    groups = iter(zip(*keys, strict=True) if keys else [()] * len(plan.spec.group_by))
    answers = {
        (query.name, answer.suffix): found
        for query, all_found in zip(plan.queries, estimates, strict=True)
        for answer, found in zip(query.query.answers, all_found, strict=True)
    }
    schema = arrow_schema(plan.columns)

    def array(column: OutputColumn, kind: pa.DataType) -> "pa.Array[Any]":
        if column.role in constants:
            return pa.array([constants[column.role]] * len(keys), kind)
        if column.role is ColumnRole.GROUP:
            return pa.array(next(groups), kind)
        if column.role is ColumnRole.GROUPING:
            masks = [np.full(len(level.keys), level.mask) for level in levels]
            return pa.array(np.concatenate(masks), kind)
        assert column.query is not None  # every other column answers a query
        return _answer(answers[column.query, column.answer], column, len(keys))

    return pa.Table.from_arrays(
        [array(column, field.type) for column, field in zip(plan.columns, schema, strict=True)], schema=schema
    )


def with_released_groups(plan: ReleasePlan, table: pa.Table) -> ReleasePlan:
    """The plan with the groups of its released table, as they have to stand there; a public plan as it is."""
    if plan.selection is None:
        return plan
    masks = table[GROUPING_COLUMN].to_pylist() if plan.spec.rollup else [0] * table.num_rows
    rows = zip(*(table[name].to_pylist() for name in plan.spec.group_by), strict=True)
    keys = (key for key, mask in zip(rows, masks, strict=True) if mask == 0)
    other = {(plan.spec.groups.other_label,) * len(plan.spec.group_by)} if plan.has_other else set()
    return plan.with_selected(tuple(sorted(set(keys) - other)))


def _answer(estimate: Estimate, column: OutputColumn, rows: int) -> "pa.Array[Any]":
    if isinstance(estimate, DerivedEstimate):
        numbers = {
            ColumnRole.VALUE: estimate.value,
            ColumnRole.STD: estimate.std,
            ColumnRole.LOW: estimate.low,
            ColumnRole.HIGH: estimate.high,
        }
        return pa.array(numbers[column.role] + 0.0, pa.float64())
    if column.role is ColumnRole.STD:
        return pa.array(np.full(rows, column.constant), pa.float64())
    steps = {
        ColumnRole.VALUE: estimate.steps,
        ColumnRole.LOW: estimate.low_steps,
        ColumnRole.HIGH: estimate.high_steps,
    }
    return _on_grid(steps[column.role], column)


def _on_grid(steps: Steps, column: OutputColumn) -> "pa.Array[Any]":
    """Grid steps as BIGINT or DECIMAL; the planner's saturation keeps the unscaled value in 64 bits."""
    assert column.grid is not None  # lattice columns have one
    unscaled = steps * int(column.grid * 10**column.decimals)
    if column.type is ColumnType.BIGINT:
        return pa.array(unscaled, pa.int64())
    halves = np.stack([unscaled, unscaled >> 63], axis=1).astype("<i8")  # 128 bits, sign extended
    kind = pa.decimal128(DECIMAL_PRECISION, column.decimals)
    return pa.Array.from_buffers(kind, len(steps), [None, pa.py_buffer(halves.tobytes())])
