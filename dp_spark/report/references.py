"""What a derived answer would be worth in groups of some sizes: the query's own estimate, without noise.

Values are spread evenly between the bounds or over the edges, and a ratio is midway between its bounds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.queries import (
    ClampedColumn,
    DerivedEstimate,
    Edges,
    Measure,
    MeasureKind,
    Query,
    Ratio,
    SmoothedTotal,
)
from dp_spark.release.plan import PlannedQuery

Floats = NDArray[np.float64]
REFERENCE_SIZES = (100, 10_000, 1_000_000)
# In a group so many times as large as the noise, std times size is a constant.
_LARGE = 1e6


@dataclass(frozen=True, slots=True)
class ReferenceFacts:
    """Std and half width of the interval that a derived answer has in a group of some size.

    Attributes:
        answer: the column.
        size: values in the group, their weight, or the denominator of a ratio.
        std: standard deviation of the noise.
        half_width: half the length of the interval.
    """

    answer: str
    size: int
    std: float
    half_width: float


@dataclass(frozen=True, slots=True)
class References:
    """What a query would say of groups if all noise happened to be 0.

    Attributes:
        rows: of every answer at every size.
        std_times_size: in large groups, where it is a constant: the largest of all answers.
    """

    rows: tuple[ReferenceFacts, ...]
    std_times_size: float


def references(planned: PlannedQuery) -> References:
    """The references of a query whose answers are all computed from its totals."""
    query, totals = planned.query, planned.totals
    per_row = [_of_one(query, place, total.total.measure) for place, total in enumerate(totals)]
    noise = [total.std / most for total, most in zip(totals, per_row, strict=True)]
    large = _LARGE * max(1.0, *noise)
    sizes = np.array([*REFERENCE_SIZES, large], dtype=np.float64)
    noisy = [
        SmoothedTotal(
            _true(query, place, total.total.measure, sizes),
            np.array(total.std),
            total.half_width / total.std,
        )
        for place, total in enumerate(totals)
    ]
    rows: list[ReferenceFacts] = []
    std_times_size = 0.0
    for answer, found in zip(query.answers, query.estimate(noisy), strict=True):
        assert isinstance(found, DerivedEstimate)  # that is which queries come here
        half_widths = (found.high - found.low) / 2
        rows += [
            ReferenceFacts(planned.name + answer.suffix, size, float(found.std[i]), float(half_widths[i]))
            for i, size in enumerate(REFERENCE_SIZES)
        ]
        std_times_size = max(std_times_size, large * float(found.std[-1]))
    return References(tuple(rows), std_times_size)


def _of_one(query: Query, place: int, measure: Measure) -> float:
    """What one value adds to a total at most; of a ratio, what makes it leave its range."""
    if isinstance(query, Ratio):
        middle, half = float(query.lower + query.upper) / 2, float(query.upper - query.lower) / 2
        return half if place == 0 else min(1.0, half / abs(middle)) if middle else 1.0
    radius = _radius(measure.of)
    return {MeasureKind.CENTRED: radius, MeasureKind.SQUARE: radius**2 / 2}.get(measure.kind, 1.0)


def _true(query: Query, place: int, measure: Measure, sizes: Floats) -> Floats:
    """A total of groups of these sizes, shape (groups,) or, of bins, (groups, cells)."""
    if isinstance(query, Ratio):
        return sizes * (float(query.lower + query.upper) / 2 if place == 0 else 1.0)
    match measure:
        case Measure(kind=MeasureKind.BIN, binning=Edges() as of, merged=merged):
            cells = sizes[:, np.newaxis] * _shares(of, merged)
            return cells[:, 0] if cells.shape[1] == 1 else cells
        case Measure(kind=MeasureKind.CENTRED):
            return np.zeros_like(sizes)
        case Measure(kind=MeasureKind.SQUARE, of=of):
            return -sizes * _radius(of) ** 2 / 6  # their mean square, r^2 / 3, less r^2 / 2
        case _:
            return sizes


def _shares(of: Edges, merged: int) -> Floats:
    """Of values spread evenly over the edges, the share in each cell of `merged` bins."""
    widths = np.diff([float(edge) for edge in of.edges])
    shares: Floats = np.add.reduceat(widths / widths.sum(), np.arange(0, of.bins, merged))
    return shares


def _radius(of: ClampedColumn | None) -> float:
    return 1.0 if of is None else float(of.upper - of.lower) / 2
