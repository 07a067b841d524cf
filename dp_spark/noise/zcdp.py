"""Zero-concentrated privacy of a table, its truncation kept apart; and l2 sensitivity on the lattice."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.noise import wide
from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import table_law
from dp_spark.noise.losses import LossLaw, Repeated, loss_law, mirrored, on_grid
from dp_spark.noise.tails import Floats

if TYPE_CHECKING:
    from dp_spark.noise.lattice import NoiseTable

_GRID_POINTS = 16384  # of the loss; what they add to rho is far below 1e-4 of it
_ORDERS = 400
_LEAST_ORDER = 1e-5
_MOST_SHIFTS = 50_000
_RESOLVED_BITS = 56  # weights of fewer units are not trusted to be log-concave
_RHO_FACTOR, _RHO_MORE = 1 + 2.0**-18, 2.0**-31  # what the others may err costs no more than this


@dataclass(frozen=True, slots=True)
class ApproximateZcdp:
    """delta-approximate rho-zCDP, as a filter adds it up: rho to rho, delta to delta.

    Attributes:
        rho: sup over alpha > 1 of Renyi divergence / alpha, of the part without infinite loss.
        delta: the mass of infinite loss, where the table ends.
    """

    rho: float
    delta: float

    def times(self, count: int) -> "ApproximateZcdp":
        """What `count` independent draws cost together."""
        return ApproximateZcdp(self.rho * count, min(1.0, self.delta * count))


def discrete_gaussian_rho(sensitivity: Fraction | int, std: Fraction | int) -> Fraction:
    """The rho of the discrete Gaussian, not cut, of scale `std`, for an l2 sensitivity.

    rho = sensitivity^2 / (2 std^2), exact.

    Source: Canonne, Kamath, Steinke 2020, theorem 4.
    """
    return Fraction(sensitivity) ** 2 / (2 * Fraction(std) ** 2)


def table_zcdp(table: "NoiseTable", shift: int | None = None) -> ApproximateZcdp:
    """A certified bound of the zCDP of one cell of the table, moved by its sensitivity, or `shift`, or less.

    Weights of less than 2^56 units are left out, and their mass is added to delta. The others are those of
    a symmetric log-concave law within r = 3 2^-56, normalised. For that law a smaller shift is dominated
    by the full one at every epsilon, hence (Blackwell) is a post-processing of it, and approximate zCDP
    survives post-processing. From one law to the other K(t) moves by at most 2 r (1 + 2 t), so K(t) / (t
    (t + 1)) by 4 r / t for t >= s; for smaller t it is at most (1 + s) times that at s, K being convex. With
    s = 2^-20, there and back: rho (1 + 2^-18) + 2^-31.
    """
    half = table.weights
    trusted = (half[:, 0] > 0) | (half[:, 1] >= 2**_RESOLVED_BITS)
    kept = len(half) if trusted.all() else int(np.argmin(trusted))
    masses = wide.to_floats(half)
    law = loss_law(mirrored(np.log(masses[:kept])), table.sensitivity if shift is None else shift)
    found = law_zcdp(law)
    dropped = 2 * float(masses[kept:].sum())
    delta = min(1.0, (found.delta + dropped) * (1 + 1e-12))
    return ApproximateZcdp(found.rho * _RHO_FACTOR + _RHO_MORE, delta)


def law_zcdp(law: LossLaw) -> ApproximateZcdp:
    """A bound of rho of the finite part of a loss law, conditioned on being finite; and its infinite mass.

    With t = alpha - 1 and K(t) = log E e^(t loss), Renyi / alpha = K(t) / (t (t + 1)). K is convex with
    K(0) = 0, so between two t it lies below its chord, and the largest chord(t) / (t (t + 1)) is a root of
    a quadratic. Beyond the last t, K(t) <= t * (largest loss).

    Precondition: both laws of the pair have the same mass where losses are finite; symmetric noise has.
    """
    if not len(law.losses):
        return ApproximateZcdp(math.inf, 1.0)
    most = float(law.losses.max())
    if most <= 0:
        return ApproximateZcdp(0.0, law.infinite)
    masses, losses = law.masses, law.losses
    if len(losses) > _GRID_POINTS:
        grid = on_grid(law, float(np.ptp(losses)) / _GRID_POINTS)
        masses, losses = grid.masses, grid.losses
    first = max(0.5 * float(np.sum(masses * losses)), 1e-12)  # half of KL: rho is at least KL
    orders = np.geomspace(_LEAST_ORDER, max(2 * float(losses.max()) / first, 1.0), _ORDERS)
    moments = _log_moments(masses / masses.sum(), losses, orders)
    rho = max(
        _largest_ratio(np.append(0.0, orders), np.append(0.0, moments)), float(losses.max()) / orders[-1]
    )
    return ApproximateZcdp(rho * (1 + 1e-9), law.infinite * (1 + 1e-12))


def l2_delta(table: "NoiseTable", epsilon: float, *, squared_sensitivity: int, cells: int) -> float:
    """The largest delta over all integer shifts of `cells` cells with squares summing to at most a bound.

    By the exact maximum, up to sign and order: a smaller shift of a cell costs no more, so only shifts
    count to which nothing can be added. The discrete Gaussian is not rotation invariant: the formula of
    Balle and Wang for one coordinate is below this. For many cells price l2 sensitivity by zCDP.

    Raises:
        PlanRefused: there are more than 50,000 shifts.
    """
    laws = {d: table_law(table, d) for d in range(1, math.isqrt(squared_sensitivity) + 1)}
    largest = 0.0
    for shifts in maximal_shifts(squared_sensitivity, cells):
        parts = [Repeated(laws[d], shifts.count(d)) for d in sorted(set(shifts))]
        largest = max(largest, fft_delta(parts, epsilon, precision=1e-4).upper)
    return largest


def maximal_shifts(squared_sensitivity: int, cells: int) -> list[tuple[int, ...]]:
    """Positive shifts, largest first, of at most `cells` cells, to which no cell can add a step.

    Raises:
        PlanRefused: there are more than 50,000 to look at.
    """
    found = []
    for seen, shifts in enumerate(_descending(squared_sensitivity, cells, math.isqrt(squared_sensitivity))):
        if seen > _MOST_SHIFTS:
            raise PlanRefused(
                "l2_too_many_shifts",
                f"l2 sensitivity sqrt({squared_sensitivity}) over {cells} cells has more than"
                f" {_MOST_SHIFTS} shifts to look at",
                way_out="price it by zCDP, or take a coarser grid",
            )
        rest = squared_sensitivity - sum(d * d for d in shifts)
        least = 0 if len(shifts) < cells else shifts[-1]
        if rest < 2 * least + 1:
            found.append(shifts)
    return found


def _descending(budget: int, cells: int, largest: int) -> Iterator[tuple[int, ...]]:
    yield ()
    if cells:
        for first in range(min(largest, math.isqrt(budget)), 0, -1):
            for rest in _descending(budget - first * first, cells - 1, first):
                yield (first, *rest)


def _log_moments(masses: Floats, losses: Floats, orders: Floats) -> Floats:
    """Logs of E e^(t loss) at each t, rounded up."""
    top = float(losses.max())
    values = []
    for t in orders:
        if t * max(top, -float(losses.min())) < 0.5:
            values.append(math.log1p(float(np.sum(masses * np.expm1(t * losses)))))
        else:
            values.append(t * top + math.log(float(np.sum(masses * np.exp(t * (losses - top))))))
    moments = np.asarray(values)
    return moments + 1e-13 * np.minimum(orders, 1.0) * np.abs(orders * top)


def _largest_ratio(orders: Floats, moments: Floats) -> float:
    """The maximum over the chords of K of chord(t) / (t (t + 1)); the first chord starts at (0, 0)."""
    slopes = np.diff(moments) / np.diff(orders)
    falls = np.maximum(slopes * orders[:-1] - moments[:-1], 0.0)  # minus the intercept
    roots = (falls + np.sqrt(falls * falls + falls * slopes)) / slopes
    at = np.clip(roots, orders[:-1], orders[1:])
    ratios = np.where(at > 0, (slopes * at - falls) / np.maximum(at * (at + 1), 1e-300), slopes)
    return float(ratios.max())
