"""A release beside an earlier one of its name: which rules there are, and whether they hold.

Both are tables of released numbers. A frame has a row for each group of either. Its columns `.now` and
`.then` say whether a release has it; `NAME` and `NAME.then` are released values, `NAME_std` and
`NAME_std.then` their noise, NULL where the group is not.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.release.plan import ColumnRole, ReleasePlan

NOW, THEN = ".now", ".then"


class HistoryCheck(StrEnum):
    """What is looked at, in the words of evidence."""

    VANISHED_GROUP = "vanished_group"  # a group of the earlier release is gone
    MISSING_PERIOD = "missing_period"  # the period before is not sealed
    IDENTICAL_VALUES = "identical_values"  # every released value is the earlier one
    LARGE_CHANGE = "large_change"  # a value moved by more than its share and noise
    NOT_COMPARED = "not_compared"  # there is an earlier release, and nothing to compare with


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that has to hold of a release beside an earlier one.

    Attributes:
        kind: of the first, third and fourth; the others need no numbers.
        column: of LARGE_CHANGE the value's; of IDENTICAL_VALUES all of them, as a JSON list; else empty.
        limits: of LARGE_CHANGE the share and the number of standard deviations, `1/2 4`; else empty.
    """

    kind: HistoryCheck
    column: str = ""
    limits: str = ""


def beside(now: pa.Table, then: pa.Table, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """The frame of the rules; `keys` tell the rows of either table apart, `values` are columns of both.

    The keys stay in it under their own names, before everything else.
    """
    here, there = (
        table.select(list(keys)).to_pandas().assign(**{mark: np.arange(len(table))})
        for table, mark in ((now, NOW), (then, THEN))
    )
    joined = here.merge(there, on=list(keys), how="outer", validate="one_to_one")
    columns: dict[str, Any] = {}
    for table, mark, suffix in ((now, NOW, ""), (then, THEN, THEN)):
        rows = pa.array(joined[mark], pa.int64(), from_pandas=True)
        columns |= {f"{name}{suffix}": _arrow(table[name].take(rows)) for name in values}
    present = joined.assign(**{mark: joined[mark].notna() for mark in (NOW, THEN)})
    return pd.concat([present, pd.DataFrame(columns)], axis=1)


def rules_of(values: Sequence[str], share: Fraction, sigma: Fraction) -> tuple[Rule, ...]:
    """The rules that look at a change of each of `values`."""
    return tuple(Rule(HistoryCheck.LARGE_CHANGE, name, f"{share} {sigma}") for name in values)


def identity_rule(values: Sequence[str]) -> Rule:
    """The rule that some value is not the earlier one."""
    return Rule(HistoryCheck.IDENTICAL_VALUES, json.dumps(list(values)))


def rule_holds(frame: pd.DataFrame, rule: Rule) -> bool:
    """Whether the rule holds of the frame."""
    if rule.kind is HistoryCheck.IDENTICAL_VALUES:
        return not _is_same(frame, json.loads(rule.column))
    return not at_fault(frame, rule).any()


def at_fault(frame: pd.DataFrame, rule: Rule) -> NDArray[np.bool_]:
    """The groups of the frame that break a rule about groups, shape (n,)."""
    now, then = (frame[mark].to_numpy(bool) for mark in (NOW, THEN))
    if rule.kind is HistoryCheck.VANISHED_GROUP:
        return np.asarray(then & ~now, np.bool_)
    share, sigma = (float(Fraction(each)) for each in rule.limits.split())
    value, before, std, std_before = (
        frame[name].astype("float64").to_numpy()
        for name in (rule.column, f"{rule.column}{THEN}", f"{rule.column}_std", f"{rule.column}_std{THEN}")
    )
    allowed = share * np.abs(before) + sigma * np.hypot(std, std_before)
    # What cannot be compared, a NaN among it, has not been shown to be near.
    return np.asarray(now & then & ~(np.abs(value - before) <= allowed), np.bool_)


def compared_values(plan: ReleasePlan, now: pa.Table, then: pa.Table) -> list[str]:
    """The value columns that both tables have, with their noise, in the order of the plan."""
    values = [column.name for column in plan.columns if column.role is ColumnRole.VALUE]
    both = {*now.column_names} & {*then.column_names}
    return [name for name in values if {name, f"{name}_std"} <= both]


def chance_of_same(plan: ReleasePlan, values: Sequence[str]) -> float:
    """An upper bound of the probability that independent noise gives all of `values` twice.

    The noise of a total takes the value that would do so with at most its likeliest value's probability,
    whatever the exact totals are and whatever noise was drawn then; released totals of the groups count, once
    each. What is computed from several of them is taken to repeat for certain.
    """
    likeliest = {
        planned.total: float(1 - 2 * planned.table.tail(1))  # that of 0: noise is symmetric and log-concave
        for query in plan.queries
        for answer in query.query.answers
        if answer.total is not None and f"{query.name}{answer.suffix}" in values
        for planned in [query.totals[answer.total]]
    }
    return float(np.prod([chance ** len(plan.keys) for chance in likeliest.values()]))


def _is_same(frame: pd.DataFrame, values: Sequence[str]) -> bool:
    groups = frame[NOW].to_numpy(bool) & frame[THEN].to_numpy(bool)
    return (
        bool(groups.all())
        and bool(len(groups) and values)
        and all(frame[name].equals(frame[f"{name}{THEN}"]) for name in values)
    )


def _arrow(column: "pa.ChunkedArray[Any]") -> "pd.Series[Any]":
    return pd.Series(column.combine_chunks(), dtype=pd.ArrowDtype(column.type))
