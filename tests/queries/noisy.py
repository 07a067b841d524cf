"""Noisy totals of known truth, for tests of what is decoded from them."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from dp_spark.queries import DerivedEstimate, Estimate, NoisyTotal, SmoothedTotal

# Standard deviations either side that hold 95 % of a law.
FACTORS = {"laplace": 2.1183, "gaussian": 1.96}


def noisy(values: ArrayLike, std: float, grid: Fraction = Fraction(1)) -> NoisyTotal:
    """Totals that came out as these values."""
    steps = np.rint(np.asarray(values) / float(grid)).astype(np.int64)
    return NoisyTotal(steps, grid, std, half_width=int(2.12 * std / float(grid)))


def drawn(
    truth: ArrayLike, *, family: str, std_steps: float, draws: int, rng: np.random.Generator, grid: Fraction
) -> NoisyTotal:
    """Draws of a total (or of the cells of one) whose noise has a std of so many grid steps."""
    exact = np.atleast_1d(np.asarray(truth, dtype=np.float64)) / float(grid)
    shape, scale = (draws, len(exact)), std_steps / np.sqrt(2)
    noise = rng.laplace(0, scale, shape) if family == "laplace" else rng.normal(0, std_steps, shape)
    steps = np.rint(exact + noise).astype(np.int64)
    half_width = int(np.ceil(FACTORS[family] * std_steps))
    return NoisyTotal(
        steps if len(exact) > 1 else steps[:, 0], grid, std_steps * float(grid), half_width=half_width
    )


def smoothed(total: NoisyTotal) -> SmoothedTotal:
    """The same numbers as least squares would give them: a std for every one of them."""
    return SmoothedTotal(total.values, np.full(total.values.shape, total.std), total.factor)


def coverage(answer: Estimate, truth: float, stretched: float = 1.0) -> float:
    """How often the interval holds the truth, once it is `stretched` around the value."""
    assert isinstance(answer, DerivedEstimate)
    low, high = (answer.value + stretched * (end - answer.value) for end in (answer.low, answer.high))
    return float(np.mean((low <= truth) & (truth <= high)))


def require_coverage(answer: Estimate, truth: float, least: float, most: float) -> None:
    """Coverage lies between the two, and does not once intervals are a tenth narrower or wider."""
    assert least <= coverage(answer, truth) <= most
    assert coverage(answer, truth, 0.9) < least
    assert coverage(answer, truth, 1.1) > most


def require_sound(answers: Sequence[Estimate], low: float, high: float) -> None:
    """Every number is finite and within the public bounds, and value lies within its interval."""
    for answer in answers:
        assert isinstance(answer, DerivedEstimate)
        parts = [answer.value, answer.std, answer.low, answer.high]
        assert np.all(np.isfinite(parts))
        assert np.all((low <= answer.low) & (answer.low <= answer.value))
        assert np.all((answer.value <= answer.high) & (answer.high <= high))
        assert np.all((answer.std >= 0) & (answer.std <= high - low))
