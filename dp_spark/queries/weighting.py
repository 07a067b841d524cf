"""Survey weights: rows that count as often as a column says, up to a public bound."""

from fractions import Fraction

from dp_spark.queries.measure import ClampedColumn


def most_weight(weight: ClampedColumn | None) -> int:
    """The most steps of weight that a row has: 1 where rows have no weights."""
    return 1 if weight is None else weight.upper_steps


def weight_step(weight: ClampedColumn | None) -> Fraction:
    """The value of one step of weight: 1 where rows have no weights."""
    return Fraction(1) if weight is None else weight.step
