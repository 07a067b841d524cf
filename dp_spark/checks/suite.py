"""The expectations of a release: from its plan alone, and of it beside an earlier release.

A release is looked at as a whole, with one expectation for each kind of promise, however many columns it has.
Great Expectations takes milliseconds for each of its own, which are for columns that the look finds at fault.
"""

from collections.abc import Sequence
from typing import Any

import great_expectations.expectations
import pyarrow as pa
from great_expectations import ExpectationSuite
from great_expectations.expectations.expectation import Expectation

from dp_spark.checks.expectations import (
    ExpectColumnArrowTypeToBe,
    ExpectColumnValuesToBeMultiples,
    ExpectTableGroupsToBe,
    ExpectTablePromisesToBeKept,
    ExpectTableRuleToHold,
)
from dp_spark.checks.history import Rule
from dp_spark.checks.promises import LARGEST, Promise, PromiseKind, as_text
from dp_spark.publish import artefact_digest

_gxe: Any = great_expectations.expectations  # its names are re-exports, which a strict type check refuses


def table_suite(columns: Sequence[str], groups: pa.Table, promises: Sequence[Promise]) -> ExpectationSuite:
    """What must hold of a table: its columns, what tells its rows apart, and all `promises`, kind by kind."""
    kinds = dict.fromkeys(each.kind for each in promises)
    expectations = [
        _gxe.ExpectTableColumnsToMatchOrderedList(column_list=list(columns)),
        _gxe.ExpectTableRowCountToEqual(value=groups.num_rows),
        ExpectTableGroupsToBe(column_list=groups.column_names, digest=artefact_digest(groups)),
        *(
            ExpectTablePromisesToBeKept(
                kind=kind, promises=as_text(each for each in promises if each.kind is kind)
            )
            for kind in kinds
        ),
    ]
    return ExpectationSuite(name="table", expectations=expectations)


def column_suite(promises: Sequence[Promise]) -> ExpectationSuite:
    """An expectation for each of `promises`, which names its columns."""
    return ExpectationSuite(name="columns", expectations=[_expectation(each) for each in promises])


def history_suite(rules: Sequence[Rule]) -> ExpectationSuite:
    """An expectation for each of `rules`, of a release that stands beside an earlier one."""
    expectations = [
        ExpectTableRuleToHold(kind=each.kind, column=each.column, limits=each.limits) for each in rules
    ]
    return ExpectationSuite(name="history", expectations=expectations)


def _expectation(promise: Promise) -> Expectation:
    name, bound = promise.columns[0], promise.bound
    made: Expectation
    match promise.kind:
        case PromiseKind.TYPE:
            made = ExpectColumnArrowTypeToBe(column=name, type_=f"{bound}[pyarrow]")
        case PromiseKind.NOT_NULL:
            made = _gxe.ExpectColumnValuesToNotBeNull(column=name)
        case PromiseKind.MULTIPLES:
            made = ExpectColumnValuesToBeMultiples(column=name, grid=str(bound))
        case PromiseKind.FINITE:
            made = _gxe.ExpectColumnValuesToBeBetween(column=name, min_value=bound, max_value=LARGEST)
        case PromiseKind.ORDERED:
            made = _gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                column_A=name, column_B=promise.columns[1], or_equal=True
            )
        case PromiseKind.CONSTANT:
            made = _gxe.ExpectColumnValuesToBeInSet(column=name, value_set=[bound])
        case PromiseKind.SUM_OF_ONE | PromiseKind.SUMS | PromiseKind.RATE:
            made = ExpectTablePromisesToBeKept(subject=name, kind=promise.kind, promises=as_text([promise]))
    return made
