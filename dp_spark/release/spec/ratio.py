"""Ratios of two queries of the same release."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Protocol, Self

from pydantic import BeforeValidator, Field, model_validator

from dp_spark.release.problems import Problem, Wrong, nearest, shown
from dp_spark.release.reading import word_of
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.ranges import bound_problems
from dp_spark.release.spec.values import COUNTING_KINDS, Amount, QueryKind, QueryName

RATIO_KINDS = (*COUNTING_KINDS, QueryKind.SUM)


class RatioQuerySpec(Part, frozen=True):
    """One query over another, both by name, within public bounds; it draws no noise of its own."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("column", "weight", "step", "clamp", "on_null", "on_nan"),
        "remove it: write it where the numerator and the denominator are asked",
    )

    name: QueryName = Field(examples=["delay_per_flight"])
    kind: Annotated[QueryKind, BeforeValidator(word_of((QueryKind.RATIO,)))] = Field(examples=["ratio"])
    numerator: QueryName = Field(examples=["total_delay"])
    denominator: QueryName = Field(examples=["flights"])
    lower: Amount = Field(examples=["0"])
    upper: Amount = Field(examples=["1"])

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        problems = [*bound_problems(self.lower, self.upper)]
        if self.numerator == self.denominator:
            why = "is the numerator too: the ratio is 1"
            allowed = "two different queries"
            problems.append(
                Problem(why, "name another query", allowed, shown(self.denominator), ("denominator",))
            )
        if problems:
            raise Wrong(*problems)
        return self


class Named(Protocol):
    """What any query of a spec has."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> QueryKind:
        """Its kind."""


def ratio_problems(queries: Sequence[Named]) -> Iterator[Problem]:
    """Ratios of what is no count, sum or ids, or stands below them.

    A total is drawn for the first query that asks for it, whose name labels the noise: a ratio that came
    first would label two totals, perhaps of one name, alike.
    """
    kinds = {query.name: query.kind for query in queries}
    names = [query.name for query in queries]
    allowed = f"the name of a query of kind {' | '.join(RATIO_KINDS)}"
    for place, query in enumerate(queries):
        if not isinstance(query, RatioQuerySpec):
            continue
        for key, name in (("numerator", query.numerator), ("denominator", query.denominator)):
            at = ("queries", place, key)
            if name not in kinds:
                guess = nearest(name, [each for each in names if kinds[each] in RATIO_KINDS])
                way_out = f"write {guess}" if guess else f"add a query {name} of kind: count"
                yield Problem("names no query", way_out, allowed, shown(name), at)
            elif kinds[name] not in RATIO_KINDS:
                why = f"names a query of kind {kinds[name]}"
                yield Problem(why, "ask for the sum or the count too, and name it", allowed, shown(name), at)
            elif names.index(name) > place:
                why, way_out = "names a query further down", f"move {query.name} below {name}"
                yield Problem(why, way_out, "a query above the ratio", shown(name), at)
