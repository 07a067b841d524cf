"""The ranges in which the room computes: numbers of categories, and epsilon."""

from fractions import Fraction
from numbers import Integral

from dp_spark.errors import PlanRefused
from dp_spark.rationals import decimal, exact

MOST_CATEGORIES = 1_000_000
LEAST_EPSILON, MOST_EPSILON = Fraction(1, 10_000), Fraction(20)


def checked_sizes(n_categories: int, n_sensitive: int) -> tuple[int, int]:
    """W and v as plain integers.

    Raises:
        PlanRefused: one is no whole number, or not 1 <= v <= w, 2 <= w <= MOST_CATEGORIES.
    """
    categories = _whole(
        "n_categories",
        n_categories,
        range(2, MOST_CATEGORIES + 1),
        "list at least one category beside the catch-all, and no more than the million that matter",
    )
    sensitive = _whole(
        "n_sensitive",
        n_sensitive,
        range(1, categories + 1),
        "count the sensitive categories, the catch-all among them; all may be sensitive",
    )
    return categories, sensitive


def checked_epsilon(epsilon: Fraction | float) -> Fraction:
    """`epsilon` as a fraction; a float means its shortest decimal.

    Raises:
        PlanRefused: it is no finite number, or outside LEAST_EPSILON..MOST_EPSILON.
    """
    value = exact("epsilon", epsilon)
    if not LEAST_EPSILON <= value <= MOST_EPSILON:
        raise PlanRefused(
            "uldp_epsilon",
            f"epsilon = {epsilon} (allowed: {decimal(LEAST_EPSILON)} to {decimal(MOST_EPSILON)})",
            way_out="give an epsilon in that range; 0.5 to 3 is usual for one question",
        )
    return value


def _whole(parameter: str, value: int, allowed: range, way_out: str) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) in allowed:
        return int(value)
    span = f"a whole number from {allowed.start:,} to {allowed.stop - 1:,}"
    raise PlanRefused("uldp_sizes", f"{parameter} = {value!r} (allowed: {span})", way_out=way_out)
