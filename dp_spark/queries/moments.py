"""The totals that mean, variance and std are made of: equal ones are drawn once and shared."""

from dp_spark.queries.measure import Bounds, ClampedColumn, Measure, MeasureKind, Total, total_of_rows
from dp_spark.queries.weighting import most_weight, weight_step


def centred_sum(of: ClampedColumn, weight: ClampedColumn | None, bounds: Bounds) -> Total:
    """The sum of distances from the midpoint of the bounds, in half steps.

    Centring halves what a row can move at worst: (upper - lower) / 2.
    """
    measure, most = Measure(MeasureKind.CENTRED, of, weight), most_weight(weight) * _span(of)
    step = of.step / 2 * weight_step(weight)
    return total_of_rows("centred_sum", measure, step, bounds, least=-most, most=most)


def value_count(of: ClampedColumn, weight: ClampedColumn | None, bounds: Bounds) -> Total:
    """The number of values, or their weight; a unit's rows in a group may have none."""
    measure, most = Measure(MeasureKind.NON_NULL, of, weight), most_weight(weight)
    return total_of_rows("values", measure, weight_step(weight), bounds, least=0, most=most)


def centred_squares(of: ClampedColumn, weight: ClampedColumn | None, bounds: Bounds) -> Total:
    """The sum of squared distances from the midpoint, less half the largest square, in step^2 / 8.

    A row adds 2 c^2 - span^2, where c, its distance in half steps, is odd if and only if span is: at least
    2 (span mod 2) - span^2, at most span^2. That halves what a row can move at worst.
    """
    measure, square, weights = Measure(MeasureKind.SQUARE, of, weight), _span(of) ** 2, most_weight(weight)
    step = of.step**2 / 8 * weight_step(weight)
    least, most = weights * (2 * (_span(of) % 2) - square), weights * square
    return total_of_rows("squares", measure, step, bounds, least=least, most=most)


def _span(of: ClampedColumn) -> int:
    return of.upper_steps - of.lower_steps
