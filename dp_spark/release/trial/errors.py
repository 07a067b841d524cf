"""How wrong each query would be: what bounding and clamping leave out, and what noise adds."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from dp_spark.queries import ClampedColumn, Measure, MeasureKind, Total
from dp_spark.release.asking import query_of
from dp_spark.release.planner import level_bounds
from dp_spark.release.spec import ReleaseSpec, contribution_bounds
from dp_spark.release.trial.noise import NoiseSearch
from dp_spark.release.trial.sample import Floats, Kept
from dp_spark.release.trial.totals import Totals


@dataclass(frozen=True, slots=True)
class QueryError:
    """The error of one query over all groups, in value.

    Attributes:
        query: its name.
        bias: root mean square over the groups of what is true less what is expected without noise.
        noise: standard deviation of the noise; where it depends on the group, the root mean square. Of a
            mean, both are over the groups' values.
        total: root of the sum of both squares.
    """

    query: str
    bias: float
    noise: float
    total: float


def query_errors(
    spec: ReleaseSpec, totals: Totals, noise: NoiseSearch
) -> tuple[float, tuple[QueryError, ...]]:
    """The share of the sample's rows that the spec's bounds keep, and the error of each query.

    Sums and counts are judged by themselves, and queries that use a centred sum as the mean is. Any other
    query is judged as the count of values that it rests on. A query of two totals that others have, such as
    a ratio, is not judged: they are.

    Raises:
        PlanRefused: the noise cannot be had.
    """
    kept, share = totals.kept(contribution_bounds(spec.unit, spec.bounds))
    questions, levels = [query_of(entry, spec) for entry in spec.queries], level_bounds(spec)
    needed_in = [[each.totals(bounds) for each in questions] for bounds in levels]
    stds = noise.stds(spec, [list(chain(*each)) for each in needed_in])
    asked = list(zip((entry.name for entry in spec.queries), needed_in[0], strict=True))
    uses = Counter(total for _, needed in asked for total in needed)
    errors = (
        _error(name, needed, stds, totals, kept)
        for name, needed in asked
        if _centred(needed) is not None or len(needed) == 1 or any(uses[total] == 1 for total in needed)
    )
    return share, tuple(errors)


def _error(
    query: str, needed: Sequence[Total], stds: Mapping[Total, float], totals: Totals, kept: Kept
) -> QueryError:
    centred = _centred(needed)
    if centred is not None:
        return _mean_error(query, centred, {each.measure.kind: stds[each] for each in needed}, totals, kept)
    measure = needed[0].measure
    return _made(query, totals.true(measure) - totals.expected(measure, kept), stds[needed[0]])


def _centred(needed: Sequence[Total]) -> Measure | None:
    return next((each.measure for each in needed if each.measure.kind is MeasureKind.CENTRED), None)


def _mean_error(
    query: str, centred: Measure, stds: Mapping[MeasureKind, float], totals: Totals, kept: Kept
) -> QueryError:
    """Of a mean in the groups that have values: noise by the delta method, within the bounds.

    A group counts as often as it has values: the mean of a few cannot be released well whatever the bounds,
    and would decide everything.
    """
    of = centred.of
    assert of is not None  # a centred sum is one of a column
    count = Measure(MeasureKind.NON_NULL, of, weight=centred.weight)
    values, expected = totals.true(count), totals.expected(count, kept)
    there = values > 0
    values, expected = values[there], expected[there]
    middle, radius = _middle(of)
    offset = totals.expected(centred, kept)[there] / expected - middle
    true = totals.true(centred)[there] / values
    std = np.hypot(stds[MeasureKind.CENTRED], offset * stds[MeasureKind.NON_NULL]) / np.maximum(expected, 1.0)
    if not len(values):
        return QueryError(query, 0.0, radius, radius)
    return _made(query, true - middle - offset, np.minimum(std, radius), weights=values)


def _middle(of: ClampedColumn) -> tuple[float, float]:
    return float(of.lower + of.upper) / 2, float(of.upper - of.lower) / 2


def _made(query: str, differences: Floats, std: float | Floats, weights: Floats | None = None) -> QueryError:
    bias, noise = (_root_mean_square(each, weights) for each in (differences, std))
    return QueryError(query, bias, noise, math.hypot(bias, noise))


def _root_mean_square(values: float | Floats, weights: Floats | None) -> float:
    squares = np.broadcast_to(np.square(values), np.shape(values if weights is None else weights))
    return math.sqrt(float(np.average(squares, weights=weights)))
