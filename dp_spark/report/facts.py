"""What a release promises and what its numbers are worth: the facts that plan, statement and page print."""

import math
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Protocol

from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.queries import Bounds
from dp_spark.release.plan import COVERAGE, NoiseDecision, ReleasePlan
from dp_spark.report.plain import as_plain
from dp_spark.report.promises import limits, protects
from dp_spark.report.units import bounds_words, rows_of, unit_words
from dp_spark.report.worth import ClampFacts, QueryFacts, TotalFacts, clamp_facts, query_facts, total_facts

FORMAT = 1
_SHOWN_GROUPS = 5


class Amount(Protocol):
    """Epsilon and delta of a limit, or of what is spent or left; either may be zero."""

    @property
    def epsilon(self) -> Fraction:
        """The sum of the epsilons."""

    @property
    def delta(self) -> Fraction:
        """The sum of the deltas."""


class Budget(Protocol):
    """The account of a population, as its ledger keeps it."""

    @property
    def limit(self) -> Amount:
        """What may be spent in its lifetime."""

    @property
    def spent(self) -> Amount:
        """The sum of all charges."""

    @property
    def left(self) -> Amount:
        """What the limit leaves."""


@dataclass(frozen=True, slots=True)
class SealedRelease:
    """What became of a release.

    Attributes:
        release_id: population/name/period/revision.
        state: where it stands in its life (`sealed`).
        artefact_digest: SHA-256 of the canonical rows.
        published: the places that hold them.
        reserved_at: when it was charged.
        sealed_at: when nothing could follow any more; None before.
        dp_spark_version: the dp_spark that drew the noise.
    """

    release_id: str
    state: str
    artefact_digest: str
    published: tuple[str, ...]
    reserved_at: datetime
    sealed_at: datetime | None
    dp_spark_version: str


@dataclass(frozen=True, slots=True)
class BoundsFacts:
    """How much of one unit counts at most; None where there is no such bound.

    Attributes:
        max_groups: groups in which rows count.
        max_rows_per_group: rows in each of them.
        max_rows: rows in all.
        in_words: the same as a text, without the unit.
    """

    max_groups: int | None
    max_rows_per_group: int | None
    max_rows: int | None
    in_words: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The groups that are released: how many, and how they are known without reading a row.

    Attributes:
        columns: the columns that form them.
        count: how many there are.
        source: how they are public, in words.
        first: the first few, in the order of the table.
    """

    columns: tuple[str, ...]
    count: int
    source: str
    first: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Spending:
    """An epsilon and a delta, exact; either may be zero, or below it where a limit would be passed."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class CostFacts:
    """What the ledger takes for one release.

    Attributes:
        charge: the cost of one release.
        charged: whether `spent` holds this release already.
        limit: the lifetime limit of the account.
        spent: the sum of all charges.
        left: what the limit leaves now.
        left_after: what it leaves once this release is charged; negative if it does not fit.
        releases_that_fit: how many releases of this cost `left` still pays.
    """

    charge: Spending
    charged: bool
    limit: Spending
    spent: Spending
    left: Spending
    left_after: Spending
    releases_that_fit: int


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """Everything there is to say about a release without reading a row of its input.

    Attributes:
        release: its name.
        population: the account that pays.
        period: how long one release covers (`day`), or None for the whole input.
        guarantee: what one release promises.
        unit: one unit, in words: `row`, a column, `COLUMN on one day`.
        unit_columns: the columns that tell one from another; none where a row is a unit.
        unit_per: the period that a unit is of, or None.
        unit_rows: what is protected of a unit, in words.
        neighbours: which inputs are hard to tell apart.
        protects: the promise in words.
        limits: what the promise and the intervals leave out, in words.
        bounds: how much of a unit counts.
        clamped: the public bounds of each column that is read.
        groups: the groups that are released.
        coverage: of all intervals.
        noise: what the spec asks for.
        decision: the law that it led to, the next best, and how far from the least possible.
        totals: what gets noise, and what each costs alone.
        queries: what each answer will be worth.
        cost: what the ledger takes, or None if no ledger was asked.
        sealed: what became of it, or None before.
    """

    release: str
    population: str
    period: str | None
    guarantee: PrivacyGuarantee
    unit: str
    unit_columns: tuple[str, ...]
    unit_per: str | None
    unit_rows: str
    neighbours: Neighbours
    protects: tuple[str, ...]
    limits: tuple[str, ...]
    bounds: BoundsFacts
    clamped: tuple[ClampFacts, ...]
    groups: GroupFacts
    coverage: Fraction
    noise: str
    decision: NoiseDecision
    totals: tuple[TotalFacts, ...]
    queries: tuple[QueryFacts, ...]
    cost: CostFacts | None
    sealed: SealedRelease | None

    def as_json(self) -> dict[str, Any]:
        """The facts as the `--json` form prints them; fractions as `{"exact": "1/5", "float": 0.2}`."""
        return {"format": FORMAT, **as_plain(self)}


