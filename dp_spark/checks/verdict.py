"""What a gate found, expectation by expectation, in words that hold no cell."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from dp_spark.checks.promises import Promise, PromiseKind

COLUMNS = "expect_table_columns_to_match_ordered_list"
ROWS = "expect_table_row_count_to_equal"
GROUPS = "expect_table_groups_to_be"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether one thing that is expected holds.

    Attributes:
        expectation: what is expected: a word for the kind.
        columns: of which columns; those that share a bound and an outcome stand together.
        bound: what is compared with, as a plan or a spec has it; empty where that is nothing public.
        met: whether it holds; what could not be looked at does not.
        beside: the earlier release, of a comparison with one.
    """

    expectation: str
    columns: tuple[str, ...]
    bound: str
    met: bool
    beside: str = ""

    def as_json(self) -> dict[str, Any]:
        """The outcome as evidence has it."""
        told: dict[str, Any] = {"expectation": self.expectation, "columns": list(self.columns)}
        told |= {"bound": self.bound} if self.bound else {}
        told |= {"beside": self.beside} if self.beside else {}
        return {**told, "met": self.met}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says of a table.

    Attributes:
        failed: the expectations that are not met, as name(column); () lets the table pass.
        outcomes: everything that was expected.
    """

    failed: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def verdict_of(
    columns: Sequence[str],
    groups: pa.Table,
    promises: Sequence[Promise],
    *,
    failed: tuple[str, ...],
    unmet: Iterable[str] = (),
    broken: Iterable[Promise] = (),
) -> Verdict:
    """The verdict on a table: of all of it the `unmet` do not hold, of its columns the `broken` promises."""
    unmet = frozenset(unmet)
    return Verdict(
        failed,
        (
            Outcome("columns", tuple(columns), "in this order", COLUMNS not in unmet),
            Outcome("rows", (), "one for each group", ROWS not in unmet),
            Outcome("groups", tuple(groups.column_names), "each once, in order", GROUPS not in unmet),
            *_of_promises(promises, frozenset(broken)),
        ),
    )


def _of_promises(promises: Sequence[Promise], broken: frozenset[Promise]) -> Iterator[Outcome]:
    def shared(promise: Promise) -> tuple[str, str, bool]:
        return promise.kind.value, str(promise.bound), promise not in broken

    for (kind, bound, met), alike in groupby(sorted(promises, key=shared), shared):
        if kind == PromiseKind.ORDERED:
            yield from (Outcome(kind, promise.columns, "the first is no less", met) for promise in alike)
        else:
            yield Outcome(kind, tuple(name for promise in alike for name in promise.columns), bound, met)
