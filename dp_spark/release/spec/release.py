"""The spec of one release: its parts, what they must be together, and its canonical form."""

import hashlib
import json
import posixpath
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyGuarantee
from dp_spark.release.problems import Place, Problem, Wrong, path_text, shown, wrong
from dp_spark.release.reading import read_list, word_of
from dp_spark.release.spec.columns import column_problems
from dp_spark.release.spec.expressions import Condition, DerivedColumn, derive_problems, read_derive
from dp_spark.release.spec.groups import GroupsSpec, group_problems
from dp_spark.release.spec.listed import Axis
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.queries import ColumnQuerySpec, QuerySpec, query_suffixes, read_query
from dp_spark.release.spec.ratio import ratio_problems
from dp_spark.release.spec.rollup import Rollup, read_rollup, rollup_problems
from dp_spark.release.spec.unit import BoundsSpec, UnitSpec, unit_problems
from dp_spark.release.spec.values import (
    AUTO_NOISE,
    FROM_BUDGET,
    Bound,
    Clamp,
    Column,
    Delta,
    Epsilon,
    InputFormat,
    Location,
    PoolKind,
    Population,
    ReleaseName,
    SinkKind,
    TimeZone,
    read_noise,
)


class InputSpec(Part, frozen=True):
    """Where the rows are."""

    format: Annotated[InputFormat, BeforeValidator(word_of(InputFormat))] = Field(examples=["parquet"])
    path: Location = Field(examples=["data/flights"])


class FrameInput(Part, frozen=True):
    """The rows are those of the frame that a run is given: what a spec without `input` has."""

    @property
    def format(self) -> None:
        """A frame has none."""
        return None


def _read_input(value: object) -> InputSpec | FrameInput:
    return value if isinstance(value, FrameInput) else InputSpec.model_validate(value)


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


class SinkSpec(Part, frozen=True):
    """One place where the release is published."""

    sink: Annotated[SinkKind, BeforeValidator(word_of(SinkKind))] = Field(examples=["parquet"])
    path: Location = Field(examples=["out/flights_by_origin"])


class ReleaseSpec(Part, frozen=True):
    """One release: the rows, whom it protects and how well, what it asks, where it goes.

    Built in Python, parts are mappings or parts, and numbers may be int, Fraction, Decimal, text, or a
    float, which counts as the decimal that Python prints for it.

    Raises:
        SpecRefused: names everything that is wrong.
    """

    release: ReleaseName = Field(examples=["flights_by_origin"])
    input: Annotated[InputSpec | FrameInput, PlainValidator(_read_input)] = FrameInput()
    period: PeriodSpec | None = None
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

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *column_problems(self.group_by, [(query.name, query_suffixes(query)) for query in self.queries]),
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
            *_path_problems(self),
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
        axes = {each.column: each.values for each in self.groups.axes if isinstance(each, Axis)}
        return tuple(product(*(axes[column] for column in self.group_by))) if axes else self.groups.keys

    def canonical_json(self) -> str:
        """The same text for every way to write this spec; `parse_spec` reads it too."""
        return json.dumps(self, default=plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()


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


def _path_problems(spec: ReleaseSpec) -> Iterator[Problem]:
    """Paths of which one would overwrite, or be read as part of, another."""
    places: list[tuple[Place, str]] = []
    if isinstance(spec.input, InputSpec):
        places.append((("input", "path"), spec.input.path))
    places += [(("publish", i, "path"), sink.path) for i, sink in enumerate(spec.publish)]
    for (first, one), (second, other) in combinations(places, 2):
        a, b = (PurePosixPath(posixpath.normpath(path)) for path in (one, other))
        if a.is_relative_to(b) or b.is_relative_to(a):
            why = f"is the same directory as {path_text(first)} = {shown(one)}, or one lies within the other"
            yield Problem(why, "write to a directory of its own", "separate paths", shown(other), second)


def plain(value: object) -> object:
    """What JSON does not know, in terms of what it does."""
    match value:
        case GroupsSpec():
            return value.written()
        case UnitSpec(is_row=True):
            return {"row": "true"}
        case Part():
            return {key: each for key, each in value if not (each is None or isinstance(each, FrameInput))}
        case PrivacyGuarantee(epsilon=epsilon, delta=delta):
            return {"epsilon": epsilon, "delta": delta}
        case Fraction(numerator=numerator, denominator=denominator):
            return f"{numerator}/{denominator}"
        case _:
            raise TypeError(f"a spec holds no {type(value).__name__}")
