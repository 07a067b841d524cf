"""What the answers of a plan will be worth: std and interval of each, and from which size it is useful."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dp_spark.queries import (
    Count,
    Distinct,
    Extreme,
    Histogram,
    Ids,
    Mean,
    Quantiles,
    Query,
    Ratio,
    Std,
    Sum,
    Variance,
)
from dp_spark.release.plan import PlannedQuery, PlannedTotal, ReleasePlan
from dp_spark.report.clamps import weight_of
from dp_spark.report.figures import figures
from dp_spark.report.levels import level_words
from dp_spark.report.references import ReferenceFacts, references

# An answer counts as useful from the size at which its std is this share of it.
USEFUL_STD = 0.1


@dataclass(frozen=True, slots=True)
class UsefulFacts:
    """From when on the std of an answer is `relative_std` of `of`.

    Attributes:
        relative_std: the share.
        of: what the std is compared with, in words.
        least: the smallest size or total for which it holds.
        unit: what `least` counts: `rows`, `values`, `units`, or a column where it is an amount.
        is_amount: whether it is the size of a sum, and no number of something.
    """

    relative_std: float
    of: str
    least: float
    unit: str
    is_amount: bool = False


@dataclass(frozen=True, slots=True)
class LevelStd:
    """Noise of a total of one grouping, as it was drawn.

    Attributes:
        level: the grouping in words; empty for the groups themselves.
        std: standard deviation.
        half_width: of the interval.
    """

    level: str
    std: float
    half_width: float


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What the answers to a query will be worth.

    Attributes:
        name: of the query.
        kind: of the query.
        columns: what it writes: value, std, low, high of each answer.
        std: of the noise in every row, or None where rows have each their own.
        half_width: of the interval in every row, or None likewise.
        std_in_words: the std as a sentence would put it.
        useful: from which size on it is useful.
        references: std and half width at some sizes, where they depend on the group.
        levels: std and half width of each grouping's totals, where there are several and it has no others.
        adds_up: whether its coarser groups are sums of its groups, so that least squares makes noise less.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    std: float | None
    half_width: float | None
    std_in_words: str
    useful: UsefulFacts
    references: tuple[ReferenceFacts, ...] = ()
    levels: tuple[LevelStd, ...] = ()
    adds_up: bool = False


def query_facts(plan: ReleasePlan) -> tuple[QueryFacts, ...]:
    """What each answer will be worth, in the order of the spec."""
    written: dict[str, list[str]] = {}
    for column in plan.columns:
        if column.query is not None:
            written.setdefault(column.query, []).append(column.name)
    return tuple(
        _lattice_facts(plan, query, tuple(written[query.name]))
        if all(answer.total is not None for answer in query.query.answers)
        else _derived_facts(query, tuple(written[query.name]))
        for query in plan.queries
    )


def _lattice_facts(plan: ReleasePlan, query: PlannedQuery, columns: tuple[str, ...]) -> QueryFacts:
    """Of a query whose answers are cells of its only total."""
    (total,) = query.totals
    useful = _useful_total(query.query, total)
    if not query.rolled:
        words = f"{figures(total.std)} in every group, whatever its size"
        return QueryFacts(query.name, query.kind, columns, total.std, total.half_width, words, useful)
    adds_up, totals = total.total.adds_up, [planned for (planned,) in query.levels]
    factor = max(each.half_width / each.std for each in totals)  # of least squares, as `smoothed` has it
    levels = tuple(
        LevelStd(level_words(plan, level), each.std, factor * each.std if adds_up else each.half_width)
        for level, each in enumerate(totals)
    )
    drawn = "; ".join(f"{figures(each.std)} {each.level or 'in a group'}" for each in levels)
    words = f"at most {drawn}; by least squares, each row its own" if adds_up else f"{drawn}; as drawn"
    return QueryFacts(query.name, query.kind, columns, None, None, words, useful, (), levels, adds_up)


def _useful_total(query: Query, total: PlannedTotal) -> UsefulFacts:
    unit, of, is_amount = "rows", "the true count", False
    weight = weight_of(query)
    match query:
        case Sum():
            unit, of, is_amount = query.of.column, "the size of the true total", True
        case Ids():
            unit = "units"
        case Distinct():
            unit = f"of {query.of.bins:,} listed values"
        case Histogram():
            unit, of = "rows in a bin" if weight is None else "weight in a bin", "the true count"
        case Count():
            unit = "rows" if weight is None else "weight"
        case _:
            unit = "values"
    return UsefulFacts(USEFUL_STD, of, total.std / USEFUL_STD, unit, is_amount)


def _derived_facts(query: PlannedQuery, columns: tuple[str, ...]) -> QueryFacts:
    """Of a query whose answers are computed from its totals."""
    found = references(query)
    of, compared = _compared(query.query)
    useful = UsefulFacts(
        USEFUL_STD,
        of,
        found.std_times_size / (USEFUL_STD * compared),
        _sized_by(query.query),
        isinstance(query.query, Ratio) and isinstance(query.query.denominator, Sum),
    )
    return QueryFacts(
        query.name,
        query.kind,
        columns,
        None,
        None,
        _derived_words(query, found.std_times_size),
        useful,
        found.rows,
    )


def _compared(query: Query) -> tuple[str, float]:
    """What the std of a derived answer is compared with: in words, and how much it is."""
    match query:
        case Variance(of=of):
            return "the variance of evenly spread values", float(of.upper - of.lower) ** 2 / 12
        case Std(of=of):
            return "the std of evenly spread values", float(of.upper - of.lower) / math.sqrt(12)
        case Mean(of=of):
            return "half the distance of the bounds", float(of.upper - of.lower) / 2
        case Quantiles(of=edges) | Extreme(of=edges):
            return "half the distance of the outer edges", float(edges.edges[-1] - edges.edges[0]) / 2
        case Ratio(lower=lower, upper=upper):
            return "half the distance of the bounds", float(upper - lower) / 2
        case _:
            raise TypeError(f"{type(query).__name__} is no query of which answers are derived")


def _sized_by(query: Query) -> str:
    match query:
        case Ratio(denominator=Sum(of=of)):
            return of.column
        case Ratio(denominator=Ids()):
            return "units"
        case Ratio(denominator=Count(weight=None)):
            return "rows"
        case Ratio(denominator=Count()):
            return "weight"
        case _:
            return "values" if weight_of(query) is None else "weight"


def _derived_words(query: PlannedQuery, std_times_size: float) -> str:
    """How the std depends on the group."""
    large, size = figures(std_times_size), _SIZES.get(query.kind, "number of values")
    match query.query:
        case Mean(of=of):
            centred, count = query.totals
            radius = float(of.upper - of.lower) / 2
            at_bounds = math.hypot(1.0, radius * count.std / centred.std)
            return (
                f"{large} / {size} for a mean midway between the bounds, "
                f"{figures(at_bounds, 3)} times that at a bound, at most {figures(radius)}"
            )
        case Variance() | Std():
            return f"about {large} / {size} for values that are spread evenly between the bounds"
        case Ratio():
            return f"about {large} / {size} for a ratio midway between its bounds"
        case _:
            return (
                f"about {large} / {size} for values that are spread evenly over the edges; less where more "
                "of them are near, more where fewer are"
            )


_SIZES: Mapping[str, str] = {"ratio": "denominator"}
