"""What many privacy losses compose to: an FFT under a tilt, its float error bounded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dp_spark.noise.losses import LOSS_ERROR, MASS_ERROR, GridLaw, LossLaw, Repeated, on_grid
from dp_spark.noise.tails import Floats

Complexes = NDArray[np.complex128]

_UNIT = 2.0**-53
_FFT_ERROR = 8 * _UNIT  # times log2(size): relative l2 error of one transform, several times what is seen
_OUTSIDE = 1e-12  # tilted mass outside the window; its share of delta is added
_LARGEST_TILT = 1e5
_LARGEST_SIZE = 2**24


class Bracket(NamedTuple):
    """Ends between which the composed delta of the grid laws lies, float error included."""

    lower: float
    upper: float


def fft_delta(parts: Sequence[Repeated], epsilon: float, *, precision: float = 1e-4) -> Bracket:
    """Bounds of delta at `epsilon` of all losses together; `upper` is above that of the exact laws as well.

    `precision` is about how much, relative to delta, the grid may add.
    """
    if sum(times for _, times in parts) == 1:
        return _single_delta(parts[0].law, epsilon)
    step = grid_step(parts, epsilon, precision)
    return compose_tilted([(on_grid(law, step), times) for law, times in parts], epsilon).delta(epsilon)


def fft_epsilon(parts: Sequence[Repeated], delta: float, *, precision: float = 1e-4) -> float:
    """The least epsilon >= 0 with `fft_delta(...).upper` <= delta, within 1e-9; infinity if there is none."""
    if _infinite(parts) >= delta:
        return math.inf
    most = sum(times * float(law.losses.max(initial=0.0)) for law, times in parts)
    around = min(_coarse(parts).chernoff_epsilon(delta), most)
    for _ in range(20):
        step = grid_step(parts, around, precision)
        composed = compose_tilted([(on_grid(law, step), times) for law, times in parts], around)
        found = composed.epsilon(delta, most + 1)
        if not math.isfinite(found):
            return most
        if abs(found - around) <= 1e-3 * around:
            return found
        around = found
    return found


def grid_step(parts: Sequence[Repeated], epsilon: float, precision: float) -> float:
    """A step of which the grid adds about a relative `precision` to delta at `epsilon`.

    Splitting atoms multiplies M(theta) by at most exp(theta (theta + 1) step^2 / 8) for each loss. The step
    divides epsilon, and epsilon / count too where that is not much finer: there the profile has its kinks.
    """
    theta = max(_coarse(parts).tilt_to(epsilon), 1.0)
    count = sum(times for _, times in parts)
    step = min(math.sqrt(8 * precision / (theta * (theta + 1) * count)), 2 * precision * _spread(parts))
    if epsilon <= 0:
        return step
    step = max(step, epsilon * precision / (8 * math.sqrt(count)))
    share = epsilon / count if step * count <= epsilon else epsilon
    return share / math.ceil(share / step)


def _spread(parts: Sequence[Repeated]) -> float:
    """The widest range of the losses of one law."""
    return max((float(np.ptp(law.losses)) for law, _ in parts if len(law.losses)), default=1.0) + 1e-9


def _coarse(parts: Sequence[Repeated]) -> "_Cumulants":
    step = _spread(parts) / 512
    return _Cumulants([(on_grid(law, step), times) for law, times in parts])


def _infinite(parts: Sequence[tuple[LossLaw | GridLaw, int]]) -> float:
    return -math.expm1(sum(times * math.log1p(-min(law.infinite, 1 - 1e-16)) for law, times in parts))


@dataclass(frozen=True, slots=True)
class TiltedSum:
    """The law of a sum of losses under the tilt e^(theta loss), on a circle of grid points.

    Every law is tilted so that the composed loss lies around the epsilon of interest. That makes the Chernoff
    bound exp(log M(theta) - theta epsilon) the unit in which transforms round: small deltas are as exact as
    large ones.

    Attributes:
        step: of the grid.
        last: index of the last point of the window, which ends at masses[last % size].
        theta: the tilt.
        log_moment: log M(theta), over all losses.
        masses: tilted masses by index modulo size, shape (size,).
        infinite: mass of infinite loss of the whole.
        l2_error: bound of the l2 norm of the float error of `masses`.
        l1_error: bound of the sum of what inputs may have erred, relative to 1.
    """

    step: float
    last: int
    theta: float
    log_moment: float
    masses: Floats
    infinite: float
    l2_error: float
    l1_error: float

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of delta at `epsilon`: valid for every one, tight near that which was composed for."""
        first = max(math.floor(epsilon / self.step) + 1, self.last + 1 - len(self.masses))
        if first > self.last:
            value, norm = 0.0, 0.0
        else:
            bins = np.arange(first, self.last + 1)
            over = np.maximum(bins * self.step - epsilon, 0.0)
            weights = -np.exp(-self.theta * over) * np.expm1(-over)
            value = float(np.sum(weights * self.masses[bins % len(self.masses)]))
            norm = _norm(weights)
        unit = math.exp(min(700.0, self.log_moment - self.theta * epsilon))
        margin = _OUTSIDE + self.l2_error * norm + self.l1_error
        margin += 4 * _UNIT * (4 + self.theta * abs(epsilon)) * abs(value)
        lower = max(0.0, self.infinite + unit * (value - margin))
        return Bracket(lower, min(1.0, self.infinite + unit * (value + margin)))

    def epsilon(self, delta: float, most: float) -> float:
        """The least epsilon in [0, most], within 1e-9, with an upper end of at most delta; or infinity."""
        lower, upper = 0.0, most
        if self.delta(upper).upper > delta:
            return math.inf
        if self.delta(lower).upper <= delta:
            return lower
        while upper - lower > 1e-9 * max(1.0, upper):
            middle = (lower + upper) / 2
            meets = self.delta(middle).upper <= delta
            lower, upper = (lower, middle) if meets else (middle, upper)
        return upper


