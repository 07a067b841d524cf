"""The queries of a spec: about rows and units, or about the values of a column."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from dp_spark.release.problems import Problem, Wrong, shown, wrong
from dp_spark.release.reading import read_each, word_of
from dp_spark.release.spec.binned import BinnedQuerySpec, DistinctQuerySpec
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.ranges import WeightSpec, bound_problems, step_problems
from dp_spark.release.spec.ratio import RatioQuerySpec
from dp_spark.release.spec.values import (
    BINNED_KINDS,
    COLUMN_KINDS,
    COUNTING_KINDS,
    Amount,
    Clamp,
    Column,
    Missing,
    OnMissing,
    QueryKind,
    QueryName,
    Step,
)


class CountingQuerySpec(Part, frozen=True):
    """A query about rows or units; `count` may count what has a value in a column, or weigh rows."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("lower", "upper", "step", "clamp", "on_null", "on_nan"),
        "remove it, or ask for kind: sum or kind: mean, which take it",
    )

    name: QueryName = Field(examples=["flights"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(COUNTING_KINDS))] = Field(examples=["count"])
    column: Column | None = Field(None, examples=["COLUMN"])
    weight: WeightSpec | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.kind is QueryKind.IDS:
            why, allowed = f"does not go with kind: {self.kind}: a unit is there or not", "name, kind"
            way_out = "remove it, or ask for kind: count"
            given = {"column": self.column, "weight": self.weight and self.weight.column}
            problems = [
                Problem(why, way_out, allowed, shown(written), (key,))
                for key, written in given.items()
                if written is not None
            ]
        else:
            problems = [*self._weighed_values()]
        if problems:
            raise Wrong(*problems)
        return self

    def _weighed_values(self) -> Iterator[Problem]:
        if self.column is not None and self.weight is not None:
            why = "does not go with column: rows with a value there are counted once each"
            way_out = "remove weight, or remove column"
            yield Problem(why, way_out, "column or weight", shown(self.weight.column), ("weight",))


class ColumnQuerySpec(Part, frozen=True):
    """A query about the values of a column, rounded to `step`; they, or a unit's total, are clamped."""

    name: QueryName = Field(examples=["total_delay"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(COLUMN_KINDS))] = Field(examples=["sum"])
    column: Column = Field(examples=["COLUMN"])
    lower: Amount = Field(examples=["-30"])
    upper: Amount = Field(examples=["180"])
    step: Step | None = None
    clamp: Annotated[Clamp, BeforeValidator(word_of(Clamp))] = Clamp.ROW
    on_null: OnMissing = Missing.DROP
    on_nan: OnMissing = Missing.DROP
    weight: WeightSpec | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *bound_problems(self.lower, self.upper),
            *step_problems(self.lower, self.upper, self.step),
            *self._clamp_problems(),
        ]
        if problems:
            raise Wrong(*problems)
        return self

    def _clamp_problems(self) -> Iterator[Problem]:
        if self.clamp is not Clamp.UNIT:
            return
        clamped = shown(str(self.clamp))
        if self.kind is not QueryKind.SUM:
            why = (
                f"does not go with kind: {self.kind}: no number of values goes with a total that was clamped"
            )
            way_out = "remove clamp, or ask for kind: sum and kind: ids and divide"
            yield Problem(why, way_out, str(Clamp.ROW), clamped, ("clamp",))
        if self.weight is not None:
            why = "does not go with weight: a weight is of a row, and a unit's total has none"
            yield Problem(why, "remove clamp or weight", str(Clamp.ROW), clamped, ("clamp",))


QuerySpec: TypeAlias = (
    CountingQuerySpec | ColumnQuerySpec | BinnedQuerySpec | DistinctQuerySpec | RatioQuerySpec
)
_PARTS: Mapping[QueryKind, type[QuerySpec]] = {
    **dict.fromkeys(COUNTING_KINDS, CountingQuerySpec),
    **dict.fromkeys(COLUMN_KINDS, ColumnQuerySpec),
    **dict.fromkeys(BINNED_KINDS, BinnedQuerySpec),
    QueryKind.DISTINCT: DistinctQuerySpec,
    QueryKind.RATIO: RatioQuerySpec,
}


def read_query(value: object) -> QuerySpec:
    """A query of any kind: a part, or a mapping whose `kind` says which."""
    if isinstance(value, QuerySpec):
        return value
    if not isinstance(value, Mapping):
        raise wrong(value, "is not a mapping", way_out="write {name: flights, kind: count}")
    if "kind" not in value:
        kinds = " | ".join(QueryKind)
        raise Wrong(Problem("missing key 'kind'", "add `kind: count`", f"kind: {kinds}", at=("kind",)))
    (kind,) = read_each([("kind", value["kind"])], word_of(QueryKind))
    return _PARTS[kind].model_validate({**value, "kind": kind})


def query_suffixes(query: QuerySpec) -> tuple[str, ...]:
    """What the columns of each of its answers are called behind its name."""
    return query.suffixes if isinstance(query, BinnedQuerySpec) else ("",)
