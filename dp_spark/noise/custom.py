"""A user's own noise family, from an even convex psi."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

from dp_spark.errors import PlanRefused
from dp_spark.noise.families import Real
from dp_spark.noise.names import FAMILIES
from dp_spark.noise.tails import Floats, two_sided

_GRID = 2048  # points on each side, evenly and again in equal ratios, at which psi is looked at
_DEEP = 750.0  # psi - psi(0) up to here is checked: beyond, the density is no positive float
_ROUNDING = 1e-9  # relative, of what is compared
_FARTHEST = 2.0**40
_NEGLIGIBLE = 45.0  # e^-45 of a tail does not show in a float


@dataclass(frozen=True, slots=True)
class Custom:
    """Noise with density proportional to exp(-psi), `psi` given by the user.

    `psi` takes and returns a float array of shape (n,), +inf outside the support; for tables it takes a
    ball (`flint.arb`) as well. That it is even, convex, least at 0, integrable and never steeper than
    `slope` is checked on a grid as far as psi - psi(0) = 750: a check, not a proof. Tails are integrated
    numerically, to about 1e-10.

    Raises:
        PlanRefused: a check failed.
    """

    name: str
    density_psi: Callable[[Real], Real]
    slope: float = math.inf
    end: float = field(init=False)
    variance: float = field(init=False)
    log_normaliser: float = field(init=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", self.name) or self.name in FAMILIES:
            raise _refused(f"name {self.name[:80]!r} must be a new one, of lower case letters, digits and _")
        reach, end = _reach_and_end(self)
        _require_even_convex(self, reach)
        object.__setattr__(self, "end", end)
        whole = 2 * _integral(self.density_ratio, 0.0, reach)
        second = 2 * _integral(lambda x: x * x * self.density_ratio(x), 0.0, reach)
        object.__setattr__(self, "log_normaliser", math.log(whole) - _at(self, 0.0))
        object.__setattr__(self, "variance", second / whole)

    def psi(self, x: Real) -> Real:
        """The user's psi."""
        return self.density_psi(x)

    def density_ratio(self, x: float) -> float:
        """The density at x relative to that at 0."""
        return math.exp(_at(self, 0.0) - _at(self, x))

    def log_density(self, x: Floats) -> Floats:
        """-psi(x) - log of the integral of exp(-psi)."""
        return -self.psi(x) - self.log_normaliser

    def log_cdf(self, x: Floats) -> Floats:
        """The log of the integral of the density, one tail at a time."""
        return two_sided(lambda sizes: np.array([self._log_tail(size) for size in sizes]), x)

    def _log_tail(self, x: float) -> float:
        """The log of P(X > x), x >= 0: relative to the density at x, over as far as it falls by e^-45."""
        start = _at(self, x)
        if x >= self.end or start == math.inf:
            return -math.inf
        width = min(1.0, self.end - x)
        while width < self.end - x and _at(self, x + width) - start < _NEGLIGIBLE:
            width = min(2 * width, self.end - x)
        while _at(self, x + width / 2) - start > _NEGLIGIBLE:
            width /= 2
        mass = _integral(lambda y: math.exp(start - _at(self, y)), x, x + width)
        return math.log(mass) - start - self.log_normaliser


def _at(family: Custom, x: float) -> float:
    return float(family.psi(np.array([x]))[0])


def _reach_and_end(family: Custom) -> tuple[float, float]:
    """How far psi is looked at, and the supremum of the support if that is not beyond it."""
    centre, reach = _at(family, 0.0), 1.0
    if not math.isfinite(centre):
        raise _refused(f"{family.name}: psi(0) = {centre} must be finite")
    while _at(family, reach) - centre < _DEEP:
        reach *= 2
        if reach > _FARTHEST:
            raise _refused(f"{family.name}: psi must grow: exp(-psi) cannot be integrated or is too wide")
    low, high = 0.0, reach
    finite = math.isfinite(_at(family, reach))
    for _ in range(60):
        middle = (low + high) / 2
        inside = math.isfinite(_at(family, middle)) and (not finite or _at(family, middle) - centre < _DEEP)
        low, high = (middle, high) if inside else (low, middle)
    return low, math.inf if finite else low


def _require_even_convex(family: Custom, reach: float) -> None:
    grid = np.union1d(np.linspace(0.0, reach, _GRID + 1), reach * np.geomspace(2.0**-40, 1.0, _GRID))
    near, far = family.psi(grid), family.psi(-grid)
    if near.shape != grid.shape or not np.isfinite(near).all():
        raise _refused(f"{family.name}: psi must return one number for each point")
    if (np.abs(near - far) > _ROUNDING * np.maximum(np.abs(near), 1.0)).any():
        raise _refused(f"{family.name}: psi must be even, psi(-x) = psi(x)")
    slopes = np.diff(near) / np.diff(grid)
    blur = _ROUNDING * np.abs(slopes) + 2.0**-50 * np.maximum(np.abs(near[1:]), 1.0) / np.diff(grid)
    if slopes[0] < -blur[0] or (np.diff(slopes) < -(blur[1:] + blur[:-1])).any():
        raise _refused(f"{family.name}: psi must be convex and least at 0, so that exp(-psi) is log-concave")
    if (slopes > family.slope + blur).any():
        raise _refused(f"{family.name}: psi is steeper than the slope = {family.slope:g} that was declared")


def _integral(function: Callable[[float], float], low: float, high: float) -> float:
    """In eight panels that double away from `low`, each adaptive: psi may have kinks."""
    cuts = [low, *(low + (high - low) * 2.0**-k for k in range(7, -1, -1))]
    panels = (quad(function, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in pairwise(cuts))
    return float(sum(panels))


def _refused(message: str) -> PlanRefused:
    return PlanRefused(
        "noise_family", message, way_out="give psi = -log density of a symmetric log-concave law, for arrays"
    )
