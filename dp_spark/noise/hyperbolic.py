"""Hyperbolic noise: Gaussian in the middle, Laplace in the tails; over 10 to 100 cells it beats both."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np
from flint import arb, arb_series
from numpy.typing import NDArray
from scipy.special import kve

from dp_spark.errors import PlanRefused
from dp_spark.noise.tails import Floats, two_sided
from dp_spark.rationals import ball, decimal, exact

Real = TypeVar("Real", arb, arb_series, NDArray[np.float64])

_LARGEST_BEND = 1024
_NODES = 96
_NEGLIGIBLE = 45.0  # e^-45 of the density at the lower end: where the integral over a tail may stop


@dataclass(frozen=True, slots=True)
class Hyperbolic:
    """psi(x) = sqrt(bend^2 + x^2) - bend: even, convex, of slope below 1, so the shift bounds the loss.

    A float `bend` means its shortest decimal.

    Raises:
        PlanRefused: the bend lies outside (0, 1024].

    Source: Barndorff-Nielsen 1977 (the symmetric hyperbolic law).
    """

    bend: Fraction | float

    slope: ClassVar[float] = 1.0
    end: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        bend = exact("bend", self.bend)
        if not 0 < bend <= _LARGEST_BEND:
            raise PlanRefused(
                "noise_parameter",
                f"hyperbolic({decimal(bend)}): the bend must lie in (0, {_LARGEST_BEND}]",
                way_out="take a bend between 1/2 (near Laplace) and 50 (near Gaussian)",
            )
        object.__setattr__(self, "bend", bend)

    @property
    def name(self) -> str:
        """hyperbolic(bend)."""
        return f"hyperbolic({decimal(Fraction(self.bend))})"

    @property
    def variance(self) -> float:
        """The ratio bend K_2(bend) / K_1(bend), K the modified Bessel functions."""
        bend = float(self.bend)
        return float(bend * kve(2, bend) / kve(1, bend))

    def psi(self, x: Real) -> Real:
        """sqrt(bend^2 + x^2) - bend, without the cancellation."""
        if isinstance(x, arb | arb_series):
            exact_bend = ball(Fraction(self.bend))
            return x * x / ((x * x + exact_bend * exact_bend).sqrt() + exact_bend)
        bend = float(self.bend)
        return x * x / (np.hypot(bend, x) + bend)

    def log_density(self, x: Floats) -> Floats:
        """-psi(x) - log(2 bend K_1(bend) e^bend)."""
        bend = float(self.bend)
        return -self.psi(x) - math.log(2 * bend * float(kve(1, bend)))

    def log_cdf(self, x: Floats) -> Floats:
        """On the left the log of the tail: the integral of e^(-bend cosh u) bend cosh u du."""
        return two_sided(self._log_tail, x)

    def _log_tail(self, size: Floats) -> Floats:
        bend = float(self.bend)
        start = np.arcsinh(size / bend)
        ends = np.arccosh(np.cosh(start) + _NEGLIGIBLE / bend)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        u = start[..., None] + (ends - start)[..., None] * (nodes + 1) / 2
        rise = 2 * bend * np.sinh((u + start[..., None]) / 2) * np.sinh((u - start[..., None]) / 2)
        inner = (np.exp(-rise) * bend * np.cosh(u)) @ weights * (ends - start) / 2
        tail: Floats = self.log_density(size) + np.log(inner)
        return tail