def compose_tilted(parts: Sequence[tuple[GridLaw, int]], epsilon: float) -> TiltedSum:
    """The sum of independent losses on one grid, each law taken `times` times, tilted to `epsilon`.

    Raises:
        ValueError: the grid is so fine that it would need more than 2^24 points.
    """
    step = parts[0][0].step
    infinite = _infinite(parts)
    cumulants = _Cumulants(parts)
    if not cumulants.parts:
        return TiltedSum(step, 0, 0.0, -math.inf, np.zeros(1), infinite, 0.0, 0.0)
    theta = cumulants.tilt_to(epsilon)
    low, high = cumulants.window(theta)
    first = math.floor(min(low, epsilon) / step) - 1
    last = max(math.ceil(high / step), math.floor(epsilon / step)) + 1
    size = fft.next_fast_len(last - first + 1, real=True)
    if size > _LARGEST_SIZE:
        raise ValueError(f"a loss grid of {size} steps of {step:g}; at most {_LARGEST_SIZE} are composed")
    spectrum, l2_error, l1_error = np.ones(size // 2 + 1, dtype=np.complex128), 0.0, 0.0
    rounding = _FFT_ERROR * math.log2(size)
    for (law, times), logs in zip(cumulants.parts, cumulants.tilted(theta), strict=True):
        places = np.arange(law.lowest, law.lowest + len(logs)) % size
        folded: Floats = np.bincount(places, np.exp(logs), size).astype(np.float64)
        spectrum *= _power(fft.rfft(folded), times)
        l2_error += times * rounding * _norm(folded)
        height = 8 + float(np.ptp(logs[law.masses > 0])) + theta * float(np.ptp(law.losses))
        l1_error += times * 4 * _UNIT * height
    composed = fft.irfft(spectrum, size)
    draws = sum(times for _, times in parts)
    l2_error += (rounding + 8 * _UNIT * draws) * _norm(composed)
    return TiltedSum(step, last, theta, cumulants.at(theta), composed, infinite, l2_error, l1_error)


class _Cumulants:
    """log of E e^(theta loss) of the finite part of all losses, and what follows from it."""

    def __init__(self, parts: Sequence[tuple[GridLaw, int]]) -> None:
        self.parts = [(law, times) for law, times in parts if law.masses.any()]
        self._losses = [law.losses for law, _ in self.parts]
        with np.errstate(divide="ignore"):
            self._logs = [np.log(law.masses) for law, _ in self.parts]
        self.most = sum(
            times * float(losses[law.masses > 0][-1])
            for (law, times), losses in zip(self.parts, self._losses, strict=True)
        )

    def at(self, theta: float) -> float:
        """The sum over all losses of log E e^(theta loss)."""
        return sum(
            times * _log_sum(logs + theta * losses)
            for (_, times), logs, losses in zip(self.parts, self._logs, self._losses, strict=True)
        )

    def tilted(self, theta: float) -> list[Floats]:
        """Logs of the tilted masses of each law, each summing to 1."""
        tilted = [logs + theta * losses for logs, losses in zip(self._logs, self._losses, strict=True)]
        return [one - _log_sum(one) for one in tilted]

    def moments(self, theta: float) -> tuple[float, float]:
        """Mean and variance of the sum of all losses under the tilt."""
        mean = variance = 0.0
        for (_, times), logs, losses in zip(self.parts, self.tilted(theta), self._losses, strict=True):
            masses = np.exp(logs)
            centre = float(np.sum(masses * losses))
            mean += times * centre
            variance += times * float(np.sum(masses * (losses - centre) ** 2))
        return mean, variance

    def tilt_to(self, epsilon: float) -> float:
        """A tilt >= 0 that puts the mean about epsilon, by a safeguarded Newton search; any tilt is valid."""
        if not self.parts:
            return 0.0
        low, high, theta = 0.0, _LARGEST_TILT, 1.0
        for _ in range(60):
            mean, variance = self.moments(theta)
            low, high = (theta, high) if mean < epsilon else (low, theta)
            if abs(mean - epsilon) <= 0.05 * math.sqrt(variance) or high - low < 1e-3 * high:
                break
            newton = theta + (epsilon - mean) / max(variance, 1e-300)
            far = 4 * theta + 1
            theta = newton if low < newton < min(high, far) else min((low + high) / 2, far)
        return theta

    def chernoff_epsilon(self, delta: float) -> float:
        """An epsilon at which the finite part costs at most `delta`: a Chernoff bound, to start from."""
        rare = math.log(1 / delta)
        tilts: list[float] = np.geomspace(1e-2, 1e4, 61).tolist()
        return max(0.0, min((self.at(theta) + rare) / theta for theta in tilts))

    def window(self, theta: float) -> tuple[float, float]:
        """Losses outside which the tilted sum lies with probability at most _OUTSIDE, by Chernoff bounds."""
        _, variance = self.moments(theta)
        rare, here = math.log(2 / _OUTSIDE), self.at(theta)
        reach = math.sqrt(2 * rare / max(variance, 1e-12))
        least = sum(times * losses[0] for (_, times), losses in zip(self.parts, self._losses, strict=True))
        high = (self.at(theta + reach) - here + rare) / reach
        low = -(self.at(theta - reach) - here + rare) / reach
        return max(low, least), min(high, self.most)


def _single_delta(law: LossLaw, epsilon: float) -> Bracket:
    """Bounds for one loss: a sum of positive terms, no grid."""
    error = LOSS_ERROR * (1 + np.abs(law.losses))
    over = (np.maximum(law.losses + sign * error - epsilon, 0.0) for sign in (-1, 1))
    lower, upper = (law.infinite - float(np.sum(law.masses * np.expm1(-one))) for one in over)
    return Bracket(max(0.0, lower * (1 - MASS_ERROR)), min(1.0, upper * (1 + MASS_ERROR)))


def _power(base: Complexes, times: int) -> Complexes:
    """base^times by squaring, at most 4 times units of relative error."""
    power = base if times % 2 else np.ones_like(base)
    while times := times // 2:
        base = base * base
        power = power * base if times % 2 else power
    return power


def _norm(values: Floats) -> float:
    """The l2 norm; sums stay out of BLAS, whose threads cost more than they bring at these sizes."""
    return math.sqrt(float(np.sum(values * values)))


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))
