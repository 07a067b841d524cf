"""Geometry of the pictures on the page: how a whole is shared, and how large a group must be."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dp_spark.report import phrases
from dp_spark.report.facts import CostFacts, ReleaseFacts
from dp_spark.report.figures import exact, figures
from dp_spark.report.worth import QueryFacts

WIDTH = 760  # of every picture, in its own units
MOST_ROWS = 30  # of a ruler; the tables have all
SELECTION_STYLE = "spent"
COLOURS = 6  # classes c0 to c5 of the style sheet
_LABEL_WIDTH = 150
_RIGHT_MARGIN = 40
_LETTER = 7.2  # at most, at the font size of labels

# Relative std at which one band of a ruler gives way to the next, from noise to precision.
BAND_LIMITS = (1.0, 0.3, 0.1, 0.03, 0.01)
_MARKED = 0.1


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar.

    Attributes:
        x: where it begins.
        width: how long it is.
        style: class of its fill.
        label: what is written in it; empty where there is no room.
        title: what it is.
    """

    x: float
    width: float
    style: str
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class RulerRow:
    """One query on a ruler: its bands, and the size at which its std is 10 %."""

    name: str
    unit: str
    bands: tuple[Segment, ...]
    marked: Tick


@dataclass(frozen=True, slots=True)
class Ruler:
    """Queries against sizes on one logarithmic axis."""

    caption: str
    rows: tuple[RulerRow, ...]
    ticks: tuple[Tick, ...]


def shared_epsilon(facts: ReleaseFacts) -> tuple[Segment, ...]:
    """What the totals, and selecting the groups, cost alone as one bar, a segment for each."""
    alone = [
        (total_style(i), phrases.total_name(each), each.epsilon_alone) for i, each in enumerate(facts.totals)
    ]
    selection = facts.groups.selection
    if selection is not None and selection.epsilon_alone is not None:
        alone.append((SELECTION_STYLE, phrases.SELECTING, selection.epsilon_alone))
    whole = sum(epsilon for *_, epsilon in alone)
    return _bar(
        (Fraction(epsilon / whole), style, name, figures(epsilon, 3)) for style, name, epsilon in alone
    )


def spent_epsilon(cost: CostFacts) -> tuple[Segment, ...]:
    """The epsilon of the account as one bar: schedules, other releases, this one, what is left."""
    this = cost.takes.epsilon
    parts = (
        (cost.scheduled.epsilon, "scheduled", "schedules"),
        (cost.spent.epsilon - (this if cost.charged else 0), "spent", "other releases"),
        (this, "this", "this release"),
        (max(cost.left_after.epsilon, Fraction(0)), "left", "left"),
    )
    shown = [part for part in parts if part[0] or part[1] != "scheduled"]
    whole = max(cost.limit.epsilon, sum(amount for amount, _, _ in shown))
    return _bar((each / whole, style, name, exact(each)) for each, style, name in shown)


def total_style(index: int) -> str:
    """The fill of the total at `index`, on the bar and in the table."""
    return f"c{index % COLOURS}"


def band_names() -> tuple[str, ...]:
    """What the bands of a ruler stand for, from noise to precision."""
    percent = [f"{figures(100 * limit)}" for limit in BAND_LIMITS]
    between = (f"{low}-{high} %" for high, low in pairwise(percent))
    return (f"above {percent[0]} %: noise", *between, f"below {percent[-1]} %")


def rulers(facts: ReleaseFacts) -> tuple[Ruler, ...]:
    """How large a group must be for each query; sums, whose sizes are amounts, on an axis of their own."""
    noisy = [query for query in facts.queries if query.useful.least > 0]  # a quantile of one bin is constant
    sums = [query for query in noisy if query.useful.is_amount]
    others = [query for query in noisy if not query.useful.is_amount]
    captions = ("rows, units or values in the group", "size of the true total of the group")
    return tuple(
        _ruler(queries[:MOST_ROWS], caption)
        for queries, caption in zip((others, sums), captions, strict=True)
        if queries
    )


def _bar(parts: Iterable[tuple[Fraction, str, str, str]]) -> tuple[Segment, ...]:
    segments, x = [], 0.0
    for part, style, name, amount in parts:
        width = float(part) * WIDTH
        label = amount if len(amount) * _LETTER < width - 8 else ""
        segments.append(Segment(round(x, 2), round(width, 2), style, label, f"{name} {amount}"))
        x += width
    return tuple(segments)


def _ruler(queries: Sequence[QueryFacts], caption: str) -> Ruler:
    at_whole = {query.name: query.useful.least * query.useful.relative_std for query in queries}
    first = math.floor(math.log10(min(at_whole.values()))) - 1
    first = first if queries[0].useful.is_amount else max(first, 0)  # no group has half a row
    last = max(first + 2, math.ceil(math.log10(max(at_whole.values()) / BAND_LIMITS[-1]) + 0.2))
    per_decade = (WIDTH - _LABEL_WIDTH - _RIGHT_MARGIN) / (last - first)

    def place(size: float) -> float:
        decades = math.log10(size) - first if size > 0 else 0.0
        return round(_LABEL_WIDTH + per_decade * min(max(decades, 0), last - first), 2)

    def row(query: QueryFacts) -> RulerRow:
        edges = [0.0, *(at_whole[query.name] / limit for limit in BAND_LIMITS), math.inf]
        places = [place(edge) for edge in edges]
        bands = (
            Segment(start, round(end - start, 2), f"band{i}", "", "")
            for i, (start, end) in enumerate(pairwise(places))
        )
        least = at_whole[query.name] / _MARKED
        return RulerRow(
            query.name, phrases.useful_unit(query), tuple(bands), Tick(place(least), figures(least, 3))
        )

    every = math.ceil((last - first) / 10)
    ticks = (
        Tick(place(10.0**power), figures(Fraction(10) ** power)) for power in range(first, last + 1, every)
    )
    return Ruler(caption, tuple(map(row, queries)), tuple(ticks))
