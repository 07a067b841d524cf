"""What a plan promises of every column of its released table, and whether a table keeps it."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import bdtrc

from dp_spark.checks.grid import are_multiples
from dp_spark.checks.rollups import add_up, sums_of
from dp_spark.publish import arrow_schema
from dp_spark.release.ledger import ReleaseId
from dp_spark.release.plan import ColumnRole, OutputColumn, ReleasePlan

LARGEST = sys.float_info.max
_ROUNDING = 1e-9  # of sums of shares
_UNLIKELY = 1e-9  # how often a false alarm may be


class PromiseKind(StrEnum):
    """What is promised of a column; NULL breaks NOT_NULL and ORDERED, and nothing else."""

    TYPE = "types"  # it is of the Arrow type `bound`
    NOT_NULL = "not_null"  # no value is NULL
    MULTIPLES = "multiples"  # every value is an integer times `bound`
    FINITE = "finite"  # every value is a finite number, and no less than `bound`
    ORDERED = "ordered"  # no value of the first column is less than the second's
    CONSTANT = "constants"  # every value is `bound`
    SUM_OF_ONE = "sums_of_one"  # the first column sums to 1 over the rows that are alike in the others
    SUMS = "sums"  # rows of a coarser grouping are the sums of their groups: see `rollups`
    RATE = "rates"  # of the second column no larger part than `bound` lies where the first reaches it


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that a released table keeps.

    Attributes:
        kind: what is promised.
        columns: of which columns: of ORDERED two, of those that look at groups the groups' too, else one.
        bound: what the kind compares with; its text is exact.
    """

    kind: PromiseKind
    columns: tuple[str, ...]
    bound: str | int | float | date | Fraction = ""


def promises_of(plan: ReleasePlan, *, release_id: str, period_start: date) -> tuple[Promise, ...]:
    """Everything that `plan` promises of single columns, and of the ends of its intervals."""
    constants: dict[ColumnRole, str | int | date] = {
        ColumnRole.PERIOD: period_start,
        ColumnRole.RELEASE: release_id,
        ColumnRole.REVISION: ReleaseId.parse(release_id).revision,
    }
    return (
        *_of_types(plan),
        *(each for column in plan.columns for each in _of_numbers(column)),
        *_of_intervals(plan),
        *(Promise(PromiseKind.SUMS, each.columns, each.bound) for each in sums_of(plan)),
        *(
            Promise(PromiseKind.CONSTANT, (column.name,), constants[column.role])
            for column in plan.columns
            if column.role in constants
        ),
    )


def broken(frame: pd.DataFrame, promises: Iterable[Promise]) -> tuple[Promise, ...]:
    """Those of `promises` that `frame` does not keep; one that cannot be looked at is not kept."""
    return tuple(each for each in promises if not _is_kept(frame, each.kind, each.columns, str(each.bound)))


def as_text(promises: Iterable[Promise]) -> str:
    """The columns and bounds of promises of one kind, for `all_are_kept`."""
    return json.dumps([(each.columns, str(each.bound)) for each in promises])


def all_are_kept(frame: pd.DataFrame, kind: PromiseKind, promises: str) -> bool:
    """Whether `frame` keeps all promises of a text that `as_text` made."""
    return all(_is_kept(frame, kind, names, bound) for names, bound in json.loads(promises))


def arrow_of(column: "pd.Series[Any]") -> "pa.Array[Any]":
    """The column's own Arrow data, in one chunk."""
    array = pa.array(column)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _of_types(plan: ReleasePlan) -> Iterator[Promise]:
    for field in arrow_schema(plan.columns):
        yield Promise(PromiseKind.TYPE, (field.name,), str(field.type))
        yield Promise(PromiseKind.NOT_NULL, (field.name,))


def _of_numbers(column: OutputColumn) -> Iterator[Promise]:
    """Lattice values lie on their grid, their std is the planned one; derived doubles are finite."""
    if column.grid is not None:
        yield Promise(PromiseKind.MULTIPLES, (column.name,), column.grid)
    elif column.constant is not None:
        yield Promise(PromiseKind.CONSTANT, (column.name,), column.constant)
    elif column.query is not None:
        least = 0.0 if column.role is ColumnRole.STD else -LARGEST
        yield Promise(PromiseKind.FINITE, (column.name,), least)


def _of_intervals(plan: ReleasePlan) -> Iterator[Promise]:
    named = {(column.query, column.answer, column.role): column.name for column in plan.columns}
    for query, answer in dict.fromkeys((each.query, each.answer) for each in plan.columns if each.query):
        low, value, high = (
            named[query, answer, role] for role in (ColumnRole.LOW, ColumnRole.VALUE, ColumnRole.HIGH)
        )
        yield Promise(PromiseKind.ORDERED, (value, low))
        yield Promise(PromiseKind.ORDERED, (high, value))


def _is_kept(frame: pd.DataFrame, kind: PromiseKind, names: Iterable[str], bound: str) -> bool:
    try:
        return _holds(kind, [arrow_of(frame[name]) for name in names], bound)
    except Exception:  # noqa: BLE001  # its text may hold cells; whatever it is, nothing was shown to hold
        return False


def _holds(  # noqa: PLR0911  # a case for each kind
    kind: PromiseKind, columns: "list[pa.Array[Any]]", bound: str
) -> bool:
    column = columns[0]
    present = column.drop_null() if column.null_count else column
    match kind:
        case PromiseKind.TYPE:
            return str(column.type) == bound
        case PromiseKind.NOT_NULL:
            return column.null_count == 0
        case PromiseKind.MULTIPLES:
            return bool(are_multiples(present, Fraction(bound)).all())
        case PromiseKind.FINITE:
            numbers = present.to_numpy(zero_copy_only=False)
            return bool((np.isfinite(numbers) & (numbers >= float(bound))).all())
        case PromiseKind.ORDERED:
            _, below = columns
            nulls = column.null_count + below.null_count
            return nulls == 0 and bool(pc.all(pc.greater_equal(column, below), min_count=0).as_py())
        case PromiseKind.CONSTANT:
            wanted = pa.scalar(bound).cast(column.type)
            return bool(pc.all(pc.equal(present, wanted), min_count=0).as_py())
        case PromiseKind.SUM_OF_ONE:
            return _sum_to_one(columns)
        case PromiseKind.SUMS:
            return add_up(columns, bound)
        case PromiseKind.RATE:
            first, rate = bound.split()
            return _is_rate(columns, int(first), float(rate))


def _sum_to_one(columns: "list[pa.Array[Any]]") -> bool:
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table(dict(zip(names, columns, strict=True)))
    sums = table.group_by(names[1:]).aggregate([(names[0], "sum")])
    return bool((np.abs(sums[f"{names[0]}_sum"].to_numpy() - 1) <= _ROUNDING).all())


def _is_rate(columns: "list[pa.Array[Any]]", first: int, rate: float) -> bool:
    """Whether chance puts so much where the first column is large, more often than _UNLIKELY."""
    reached, weight = (column.to_numpy(zero_copy_only=False) for column in columns)
    total, above = int(weight.sum()), int(weight[reached >= first].sum())
    return above == 0 or (rate > 0 and float(bdtrc(above - 1, total, rate)) >= _UNLIKELY)
