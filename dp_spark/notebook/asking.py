"""The words that ask: a function for each kind of query, which `Release` has as its method.

A query is named by `name`: a-z, then a-z, 0-9 and `_`; its columns are that name, `_std`, `_low` and `_high`.
Columns of values are numbers, or texts that are read as one; a row whose value is NULL or NaN counts for
nothing there. Bounds, edges, lists and weights come from public knowledge, never from the rows.

A `weight` is `{"column": "w", "upper": 10}`, with a `step` if need be: each row counts so many times, weights
are clamped to 0 to `upper` and rounded to `step`, and a row without one counts for nothing.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from dp_spark.notebook.words import Listed, Number, R
from dp_spark.release.spec import QueryKind

Weight: TypeAlias = Mapping[str, Any]
Edges: TypeAlias = Listed | Mapping[str, Number]


def ask_count(release: R, name: str, column: str | None = None, *, weight: Weight | None = None) -> R:
    """Ask for the number of rows.

    Args:
        release: what is said so far.
        name: of the column that is released.
        column: of any type; only rows count whose value there is neither NULL nor NaN.
        weight: `{"column": "w", "upper": 10}`, instead of `column`: the sum of these weights.
    """
    return _ask(release, QueryKind.COUNT, name=name, column=column, weight=weight)


def ask_ids(release: R, name: str) -> R:
    """Ask for the number of distinct units."""
    return _ask(release, QueryKind.IDS, name=name)


def ask_sum(  # noqa: PLR0913  # the keys of the spec
    release: R,
    name: str,
    column: str,
    *,
    lower: Number,
    upper: Number,
    step: Number | None = None,
    clamp: str = "row",
    weight: Weight | None = None,
) -> R:
    """Ask for the sum of a column.

    Args:
        release: what is said so far.
        name: of the column that is released.
        column: a number, or a text that is read as one; NULL and NaN count for nothing.
        lower: values below count as it; in the column's unit, from public knowledge.
        upper: values above count as it.
        step: values are rounded to it; else to a thousandth of the range, or finer.
        clamp: what the bounds hold for: each `row`, or the sum of a `unit`'s rows in a group.
        weight: `{"column": "w", "upper": 10}`: each value counts so many times; goes with `row`.
    """
    bounds = {"lower": lower, "upper": upper, "step": step}
    return _ask(release, QueryKind.SUM, name=name, column=column, **bounds, clamp=clamp, weight=weight)


def ask_mean(
    release: R,
    name: str,
    column: str,
    *,
    lower: Number,
    upper: Number,
    step: Number | None = None,
    weight: Weight | None = None,
) -> R:
    """Ask for the mean of a column; arguments as those of `sum`."""
    bounds = {"lower": lower, "upper": upper, "step": step}
    return _ask(release, QueryKind.MEAN, name=name, column=column, **bounds, weight=weight)


def ask_variance(
    release: R,
    name: str,
    column: str,
    *,
    lower: Number,
    upper: Number,
    step: Number | None = None,
    weight: Weight | None = None,
) -> R:
    """Ask for the variance of a column: divided by the number of values; arguments as those of `sum`."""
    bounds = {"lower": lower, "upper": upper, "step": step}
    return _ask(release, QueryKind.VARIANCE, name=name, column=column, **bounds, weight=weight)


def ask_std(
    release: R,
    name: str,
    column: str,
    *,
    lower: Number,
    upper: Number,
    step: Number | None = None,
    weight: Weight | None = None,
) -> R:
    """Ask for the standard deviation of a column, the root of `variance`; arguments as those of `sum`."""
    bounds = {"lower": lower, "upper": upper, "step": step}
    return _ask(release, QueryKind.STD, name=name, column=column, **bounds, weight=weight)


def ask_distinct(release: R, name: str, column: str, *, values: Listed) -> R:
    """Ask how many values of a public list occur in a column.

    Args:
        release: what is said so far.
        name: of the column that is released.
        column: of text.
        values: 1 to 1,000 distinct texts; others count for nothing.
    """
    return _ask(release, QueryKind.DISTINCT, name=name, column=column, values=values)


def ask_histogram(release: R, name: str, column: str, *, edges: Edges, weight: Weight | None = None) -> R:
    """Ask for the number of rows in each bin: released as `name_1`, `name_2`, and so on.

    Args:
        release: what is said so far.
        name: begins the names of the columns that are released.
        column: a number, or a text that is read as one.
        edges: 2 to 1,001 ascending numbers, or `{"start": 0, "stop": 100, "step": 5}`, `stop` included; the
            first bin and the last hold what lies beyond.
        weight: `{"column": "w", "upper": 10}`: each row counts so many times.
    """
    return _ask(release, QueryKind.HISTOGRAM, name=name, column=column, edges=edges, weight=weight)


def ask_quantiles(
    release: R,
    name: str,
    column: str,
    *,
    edges: Edges,
    at: Listed | Number,
    weight: Weight | None = None,
) -> R:
    """Ask for quantiles of a column: released as `name_p50`, `name_p99_5`, and so on.

    Args:
        release: what is said so far.
        name: begins the names of the columns that are released.
        column: a number, or a text that is read as one.
        edges: as those of `histogram`; within a bin rows count as spread evenly.
        at: shares between 0 and 1: 0.5 is the median. Many cost what one does.
        weight: `{"column": "w", "upper": 10}`: each row counts so many times.
    """
    return _ask(release, QueryKind.QUANTILES, name=name, column=column, edges=edges, at=at, weight=weight)


def ask_min(
    release: R,
    name: str,
    column: str,
    *,
    edges: Edges,
    at: Number | None = None,
    weight: Weight | None = None,
) -> R:
    """Ask for a low quantile: the least value itself hangs on one row, which noise has to hide.

    Args:
        release: what is said so far.
        name: of the column that is released.
        column: a number, or a text that is read as one.
        edges: as those of `histogram`.
        at: below 0.5; else 0.01.
        weight: `{"column": "w", "upper": 10}`: each row counts so many times.
    """
    return _ask(release, QueryKind.MIN, name=name, column=column, edges=edges, at=at, weight=weight)


def ask_max(
    release: R,
    name: str,
    column: str,
    *,
    edges: Edges,
    at: Number | None = None,
    weight: Weight | None = None,
) -> R:
    """Ask for a high quantile; arguments as those of `min`, with `at` above 0.5, else 0.99."""
    return _ask(release, QueryKind.MAX, name=name, column=column, edges=edges, at=at, weight=weight)


def ask_ratio(release: R, name: str, numerator: str, denominator: str, *, lower: Number, upper: Number) -> R:
    """Ask for one query over another; it draws no noise of its own, and costs nothing.

    Args:
        release: what is said so far.
        name: of the column that is released.
        numerator: name of a `count`, `sum` or `ids` that is said before.
        denominator: name of another.
        lower: the ratio is clamped to it; from public knowledge.
        upper: and to this.
    """
    bounds = {"lower": lower, "upper": upper}
    return _ask(release, QueryKind.RATIO, name=name, numerator=numerator, denominator=denominator, **bounds)


def _ask(release: R, kind: QueryKind, **settings: object) -> R:
    given = {key: each for key, each in settings.items() if each is not None}
    return release._added("queries", {"kind": kind, **given})
