"""Queries about where values lie: among public edges, or in a public list."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from dp_spark.queries import decimal_text, rank_suffix
from dp_spark.release.problems import Problem, Wrong, shown
from dp_spark.release.reading import decimal_number, read_each, read_list, read_normal_text, word_of
from dp_spark.release.spec.edges import MAX_BINS, read_edges
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.ranges import WeightSpec
from dp_spark.release.spec.values import (
    BINNED_KINDS,
    Column,
    QueryKind,
    QueryName,
)

MAX_RANKS = 100
_EXTREMES = {QueryKind.MIN: Fraction(1, 100), QueryKind.MAX: Fraction(99, 100)}
_MISSING = "remove it: a row without a value, NULL or NaN, is in no bin"
_BOUNDS = "remove it: edges bound the values, and bins are as fine as they are told apart"

_read_rank = decimal_number(
    "a decimal, 0 < at < 1, of at most 6 digits behind the point",
    lambda share: 0 < share < 1 and (share * 10**6).denominator == 1,
    "write 0.5 for the median, 0.9 for what 9 in 10 lie below",
)


def _read_ranks(value: object) -> tuple[Fraction, ...]:
    """Distinct shares in the order they are written; one may stand by itself."""
    written = read_list(value) if isinstance(value, list | tuple) else [value]
    if len(written) > MAX_RANKS:
        why, allowed = f"has {len(written):,} entries", f"1 to {MAX_RANKS} shares"
        raise Wrong(Problem(why, "write those that are looked at", allowed))
    if not isinstance(value, list | tuple):
        return (_read_rank(value),)
    ranks = read_each(enumerate(written), _read_rank)
    _require_distinct(list(map(decimal_text, ranks)), "distinct shares")
    return tuple(ranks)


def _read_values(value: object) -> tuple[str, ...]:
    """Distinct texts in code point order."""
    written = read_list(value)
    if len(written) > MAX_BINS:
        why, allowed = f"has {len(written):,} values", f"1 to {MAX_BINS:,} values"
        raise Wrong(Problem(why, "list fewer values", allowed))
    values = read_each(enumerate(written), read_normal_text)
    _require_distinct(values, "distinct values")
    return tuple(sorted(values))


def _require_distinct(texts: list[str], allowed: str) -> None:
    known: set[str] = set()
    twice = []
    for place, text in enumerate(texts):
        if text in known:
            twice.append(Problem("is listed twice", "list it once", allowed, shown(text), (place,)))
        known.add(text)
    if twice:
        raise Wrong(*twice)


class BinnedQuerySpec(Part, frozen=True):
    """A query about how the values of a column lie among public edges."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("on_null", "on_nan"), _MISSING),
        **dict.fromkeys(("lower", "upper", "step", "clamp"), _BOUNDS),
    }

    name: QueryName = Field(examples=["delay"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(BINNED_KINDS))] = Field(examples=["quantiles"])
    column: Column = Field(examples=["COLUMN"])
    edges: Annotated[tuple[Fraction, ...], PlainValidator(read_edges)] = Field(
        examples=["{start: -30, stop: 180, step: 15}"]
    )
    at: Annotated[tuple[Fraction, ...], PlainValidator(_read_ranks)] | None = Field(
        None, examples=["[0.5, 0.9]"]
    )
    weight: WeightSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_extreme(cls, written: Any) -> Any:
        """A minimum or a maximum that leaves its share out has the usual one: one digest for both."""
        kind = written.get("kind") if isinstance(written, Mapping) else None
        if kind in _EXTREMES and written.get("at") is None:
            return {**written, "at": [_EXTREMES[QueryKind(kind)]]}
        return written

    @model_validator(mode="after")
    def _check_ranks(self) -> Self:
        problems = [*self._rank_problems()]
        if problems:
            raise Wrong(*problems)
        return self

    def _rank_problems(self) -> Iterator[Problem]:
        at, half = self.at or (), Fraction(1, 2)
        written = f"[{', '.join(map(decimal_text, at))}]"
        match self.kind:
            case QueryKind.HISTOGRAM if at:
                why, way_out = "does not go with kind: histogram", "remove it, or ask for kind: quantiles"
                yield Problem(why, way_out, "name, kind, column, edges, weight", written, ("at",))
            case QueryKind.QUANTILES if not at:
                yield Problem("missing key 'at'", "add `at: [0.5, 0.9]`", at=("at",))
            case QueryKind.MIN if len(at) > 1 or at[0] >= half:
                why = "stands for the minimum, and is not one share below 0.5"
                yield Problem(why, "write 0.01, or leave it out", "0 < at < 0.5", written, ("at",))
            case QueryKind.MAX if len(at) > 1 or at[0] <= half:
                why = "stands for the maximum, and is not one share above 0.5"
                yield Problem(why, "write 0.99, or leave it out", "0.5 < at < 1", written, ("at",))

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of each answer."""
        match self.kind:
            case QueryKind.HISTOGRAM:
                return tuple(f"_{place}" for place in range(1, len(self.edges)))
            case QueryKind.QUANTILES:
                return tuple(map(rank_suffix, self.at or ()))
            case _:
                return ("",)


class DistinctQuerySpec(Part, frozen=True):
    """A query about how many values of a public list occur."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("on_null", "on_nan"), "remove it: what is not listed counts for nothing"),
        "weight": "remove it: a value occurs or not, whatever its rows weigh",
    }

    name: QueryName = Field(examples=["carriers"])
    kind: Annotated[QueryKind, BeforeValidator(word_of((QueryKind.DISTINCT,)))] = Field(examples=["distinct"])
    column: Column = Field(examples=["COLUMN"])
    values: Annotated[tuple[str, ...], PlainValidator(_read_values)] = Field(examples=["[AA, UA]"])
