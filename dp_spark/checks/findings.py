"""What a staged release shows beside earlier ones, in words that hold no number of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.checks.gate import unmet_of
from dp_spark.checks.history import (
    HistoryCheck,
    Rule,
    at_fault,
    beside,
    chance_of_same,
    compared_values,
    identity_rule,
    rules_of,
)
from dp_spark.checks.lazily import quiet, suites
from dp_spark.checks.verdict import Outcome
from dp_spark.errors import Refusal
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.problems import shown
from dp_spark.release.spec import GROUPING_COLUMN, HistorySpec

_FALSE_ALARM = 1e-6  # how often independent noise may be held for a repetition
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a comparison with earlier releases found.

    Attributes:
        check: what was looked at.
        blocks: whether it holds the release; else it is a warning.
        text: in words: names of columns, public groups and releases, and how many groups.
    """

    check: HistoryCheck
    blocks: bool
    text: str

    def __str__(self) -> str:
        return f"history: {self.text}"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A sealed release, its rows, and where they were read from: `staged` or a published copy."""

    release_id: str
    table: pa.Table
    origin: str


@dataclass(frozen=True, slots=True)
class Past:
    """The earlier releases that one is compared with; the same one may play several parts.

    Attributes:
        newest: the newest that is sealed: its groups must still be there.
        like: that whose values must be near.
        revised: the revision that this one replaces.
    """

    newest: Earlier | None = None
    like: Earlier | None = None
    revised: Earlier | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a staged release shows beside earlier ones.

    Attributes:
        findings: what holds it, and warnings; () is nothing.
        outcomes: every rule that was looked at.
    """

    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]


def compare(table: pa.Table, plan: ReleasePlan, rule: HistorySpec, past: Past) -> Comparison:
    """`table`, staged by `plan`, beside earlier releases.

    Raises:
        SetupRefused: Great Expectations cannot be imported in this process.
    """
    parts = (past.newest, past.like, past.revised)
    compared = {each.release_id: each for each in parts if each is not None}
    found = [_compared(table, plan, rule, past, earlier) for earlier in compared.values()]
    return Comparison(
        tuple(finding for each in found for finding in each.findings),
        tuple(outcome for each in found for outcome in each.outcomes),
    )


def _compared(
    table: pa.Table, plan: ReleasePlan, rule: HistorySpec, past: Past, earlier: Earlier
) -> Comparison:
    try:
        pair = _Pair.of(table, plan, earlier)
        if pair is None:
            return _none(earlier.release_id, "which was grouped otherwise")
        rules = [identity_rule(pair.values)]
        rules += [Rule(HistoryCheck.VANISHED_GROUP)] if earlier is past.newest else []
        rules += rules_of(pair.values, rule.max_change, rule.plus_sigma) if earlier is past.like else []
        lost = list(_broken(pair.frame, rules))
        return Comparison(
            tuple(pair.finding(each) for each in lost),
            tuple(pair.outcome(each, met=each not in lost) for each in rules),
        )
    except Refusal:
        raise
    except Exception as error:  # noqa: BLE001  # its text may hold cells; the gate itself has passed the table
        return _none(earlier.release_id, f"as a comparison failed ({type(error).__name__})")


def _none(earlier: str, why: str) -> Comparison:
    return Comparison((not_compared(earlier, why),), ())


def not_compared(earlier: str, why: str) -> Finding:
    """The warning that nothing was looked at."""
    return Finding(HistoryCheck.NOT_COMPARED, False, f"not compared with {earlier}, {why}")


def _broken(frame: pd.DataFrame, rules: Sequence[Rule]) -> Iterator[Rule]:
    """Those of `rules` that the frame breaks; one that cannot be looked at is broken."""
    with quiet():
        unmet = unmet_of(frame, suites().history_suite(rules))
    broken = {(each.kwargs["kind"], each.kwargs["column"]) for each in unmet}
    return (rule for rule in rules if (rule.kind, rule.column) in broken)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A staged release and an earlier one, side by side."""

    frame: pd.DataFrame
    keys: list[str]
    values: list[str]
    plan: ReleasePlan
    earlier: str

    @classmethod
    def of(cls, table: pa.Table, plan: ReleasePlan, earlier: Earlier) -> "_Pair | None":
        """The two side by side; None where their rows are told apart by other columns."""
        keys = [*plan.spec.group_by, *([GROUPING_COLUMN] if plan.spec.rollup else [])]
        then = earlier.table
        is_rolled = GROUPING_COLUMN in then.column_names
        if not {*keys} <= {*then.column_names} or is_rolled != bool(plan.spec.rollup):
            return None
        values = compared_values(plan, table, then)
        columns = [each for name in values for each in (name, f"{name}_std")]
        try:
            frame = beside(table, then, keys, columns)
        except pd.errors.MergeError:  # there was one more column that told rows apart
            return None
        return cls(frame, keys, values, plan, earlier.release_id)

    def finding(self, broken: Rule) -> Finding:
        """A broken rule in words."""
        match broken.kind:
            case HistoryCheck.VANISHED_GROUP:
                is_public = self.plan.selection is None
                told = self._groups(at_fault(self.frame, broken))
                return Finding(broken.kind, is_public, f"of {self.earlier} {told} are gone")
            case HistoryCheck.IDENTICAL_VALUES:
                blocks = chance_of_same(self.plan, self.values) <= _FALSE_ALARM
                return Finding(
                    broken.kind,
                    blocks,
                    f"the released values are those of {self.earlier}"
                    + ("" if blocks else ", which so few of them can be by chance"),
                )
            case _:
                told = self._groups(at_fault(self.frame, broken))
                text = (
                    f"{broken.column} moved by more than max_change and noise since {self.earlier} in {told}"
                )
                return Finding(broken.kind, False, text)

    def outcome(self, rule: Rule, *, met: bool) -> Outcome:
        """Whether a rule holds, as evidence has it."""
        match rule.kind:
            case HistoryCheck.LARGE_CHANGE:
                share, sigma = rule.limits.split()
                columns, bound = [rule.column], f"max_change {share}, plus_sigma {sigma}"
            case HistoryCheck.IDENTICAL_VALUES:
                columns, bound = self.values, ""
            case _:
                columns, bound = self.keys, ""
        return Outcome(rule.kind, tuple(columns), bound, met, self.earlier)

    def _groups(self, which: NDArray[np.bool_]) -> str:
        """How many groups, and which where they are public."""
        number = int(np.count_nonzero(which))
        counted = f"{number} {'group' if number == 1 else 'groups'}"
        if self.plan.selection is not None:
            return counted
        rows = self.frame.loc[which, self.keys].head(_MOST_NAMES).itertuples(index=False)
        names = [shown(" / ".join(map(str, row))) for row in rows]
        return f"{counted}: {', '.join(names)}{', ...' if number > _MOST_NAMES else ''}"
