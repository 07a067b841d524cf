"""Intervals of numbers that mix several noises."""

from collections.abc import Sequence

from dp_spark.queries.measure import Noisy

_LEAST, _LARGEST = 1.96, 2.0


def mixed_factor(noisy: Sequence[Noisy]) -> float:
    """So many std either side hold about 95 % of a sum of these noises, whatever the shares of it.

    Of Gaussian noise 1.96 hold 95.0 %; of Laplace noise, the heaviest, two hold from 94.1 % of one to 95.4 %
    of many. A noise that is 0 nearly always says nothing of its sums, which need 1.96 at least.
    """
    return min(_LARGEST, max(_LEAST, *(total.factor for total in noisy)))
