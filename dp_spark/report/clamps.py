"""What is known to everybody of the columns that queries read: bounds, weights, bins."""

from dataclasses import dataclass
from fractions import Fraction

from dp_spark.queries import (
    ClampedColumn,
    Count,
    Distinct,
    Edges,
    Extreme,
    Histogram,
    Mean,
    Quantiles,
    Query,
    Std,
    Sum,
    Variance,
)
from dp_spark.release.plan import ReleasePlan


@dataclass(frozen=True, slots=True)
class ClampFacts:
    """The public bounds of a column that a query reads: of each row's value, or of each unit's total.

    Attributes:
        query: the query.
        column: the column.
        lower: the least value that counts as it is.
        upper: the largest.
        step: values are rounded to it.
        per_unit: whether what is clamped is the sum of a unit's values in a group.
        weighs: whether it says how much each row counts.
    """

    query: str
    column: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    per_unit: bool
    weighs: bool = False


@dataclass(frozen=True, slots=True)
class BinFacts:
    """The public bins of a column that a query reads.

    Attributes:
        query: the query.
        column: the column.
        bins: how many there are.
        lower: the first edge; None where values are listed.
        upper: the last edge; None likewise.
    """

    query: str
    column: str
    bins: int
    lower: Fraction | None
    upper: Fraction | None


def clamp_facts(plan: ReleasePlan) -> tuple[ClampFacts, ...]:
    """Bounds and step of each value and each weight that a query reads."""
    found = []
    for query in plan.queries:
        value, weight = value_of(query.query), weight_of(query.query)
        found += [_clamp(query.name, value, weighs=False)] if value is not None else []
        found += [_clamp(query.name, weight, weighs=True)] if weight is not None else []
    return tuple(found)


def bin_facts(plan: ReleasePlan) -> tuple[BinFacts, ...]:
    """The bins of each query that asks where values lie."""
    found = []
    for planned in plan.queries:
        query = planned.query
        if isinstance(query, Distinct):
            found.append(BinFacts(planned.name, query.of.column, query.of.bins, None, None))
        elif (of := edges_of(query)) is not None:
            found.append(BinFacts(planned.name, of.column, of.bins, of.edges[0], of.edges[-1]))
    return tuple(found)


def value_of(query: Query) -> ClampedColumn | None:
    """The column whose clamped values a query adds up."""
    return query.of if isinstance(query, Sum | Mean | Variance | Std) else None


def weight_of(query: Query) -> ClampedColumn | None:
    """The column that says how much each row counts in a query."""
    if isinstance(query, Count | Sum | Mean | Variance | Std | Histogram | Quantiles | Extreme):
        return query.weight
    return None


def edges_of(query: Query) -> Edges | None:
    """The bins of a number that a query counts rows in."""
    return query.of if isinstance(query, Histogram | Quantiles | Extreme) else None


def _clamp(query: str, of: ClampedColumn, *, weighs: bool) -> ClampFacts:
    return ClampFacts(query, of.column, of.lower, of.upper, of.step, of.per_unit, weighs)
