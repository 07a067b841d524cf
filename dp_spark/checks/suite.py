"""The expectations of a release, from its plan alone: no row, no earlier release."""

import sys
from collections.abc import Iterator
from datetime import date
from typing import Any

import great_expectations.expectations
import pyarrow as pa
from great_expectations import ExpectationSuite
from great_expectations.expectations.expectation import Expectation

from dp_spark.checks.expectations import (
    ExpectColumnArrowTypeToBe,
    ExpectColumnValuesToBeMultiples,
    ExpectTableGroupsToBe,
)
from dp_spark.publish import arrow_schema, artefact_digest
from dp_spark.release.ledger import ReleaseId
from dp_spark.release.plan import ColumnRole, OutputColumn, ReleasePlan

_gxe: Any = great_expectations.expectations  # its names are re-exports, which a strict type check refuses
_LARGEST = sys.float_info.max


def release_suite(plan: ReleasePlan, *, release_id: str, period_start: date) -> ExpectationSuite:
    """What must hold of every artefact of `plan`: shape, types, groups, grids, intervals, constants."""
    constants = {
        ColumnRole.PERIOD: period_start,
        ColumnRole.RELEASE: release_id,
        ColumnRole.REVISION: ReleaseId.parse(release_id).revision,
    }
    expectations = [
        *_of_the_table(plan),
        *_of_types(plan),
        *(each for column in plan.columns for each in _of_numbers(column)),
        *_of_intervals(plan),
        *(
            _gxe.ExpectColumnValuesToBeInSet(column=column.name, value_set=[constants[column.role]])
            for column in plan.columns
            if column.role in constants
        ),
    ]
    return ExpectationSuite(name="release", expectations=expectations)


def _of_the_table(plan: ReleasePlan) -> Iterator[Expectation]:
    names, keys = list(plan.spec.group_by), plan.released_keys
    yield _gxe.ExpectTableColumnsToMatchOrderedList(column_list=[column.name for column in plan.columns])
    yield _gxe.ExpectTableRowCountToEqual(value=len(keys))
    columns = zip(*keys, strict=True) if keys else [()] * len(names)
    groups = pa.table([pa.array(values, pa.string()) for values in columns], names=names)
    yield ExpectTableGroupsToBe(column_list=names, digest=artefact_digest(groups))


def _of_types(plan: ReleasePlan) -> Iterator[Expectation]:
    for field in arrow_schema(plan.columns):
        yield ExpectColumnArrowTypeToBe(column=field.name, type_=f"{field.type}[pyarrow]")
        yield _gxe.ExpectColumnValuesToNotBeNull(column=field.name)


def _of_numbers(column: OutputColumn) -> Iterator[Expectation]:
    """Lattice values lie on their grid, their std is the planned one; derived doubles are finite."""
    if column.grid is not None:
        yield ExpectColumnValuesToBeMultiples(column=column.name, grid=str(column.grid))
    elif column.constant is not None:
        yield _gxe.ExpectColumnValuesToBeInSet(column=column.name, value_set=[column.constant])
    elif column.query is not None:
        least = 0.0 if column.role is ColumnRole.STD else -_LARGEST
        yield _gxe.ExpectColumnValuesToBeBetween(column=column.name, min_value=least, max_value=_LARGEST)


def _of_intervals(plan: ReleasePlan) -> Iterator[Expectation]:
    named = {(column.query, column.answer, column.role): column.name for column in plan.columns}
    for query, answer in dict.fromkeys((each.query, each.answer) for each in plan.columns if each.query):
        low, value, high = (
            named[query, answer, role] for role in (ColumnRole.LOW, ColumnRole.VALUE, ColumnRole.HIGH)
        )
        for upper, lower in ((value, low), (high, value)):
            yield _gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A=upper, column_B=lower, or_equal=True)
