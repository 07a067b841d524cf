"""What a release promises and what its numbers are worth: the facts that plan, statement and page print."""

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Protocol

from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.queries import Bounds
from dp_spark.release.enrolling import expected_receipt
from dp_spark.release.ledger import Budget, Receipt
from dp_spark.release.plan import COVERAGE, NoiseDecision, ReleasePlan
from dp_spark.release.spec import InputSpec
from dp_spark.report.clamps import BinFacts, ClampFacts, bin_facts, clamp_facts
from dp_spark.report.groups import GroupFacts, group_facts
from dp_spark.report.levels import LevelFacts, level_facts
from dp_spark.report.plain import as_plain
from dp_spark.report.promises import limits, protects
from dp_spark.report.totals import TotalFacts, total_facts
from dp_spark.report.units import bounds_words, rows_of, unit_words
from dp_spark.report.worth import QueryFacts, query_facts

FORMAT = 1
_FRAME = "the frame that the run is given"


class Amount(Protocol):
    """Epsilon and delta of a limit, or of what is spent or left; either may be zero."""

    @property
    def epsilon(self) -> Fraction:
        """The sum of the epsilons."""

    @property
    def delta(self) -> Fraction:
        """The sum of the deltas."""


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
        source_version: of its source, that it read; None where that has no versions.
    """

    release_id: str
    state: str
    artefact_digest: str
    published: tuple[str, ...]
    reserved_at: datetime
    sealed_at: datetime | None
    dp_spark_version: str
    source_version: str | None = None


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
class Spending:
    """An epsilon and a delta, exact; either may be zero, or below it where a limit would be passed."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The schedule that a release takes a slot of.

    Attributes:
        taken: how many slots are taken now; where units have periods, of one period.
        slots: how many there are.
    """

    schedule: str
    taken: int
    slots: int


@dataclass(frozen=True, slots=True)
class CostFacts:
    """What the ledger takes for one release.

    Attributes:
        charge: what one release promises by itself.
        takes: what it takes of the pools: the same from sums, less from zCDP, nothing where it has a slot.
        charged: whether the account holds this release already.
        slots: where it takes a slot and costs nothing beside that; else None.
        pool: the kind of pool that pays, where the account is divided; else None.
        limit: the lifetime limit of the account.
        scheduled: what is set aside for all schedules.
        spent: what is used of the pools.
        left: what the pools leave now.
        left_after: what they leave once this release is charged; negative if it does not fit.
        releases_that_fit: how many releases of this cost there is room for.
    """

    charge: Spending
    takes: Spending
    charged: bool
    slots: SlotFacts | None
    pool: str | None
    limit: Spending
    scheduled: Spending
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
        source: where the rows are, in words: `parquet data/flights`, or the frame that a run is given.
        where: the condition that rows must meet to count, or None.
        derived: the columns that are computed from the others of a row: `NAME = SQL, else DEFAULT`.
        history: what it is compared with before it is published, in words, or None.
        sinks: where it is published: `parquet out/flights`.
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
        clamped: the public bounds of each column whose values, or weights, are read.
        binned: the public bins of each column that is read by bins.
        groups: the groups that are released.
        rollup: the coarser groupings that are released too.
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
    source: str
    where: str | None
    derived: tuple[str, ...]
    history: str | None
    sinks: tuple[str, ...]
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
    binned: tuple[BinFacts, ...]
    groups: GroupFacts
    rollup: tuple[LevelFacts, ...]
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
    plan: ReleasePlan,
    *,
    budget: Budget | None = None,
    sealed: SealedRelease | None = None,
    receipt: Receipt | None = None,
) -> ReleaseFacts:
    """The facts of a plan; of a release, if `sealed`, whose charge `budget` then holds already."""
    spec, unit = plan.spec, plan.spec.unit.protected
    return ReleaseFacts(
        release=spec.release,
        population=spec.budget.population,
        source=spec.input.named if isinstance(spec.input, InputSpec) else _FRAME,
        where=spec.where,
        derived=tuple(f"{each.name} = {each.sql}, else {each.default}" for each in spec.derive or ()),
        history=None if spec.checks is None else spec.checks.history.in_words,
        sinks=tuple(sink.named for sink in spec.publish),
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
        binned=bin_facts(plan),
        groups=group_facts(plan),
        rollup=level_facts(plan),
        coverage=COVERAGE,
        noise=str(spec.noise),
        decision=plan.noise,
        totals=total_facts(plan),
        queries=query_facts(plan),
        cost=None if budget is None else _cost_facts(plan, budget, receipt, charged=sealed is not None),
        sealed=sealed,
    )


def _bounds_facts(bounds: Bounds) -> BoundsFacts:
    return BoundsFacts(bounds.max_groups, bounds.max_rows_per_group, bounds.max_rows, bounds_words(bounds))


def _cost_facts(plan: ReleasePlan, budget: Budget, receipt: Receipt | None, *, charged: bool) -> CostFacts:
    took = receipt or expected_receipt(budget, plan)
    other = budget.before(took) if charged else budget.after(took)
    takes = abs(other.spent.epsilon - budget.spent.epsilon), abs(other.spent.delta - budget.spent.delta)
    slots = None
    if took.schedule is not None:
        schedule = budget.terms.schedules[took.schedule]
        slots = SlotFacts(
            schedule.name, budget.standing.taken.get(schedule.name, 0), budget.terms.slots(schedule)
        )
    return CostFacts(
        charge=_spending(plan.guarantee),
        takes=Spending(*takes),
        charged=charged,
        slots=slots,
        pool=None if took.pool is None or budget.pools is None else str(took.pool),
        limit=_spending(budget.limit),
        scheduled=_spending(budget.scheduled),
        spent=_spending(budget.spent),
        left=_spending(budget.left),
        left_after=_spending(budget.left if charged else budget.after(took).rest),
        releases_that_fit=max(budget.more_of(took), 0),
    )


def _spending(amount: Amount) -> Spending:
    return Spending(amount.epsilon, amount.delta)
