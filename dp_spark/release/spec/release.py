"""The spec of one release: its parts, what they must be together, and its canonical form."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyGuarantee
from dp_spark.release.problems import Problem, Wrong, shown, wrong
from dp_spark.release.reading import read_list, word_of
from dp_spark.release.spec.canonical import canonical_json, digest
from dp_spark.release.spec.checks import ChecksSpec, history_problems
from dp_spark.release.spec.columns import column_problems, long_problems
from dp_spark.release.spec.expressions import Condition, DerivedColumn, derive_problems, read_derive
from dp_spark.release.spec.groups import GroupsSpec, group_problems
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.queries import ColumnQuerySpec, QuerySpec, query_suffixes, read_query
from dp_spark.release.spec.ratio import ratio_problems
from dp_spark.release.spec.ready import ReadySpec, ready_problems
from dp_spark.release.spec.rollup import Rollup, read_rollup, rollup_problems
from dp_spark.release.spec.tables import FrameInput, InputSpec, SinkSpec, path_problems, read_input
from dp_spark.release.spec.unit import BoundsSpec, UnitSpec, unit_problems
from dp_spark.release.spec.values import (
    AUTO_NOISE,
    FROM_BUDGET,
    Bound,
    Clamp,
    Column,
    Delta,
    Epsilon,
    PoolKind,
    Population,
    ReleaseName,
    Shape,
    TimeZone,
    read_noise,
)


class PeriodSpec(Part, frozen=True):
    """Which rows one release reads: those whose date in `column` lies in the period of its key."""

    column: Column = Field(examples=["date"])
    every: Annotated[Every, BeforeValidator(word_of(Every))] = Field(examples=["day"])
    timezone: TimeZone = "UTC"


class GuaranteeSpec(Part, frozen=True):
    """The guarantee of one release, as it is written."""

    epsilon: Epsilon = Field(examples=["1.0"])
    delta: Delta = Field(examples=["1e-6"])


FromBudget = Literal["from_budget"]


def _read_guarantee(value: object) -> PrivacyGuarantee | FromBudget:
    if value == FROM_BUDGET:
        return "from_budget"
    if isinstance(value, str):
        raise wrong(
            value,
            f"is not a mapping, and not {FROM_BUDGET}",
            allowed=f"a mapping with the keys epsilon, delta | {FROM_BUDGET}",
            way_out=f"write {{epsilon: 1.0, delta: 1e-6}}, or {FROM_BUDGET} with budget.horizon",
        )
    written = (
        {"epsilon": value.epsilon, "delta": value.delta} if isinstance(value, PrivacyGuarantee) else value
    )
    part = GuaranteeSpec.model_validate(written)
    return PrivacyGuarantee(part.epsilon, part.delta)


class BudgetSpec(Part, frozen=True):
    """Whose budget pays: an account that `dp-spark ledger` keeps."""

    population: Population = Field(examples=["nyc_planes"])
    horizon: Bound | None = Field(None, examples=["365"])
    pool: Annotated[PoolKind, BeforeValidator(word_of(PoolKind))] | None = Field(None, examples=["zcdp"])


class ReleaseSpec(Part, frozen=True):
    """One release: the rows, whom it protects and how well, what it asks, where it goes.

    Built in Python, parts are mappings or parts, and numbers may be int, Fraction, Decimal, text, or a
    float, which counts as the decimal that Python prints for it.

    Raises:
        SpecRefused: names everything that is wrong.
    """

    release: ReleaseName = Field(examples=["flights_by_origin"])
    input: Annotated[InputSpec | FrameInput, PlainValidator(read_input)] = FrameInput()
    period: PeriodSpec | None = None
    ready: ReadySpec | None = None
    where: Condition | None = None
    derive: Annotated[tuple[DerivedColumn, ...], PlainValidator(read_derive)] | None = None
    unit: UnitSpec = Field(examples=["{column: COLUMN, on_null: drop}"])
    neighbours: Annotated[Neighbours, BeforeValidator(word_of(Neighbours))] = Neighbours.ADD_REMOVE
    bounds: BoundsSpec | None = None
    group_by: Annotated[tuple[Column, ...], BeforeValidator(read_list)] = Field(examples=["[origin]"])
    rollup: Annotated[Rollup, PlainValidator(read_rollup)] | None = None
    groups: GroupsSpec = Field(examples=["{public: [EWR, JFK, LGA]}"])
    guarantee: Annotated[PrivacyGuarantee | FromBudget, PlainValidator(_read_guarantee)] = Field(
        examples=["{epsilon: 1.0, delta: 1e-6}"]
    )
    queries: Annotated[
        tuple[Annotated[QuerySpec, PlainValidator(read_query)], ...], BeforeValidator(read_list)
    ] = Field(examples=["[{name: flights, kind: count}]"])
    noise: Annotated[str, BeforeValidator(read_noise)] = AUTO_NOISE
    budget: BudgetSpec = Field(examples=["{population: nyc_planes}"])
    publish: Annotated[tuple[SinkSpec, ...], BeforeValidator(read_list)] = Field(
        examples=["[{sink: parquet, path: out/flights_by_origin}]"]
    )
    checks: ChecksSpec | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *column_problems(self.group_by, [(query.name, query_suffixes(query)) for query in self.queries]),
            *long_problems(
                self.group_by, [i for i, sink in enumerate(self.publish) if sink.shape is Shape.LONG]
            ),
            *derive_problems(self.derive or (), self._never_derived()),
            *group_problems(
                self.groups,
                self.group_by,
                [query.kind for query in self.queries],
                rolled=self.rollup is not None,
            ),
            *rollup_problems(self.rollup or (), self.group_by),
            *unit_problems(self.unit, self.bounds, self.period.every if self.period else None),
            *ratio_problems(self.queries),
            *_clamp_problems(self),
            *_horizon_problems(self),
            *path_problems(self.input, self.publish),
            *ready_problems(self.ready, self.input),
            *history_problems(self.checks, self.period.every if self.period else None),
        ]
        if problems:
            raise Wrong(*problems)
        return self

    def _never_derived(self) -> dict[str, str]:
        period = {} if self.period is None else {self.period.column: "period's column"}
        return {**dict.fromkeys(self.unit.columns, "unit's column"), **period}

    @property
    def stated_guarantee(self) -> PrivacyGuarantee:
        """The guarantee of one release, where the spec states it.

        Raises:
            PlanRefused: it comes from the budget: the plan has it, the spec has not.
        """
        if isinstance(self.guarantee, PrivacyGuarantee):
            return self.guarantee
        raise PlanRefused(
            "guarantee_from_budget",
            f"release {self.release} takes its guarantee from the budget of {self.budget.population}",
            way_out="enrol it as a schedule, or write guarantee: {epsilon: 1.0, delta: 1e-6}",
        )

    def group_keys(self) -> tuple[tuple[str, ...], ...]:
        """The public groups in code point order, each with its values in the order of `group_by`.

        Raises:
            PlanRefused: the spec does not list them: a run reads or selects them, and its plan has them.
        """
        if not self.groups.in_spec:
            raise PlanRefused(
                "groups_not_listed",
                f"groups.{self.groups.source} of release {self.release} is read by a run, not by the spec",
                way_out="run it, or list the groups as groups: {public: [..]}",
            )
        return self.groups.listed(self.group_by)

    def canonical_json(self) -> str:
        """The same text for every way to write this spec; `parse_spec` reads it too."""
        return canonical_json(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return digest(self)


def _clamp_problems(spec: ReleaseSpec) -> Iterator[Problem]:
    """Totals of a unit that is a row."""
    for i, query in enumerate(spec.queries):
        if spec.unit.is_row and isinstance(query, ColumnQuerySpec) and query.clamp is Clamp.UNIT:
            why = "does not go with unit.row = true: a row is its own total"
            place = ("queries", i, "clamp")
            yield Problem(why, "remove clamp", str(Clamp.ROW), shown(str(query.clamp)), place)


def _horizon_problems(spec: ReleaseSpec) -> Iterator[Problem]:
    """A share of a budget, of nobody knows how many."""
    if spec.guarantee == FROM_BUDGET and spec.budget.horizon is None:
        why = f"missing key 'horizon': guarantee = {FROM_BUDGET!r} shares the budget among so many releases"
        yield Problem(why, "add `horizon: 365`, the number of releases", at=("budget",))
