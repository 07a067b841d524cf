"""Lines x -> (a x + b) mod q over a prime q, numbered (a - 1) q + b; half of all multipliers a are enough.

Of a and -a only one is taken, in 1..(q-1)/2 (a = 1 if q = 2): whatever depends on the difference of two
points up to its sign is met by that half as often as by the other. Numbers stay below q^2 / 2 < 2^61.
"""

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp.designs import Ids
from dp_spark.uldp.primes import is_prime, least_prime
from dp_spark.uldp.ranges import check_range

LARGEST_PRIME = 2**31 - 1

# NumPy divides by a scalar at a few ns an element, but only floor division, and unsigned in half the time.
Unsigned = NDArray[np.uint64]


def check_prime(n_points: int, prime: int) -> None:
    """Pass where `prime` is one, at most 2^31 - 1, and has room for the points.

    Raises:
        PlanRefused: it is not so.
    """
    check_range("n_points", n_points, 1, LARGEST_PRIME, way_out="give from one point to 2^31 - 1")
    fitting = f"take {least_prime(max(n_points, 2))}, the least prime that is not below the number of points"
    check_range("prime", prime, max(n_points, 2), LARGEST_PRIME, way_out=fitting)
    if not is_prime(prime):
        raise PlanRefused("not_a_prime", f"prime = {prime} is divisible", way_out=fitting)


def n_multipliers(prime: int) -> int:
    """The number M of multipliers: (q - 1) / 2, and 1 if q = 2."""
    return max(1, (prime - 1) // 2)


def lines_through(points: Ids, turns: Unsigned, values: Unsigned, prime: int) -> Ids:
    """The numbers of the lines with multipliers a = turns + 1 that take points to values; `turns` is used up.

    b = (value - a x) mod q = t - q floor(t / q) with t = value + a (q - x), so that the number
    (a - 1) q + b is t + q (a - 1 - floor(t / q)): one division. Unsigned words wrap, and wrap back.
    """
    order = np.uint64(prime)
    shifts = order - points.view(np.uint64)
    shifts *= turns + np.uint64(1)
    shifts += values
    turns -= shifts // order
    turns *= order
    turns += shifts
    return turns.view(np.int64)


def images(lines: Ids, points: Ids, prime: int) -> Ids:
    """(a x + b) mod q of numbered lines at points, broadcast together."""
    turns = lines // prime
    values: Ids = (turns + 1) * points + (lines - turns * prime)
    values -= values // prime * prime
    return values
