"""What the kinds of query in a release leave out, or stand for, in words."""

from collections.abc import Iterable, Iterator

from dp_spark.queries import Distinct, Extreme, Quantiles, Ratio, Values, decimal_text
from dp_spark.release.plan import ReleasePlan
from dp_spark.report.clamps import edges_of, value_of, weight_of
from dp_spark.report.figures import exact, listed_names


def limits_of_queries(plan: ReleasePlan) -> tuple[str, ...]:
    """A sentence for everything of this kind that is true of a query of the plan."""
    return (*_of_columns(plan), *_of_bins(plan), *_of_ratios(plan), *_of_rollup(plan))


def _of_columns(plan: ReleasePlan) -> Iterator[str]:
    asked = [each.query for each in plan.queries]
    if columns := _distinct(of.column for query in asked if (of := value_of(query)) is not None):
        yield (
            f"Where values are added up, one of {columns} that is NULL, NaN or no number counts for nothing; "
            "an infinite one counts as the bound."
        )
    if columns := _distinct(query.column for query in asked if isinstance(query, Values)):
        yield f"A count of {columns} counts the rows in which it is neither NULL nor NaN."
    if columns := _distinct(of.column for query in asked if (of := weight_of(query)) is not None):
        yield (
            f"A row whose weight ({columns}) is NULL, NaN or no number counts for nothing where it is "
            "weighed; a weight below 0 counts as 0, one above its bound as the bound."
        )


def _of_bins(plan: ReleasePlan) -> Iterator[str]:
    asked = [each.query for each in plan.queries]
    if columns := _distinct(of.column for query in asked if (of := edges_of(query)) is not None):
        yield (
            f"Values of {columns} beyond the edges count in the outer bins; one that is NULL, NaN or no "
            "number is in none."
        )
    if names := _named(plan, Quantiles, Extreme):
        yield (
            f"{names}: within a bin, values count as evenly spread. A quantile is at most as fine as its "
            "bins and never beyond the outer edges, which is not in its interval."
        )
    if ends := _distinct(
        f"{each.name} is the {decimal_text(each.query.at)} quantile"
        for each in plan.queries
        if isinstance(each.query, Extreme)
    ):
        yield (
            "A minimum or maximum hangs on one row, which noise has to hide: a quantile stands for it. "
            f"{ends}."
        )
    if columns := _distinct(query.of.column for query in asked if isinstance(query, Distinct)):
        yield f"Of {columns}, only listed values are counted as distinct: another one counts for nothing."


def _of_ratios(plan: ReleasePlan) -> Iterator[str]:
    if bounded := _distinct(
        f"{each.name} to [{exact(each.query.lower)}, {exact(each.query.upper)}]"
        for each in plan.queries
        if isinstance(each.query, Ratio)
    ):
        yield f"Ratios are cut to their bounds, and their intervals too: {bounded}."


def _of_rollup(plan: ReleasePlan) -> Iterator[str]:
    drawn = [
        each.name
        for each in plan.queries
        if each.rolled and each.query.answers[0].total is not None and not each.totals[0].total.adds_up
    ]
    if drawn:
        yield (
            f"{listed_names(drawn)}: every grouping has noise of its own, so that coarser groups are not the "
            "sums of finer ones."
        )


def _named(plan: ReleasePlan, *kinds: type) -> str:
    return listed_names([each.name for each in plan.queries if isinstance(each.query, kinds)])


def _distinct(texts: Iterable[str]) -> str:
    return listed_names(list(dict.fromkeys(texts)))