def release_facts(
    plan: ReleasePlan, *, budget: Budget | None = None, sealed: SealedRelease | None = None
) -> ReleaseFacts:
    """The facts of a plan; of a release, if `sealed`, whose charge `budget` then holds already."""
    spec, unit = plan.spec, plan.spec.unit.protected
    return ReleaseFacts(
        release=spec.release,
        population=spec.budget.population,
        period=None if spec.period is None else str(spec.period.every),
        guarantee=plan.guarantee,
        unit=unit_words(unit),
        unit_columns=unit.columns,
        unit_per=None if unit.per is None else str(unit.per),
        unit_rows=rows_of(unit),
        neighbours=spec.neighbours,
        protects=protects(plan),
        limits=limits(plan),
        bounds=_bounds_facts(plan.bounds),
        clamped=clamp_facts(plan),
        groups=_group_facts(tuple(spec.group_by), spec.group_keys()),
        coverage=COVERAGE,
        noise=str(spec.noise),
        decision=plan.noise,
        totals=total_facts(plan),
        queries=query_facts(plan),
        cost=None if budget is None else _cost_facts(plan.guarantee, budget, charged=sealed is not None),
        sealed=sealed,
    )


def _bounds_facts(bounds: Bounds) -> BoundsFacts:
    return BoundsFacts(bounds.max_groups, bounds.max_rows_per_group, bounds.max_rows, bounds_words(bounds))


def _group_facts(columns: tuple[str, ...], keys: tuple[tuple[str, ...], ...]) -> GroupFacts:
    source = "listed in the spec"
    values = [len(set(axis)) for axis in zip(*keys, strict=True)]
    if len(columns) > 1 and math.prod(values) == len(keys):
        sizes = zip(values, columns, strict=True)
        source += ": every combination of " + " and ".join(f"{size:,} of {name}" for size, name in sizes)
    return GroupFacts(columns, len(keys), source, keys[:_SHOWN_GROUPS])


def _cost_facts(guarantee: PrivacyGuarantee, budget: Budget, *, charged: bool) -> CostFacts:
    charge, left = _spending(guarantee), _spending(budget.left)
    after = Spending(left.epsilon - charge.epsilon, left.delta - charge.delta)
    return CostFacts(
        charge=charge,
        charged=charged,
        limit=_spending(budget.limit),
        spent=_spending(budget.spent),
        left=left,
        left_after=left if charged else after,
        releases_that_fit=_releases_that_fit(left, charge),
    )


def _spending(amount: Amount) -> Spending:
    return Spending(amount.epsilon, amount.delta)


def _releases_that_fit(left: Spending, charge: Spending) -> int:
    """The whole number of charges that both epsilon and delta of `left` hold; a delta of 0 costs nothing."""
    fits = math.floor(left.epsilon / charge.epsilon)
    if charge.delta > 0:
        fits = min(fits, math.floor(left.delta / charge.delta))
    return max(fits, 0)
