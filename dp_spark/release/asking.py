"""From an entry of a spec's queries to the question it asks, in numbers that stay exact."""

from fractions import Fraction

from dp_spark.errors import PlanRefused
from dp_spark.queries import (
    ClampedColumn,
    Count,
    Countable,
    Distinct,
    Edges,
    Extreme,
    Histogram,
    Ids,
    Listed,
    Mean,
    Quantiles,
    Query,
    Ratio,
    Std,
    Sum,
    Values,
    Variance,
)
from dp_spark.release.spec import (
    BinnedQuerySpec,
    Clamp,
    ColumnQuerySpec,
    CountingQuerySpec,
    DistinctQuerySpec,
    QueryKind,
    QuerySpec,
    RatioQuerySpec,
    ReleaseSpec,
    WeightSpec,
)

# Integers that a row, or a unit in one group, adds: below 2^31 the sum over one partition (below 2^31 rows)
# fits 64 bits.
LARGEST_ROW_INTEGER = 2**31
# A range has at least so many steps where none is written; fewer where a weight multiplies a square.
_STEPS, _STEPS_OF_WEIGHED_SQUARE = 1000, 100


def query_of(entry: QuerySpec, spec: ReleaseSpec) -> Query:
    """The question that one entry of the spec's `queries` asks; a ratio's are others of the spec.

    Raises:
        PlanRefused: a row would add integers too large to stay exact.
    """
    match entry:
        case CountingQuerySpec() | ColumnQuerySpec(kind=QueryKind.SUM):
            return _countable(entry)
        case ColumnQuerySpec():
            return _of_moments(entry)
        case BinnedQuerySpec():
            return _of_bins(entry)
        case DistinctQuerySpec():
            return Distinct(Listed(entry.column, entry.values))
        case RatioQuerySpec():
            return _ratio(entry, spec)


def _countable(entry: CountingQuerySpec | ColumnQuerySpec) -> Countable:
    """The question of a query that has one total."""
    if isinstance(entry, ColumnQuerySpec):
        of, weight = _clamped(entry, _STEPS), _weight(entry.weight, entry.name, _STEPS)
        _require_exact(entry, of, weight)
        return Sum(of, weight)
    if entry.kind is QueryKind.IDS:
        return Ids()
    if entry.column is not None:
        return Values(entry.column)
    return Count(_weight(entry.weight, entry.name, _STEPS))


def _of_moments(entry: ColumnQuerySpec) -> Query:
    """The question of a mean, or of a variance or its root, which have the mean's totals too."""
    squared = entry.kind is not QueryKind.MEAN
    steps = _STEPS_OF_WEIGHED_SQUARE if squared and entry.weight is not None else _STEPS
    of, weight = _clamped(entry, steps), _weight(entry.weight, entry.name, steps)
    _require_exact(entry, of, weight)
    if not squared:
        return Mean(of, weight)
    return Variance(of, weight) if entry.kind is QueryKind.VARIANCE else Std(of, weight)


def _of_bins(entry: BinnedQuerySpec) -> Query:
    of, weight = Edges(entry.column, entry.edges), _weight(entry.weight, entry.name, _STEPS)
    match entry.kind:
        case QueryKind.HISTOGRAM:
            return Histogram(of, weight)
        case QueryKind.QUANTILES:
            return Quantiles(of, entry.at or (), weight)
        case _:
            (share,) = entry.at or ()
            return Extreme(of, share, weight)


def _ratio(entry: RatioQuerySpec, spec: ReleaseSpec) -> Ratio:
    numerator, denominator = (
        _countable(each)
        for name in (entry.numerator, entry.denominator)
        for each in spec.queries
        if each.name == name and isinstance(each, CountingQuerySpec | ColumnQuerySpec)
    )
    says = f"{entry.numerator} / {entry.denominator}"
    return Ratio(numerator, denominator, entry.lower, entry.upper, says)


def _clamped(entry: ColumnQuerySpec, steps: int) -> ClampedColumn:
    step = entry.step or _default_step(entry.lower, entry.upper, steps)
    return ClampedColumn(entry.column, entry.lower, entry.upper, step, entry.clamp is Clamp.UNIT)


def _weight(weight: WeightSpec | None, query: str, steps: int) -> ClampedColumn | None:
    if weight is None:
        return None
    step = weight.step or _default_step(Fraction(0), weight.upper, steps)
    if weight.upper / step > LARGEST_ROW_INTEGER:
        raise PlanRefused(
            "step_too_fine",
            f"queries {query}: weights up to {float(weight.upper):g} are {float(weight.upper / step):.3g} "
            f"steps of {float(step):g}; at most {LARGEST_ROW_INTEGER} are exact",
            way_out="give a coarser `weight.step`, or a rounder `weight.upper`",
        )
    return ClampedColumn(weight.column, Fraction(0), weight.upper, step)


def _require_exact(entry: ColumnQuerySpec, of: ClampedColumn, weight: ClampedColumn | None) -> None:
    """Refuses a query whose rows may add integers that are too large; those of a variance are squares.

    Raises:
        PlanRefused: they may.
    """
    span = of.upper_steps - of.lower_steps
    furthest = max(abs(of.lower_steps), abs(of.upper_steps), span)
    squared = entry.kind in (QueryKind.VARIANCE, QueryKind.STD)
    largest = max(furthest, span**2 if squared else 0) * (1 if weight is None else weight.upper_steps)
    if largest <= LARGEST_ROW_INTEGER:
        return
    counted = f"{furthest:.3g} steps of {float(of.step):g} from 0 or from each other"
    squares = ", which are squared" if squared else ""
    weighed = (
        "" if weight is None else f", times {weight.upper_steps} steps of {float(weight.step):g} of weight"
    )
    raise PlanRefused(
        "step_too_fine",
        f"queries {entry.name}: bounds of [{float(of.lower):g}, {float(of.upper):g}] are "
        f"{counted}{squares}{weighed}: a row may add {largest:.3g}; at most {LARGEST_ROW_INTEGER} are exact",
        way_out="give a coarser `step`, or tighter `lower` and `upper`"
        + ("" if weight is None else ", or a coarser `weight.step`"),
    )


def _default_step(lower: Fraction, upper: Fraction, steps: int) -> Fraction:
    """The coarsest power of ten of which both bounds are multiples and the range has that many."""
    step = Fraction(1)
    while step * 10 * steps <= upper - lower:
        step *= 10
    while step * steps > upper - lower or (lower / step).denominator > 1 or (upper / step).denominator > 1:
        step /= 10
    return step
