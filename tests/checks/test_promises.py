"""Promises of columns: what breaks them, and that this is what Great Expectations finds."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pandas as pd
import pyarrow as pa
import pytest
from artefacts import (
    BETWEEN,
    BROKEN,
    COLUMNS,
    DAY,
    GRID,
    GROUPS,
    IN_SET,
    NOT_NULL,
    PAIR,
    RELEASE,
    ROWS,
    SPEC,
    TYPE,
    artefact,
)
from hypothesis import given
from hypothesis import strategies as st

from dp_spark.checks.promises import Promise, PromiseKind, all_are_kept, as_text, broken, promises_of
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec

EXPECTATIONS = {
    PromiseKind.TYPE: TYPE,
    PromiseKind.NOT_NULL: NOT_NULL,
    PromiseKind.MULTIPLES: GRID,
    PromiseKind.FINITE: BETWEEN,
    PromiseKind.ORDERED: PAIR,
    PromiseKind.CONSTANT: IN_SET,
}


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_release(parse_spec(SPEC))


@pytest.fixture(scope="module")
def promises(plan: ReleasePlan) -> tuple[Promise, ...]:
    return promises_of(plan, release_id=RELEASE, period_start=DAY)


def frame_of(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def keeps(promise: Promise, *columns: pa.Array) -> bool:
    """Whether columns a, b, ... keep a promise, which both ways of asking must say alike."""
    frame = frame_of(pa.table(list(columns), names=list("ab"[: len(columns)])))
    kept = not broken(frame, [promise])
    assert all_are_kept(frame, promise.kind, as_text([promise])) is kept
    return kept


def test_a_good_artefact_keeps_all(plan: ReleasePlan, promises: tuple[Promise, ...]) -> None:
    assert broken(frame_of(artefact(plan)), promises) == ()
    of_others = {PromiseKind.SUM_OF_ONE, PromiseKind.RATE, PromiseKind.SUMS}  # surveys and rollups
    assert {each.kind for each in promises} == set(PromiseKind) - of_others


# Great Expectations finds a column whatever the case of its name.
@pytest.mark.parametrize("name", sorted(set(BROKEN) - {"renamed in case"}))
def test_a_broken_artefact_breaks_what_great_expectations_says(
    name: str, plan: ReleasePlan, promises: tuple[Promise, ...]
) -> None:
    make, expected = BROKEN[name]
    found = broken(frame_of(make(artefact(plan))), promises)
    names = {f"{EXPECTATIONS[each.kind]}({', '.join(each.columns)})" for each in found}
    assert names == expected - {COLUMNS, ROWS, GROUPS}


def test_every_promise_is_broken_by_a_table_without_its_columns(promises: tuple[Promise, ...]) -> None:
    assert broken(pd.DataFrame(), promises) == promises


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 3))
def test_a_constant_survives_its_text(constant: float, rows: int) -> None:
    column = pa.array([constant] * rows, pa.float64())
    promise = Promise(PromiseKind.CONSTANT, ("a",), constant)
    assert keeps(promise, column)
    assert not keeps(promise, pa.array([constant, constant + 1 + abs(constant)]))


@pytest.mark.parametrize(
    ("kind", "bound", "kept", "not_kept"),
    [
        (PromiseKind.TYPE, "date32[day]", pa.array([date(2024, 1, 1)]), pa.array([1])),
        (PromiseKind.NOT_NULL, "", pa.array([float("nan")]), pa.array([1, None])),
        (PromiseKind.MULTIPLES, Fraction(3), pa.array([-3, None, 6]), pa.array([3, 4])),
        (
            PromiseKind.MULTIPLES,
            Fraction(1, 4),
            pa.array([Decimal("0.75")], pa.decimal128(19, 2)),
            pa.array([0.75]),
        ),
        (PromiseKind.FINITE, 0.0, pa.array([0.0, None, 1e308]), pa.array([-1e-300])),
        (PromiseKind.FINITE, -1.0, pa.array([-1.0]), pa.array([float("nan")])),
        (PromiseKind.FINITE, 0.0, pa.array([1.0]), pa.array([float("inf")])),
        (PromiseKind.FINITE, 0.0, pa.array([], pa.float64()), pa.array(["1"])),
        (PromiseKind.CONSTANT, date(2024, 1, 1), pa.array([date(2024, 1, 1), None]), pa.array(["x"])),
        (PromiseKind.CONSTANT, "a/b", pa.array(["a/b"]), pa.array(["a/b", "a/B"])),
        (PromiseKind.CONSTANT, 0, pa.array([0], pa.int32()), pa.array([0, 1], pa.int32())),
    ],
)
def test_what_keeps_a_promise_and_what_does_not(
    kind: PromiseKind, bound: object, kept: pa.Array, not_kept: pa.Array
) -> None:
    assert keeps(Promise(kind, ("a",), bound), kept)
    assert not keeps(Promise(kind, ("a",), bound), not_kept)


@pytest.mark.parametrize(
    ("a", "b", "kept"),
    [
        ([1, 2], [1, 1], True),
        ([1, 2], [1, 3], False),
        ([1, None], [1, 1], False),
        ([1, 1], [None, 1], False),
        ([1.0, float("nan")], [1.0, 1.0], False),
        ([2**53 + 1], [2**53], True),
        ([2**53], [2**53 + 1], False),
        (["1"], [1], False),
    ],
)
def test_ends_of_an_interval_are_ordered(a: list[object], b: list[object], kept: bool) -> None:
    assert keeps(Promise(PromiseKind.ORDERED, ("a", "b")), pa.array(a), pa.array(b)) is kept


def test_no_row_breaks_no_promise(plan: ReleasePlan, promises: tuple[Promise, ...]) -> None:
    assert broken(frame_of(artefact(plan).slice(0, 0)), promises) == ()
