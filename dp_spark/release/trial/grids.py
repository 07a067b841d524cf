"""The bounds that a trial tries: a few numbers of rows and groups, and round numbers near quantiles."""

from collections.abc import Iterable
from fractions import Fraction
from math import floor, lcm, log10

_FIRST, _DECADE = (1, 2, 3, 5), (8, 12, 20, 30, 50)
_ROUND = tuple(Fraction(tenths, 10) for tenths in (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100))
LOW_QUANTILES, HIGH_QUANTILES = (0.0, 0.001, 0.01, 0.05), (0.95, 0.99, 0.999, 1.0)


def whole_numbers(largest: int) -> tuple[int, ...]:
    """1, 2, 3, 5, 8, 12, 20, 30, ... up to the first that is `largest` or more."""
    found = list(_FIRST)
    while found[-1] < largest:
        found += [each * 10 ** ((len(found) - len(_FIRST)) // len(_DECADE)) for each in _DECADE]
    return tuple(found[: 1 + next(i for i, each in enumerate(found) if each >= largest)])


def round_numbers(values: Iterable[float], step: Fraction | None) -> tuple[Fraction, ...]:
    """The round numbers on both sides of each value, in their order; multiples of `step` if there is one."""
    sides = {side for value in values for side in around(value)}
    if step is not None:
        sides = {near for side in sides for near in (side // step * step, -(-side // step) * step)}
    return tuple(sorted(sides))


def common_multiple(steps: Iterable[Fraction]) -> Fraction | None:
    """The least number that is a multiple of each; None of none."""
    given = list(steps)
    if not given:
        return None
    parts = lcm(*(step.denominator for step in given))
    return Fraction(lcm(*(int(step * parts) for step in given)), parts)


def around(value: float) -> tuple[Fraction, Fraction]:
    """The largest round number up to `value`, and the least from it on: 1, 1.2, 1.5, 2, ... 8, 10, 12, ..."""
    if value < 0:
        low, high = around(-value)
        return -high, -low
    if value == 0:
        return Fraction(0), Fraction(0)
    power = Fraction(10) ** floor(log10(value))
    below = [digit * power for digit in _ROUND if digit * power <= Fraction(value)] or [power]
    above = [digit * power for digit in _ROUND if digit * power >= Fraction(value)] or [10 * power]
    return below[-1], above[0]
