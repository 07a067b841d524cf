"""Symmetric log-concave noise families: one small law each, all behind one Protocol."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.special import gammainc, log_ndtr

from dp_spark.errors import PlanRefused
from dp_spark.noise.tails import Floats, log_upper_gamma, two_sided
from dp_spark.rationals import ball, decimal, exact

Real = TypeVar("Real", arb, NDArray[np.float64])

_LOG_2 = math.log(2)
_LARGEST_EXPONENT = 64
_LARGEST_CUT = 4096


class Family(Protocol):
    """A scale family of noise, given by its standard member X with density exp(-psi) over a constant.

    `psi` is even and convex, least at zero, +inf outside [-end, end]. It is written in operators that
    rigorous balls and float arrays share: balls make the tables, floats only search for the scale.

    Source: Vinterbo, arXiv 2202.11393v3, sections 1 and 2.
    """

    @property
    def name(self) -> str:
        """The name, parameters included, under which specs, tables and reports know the family."""
        ...

    @property
    def slope(self) -> float:
        """The supremum of psi': at most this much loss per unit of shift; inf for unbounded ratios."""
        ...

    @property
    def end(self) -> float:
        """The supremum of the support."""
        ...

    @property
    def variance(self) -> float:
        """Variance of the standard member."""
        ...

    def psi(self, x: Real) -> Real:
        """Minus the log density of the standard member at `x`, up to a constant."""
        ...

    def log_density(self, x: Floats) -> Floats:
        """Log density of the standard member at `x`."""
        ...

    def log_cdf(self, x: Floats) -> Floats:
        """Log of P(X <= x); for x <= 0 good to a few 1e-14, relative to 1 and to the log itself."""
        ...


@runtime_checkable
class HasTailBall(Protocol):
    """A family whose tail is known in rigorous balls."""

    def tail_ball(self, x: arb) -> arb:
        """P(X > x) for a ball x >= 0."""
        ...


@dataclass(frozen=True, slots=True)
class Laplace:
    """psi(x) = abs(x); the standard member has variance 2."""

    name: ClassVar[str] = "laplace"
    slope: ClassVar[float] = 1.0
    end: ClassVar[float] = math.inf
    variance: ClassVar[float] = 2.0

    def psi(self, x: Real) -> Real:
        """abs(x)."""
        return abs(x)

    def log_density(self, x: Floats) -> Floats:
        """-abs(x) - log 2."""
        return -np.abs(x) - _LOG_2

    def log_cdf(self, x: Floats) -> Floats:
        """On the left, x - log 2."""
        return two_sided(lambda tail: -tail - _LOG_2, x)

    def tail_ball(self, x: arb) -> arb:
        """e^-x / 2."""
        return (-x).exp() / 2


@dataclass(frozen=True, slots=True)
class Logistic:
    """psi(x) = abs(x) + 2 log(1 + e^-abs(x)); the standard member has variance pi^2 / 3."""

    name: ClassVar[str] = "logistic"
    slope: ClassVar[float] = 1.0
    end: ClassVar[float] = math.inf
    variance: ClassVar[float] = math.pi**2 / 3

    def psi(self, x: Real) -> Real:
        """abs(x) + 2 log(1 + e^-abs(x)); exp(-psi) is the density itself."""
        if isinstance(x, arb):
            return abs(x) + 2 * (-abs(x)).exp().log1p()
        doubled: Floats = 2 * np.logaddexp(0.0, -np.abs(x))
        return np.abs(x) + doubled

    def log_density(self, x: Floats) -> Floats:
        """-psi(x)."""
        return -self.psi(x)

    def log_cdf(self, x: Floats) -> Floats:
        """-log(1 + e^-x)."""
        return -np.logaddexp(0.0, -x)

    def tail_ball(self, x: arb) -> arb:
        """1 / (1 + e^x)."""
        return 1 / (1 + x.exp())


@dataclass(frozen=True, slots=True)
class Gaussian:
    """psi(x) = x^2 / 2; the standard member has variance 1, so its scale is its std."""

    name: ClassVar[str] = "gaussian"
    slope: ClassVar[float] = math.inf
    end: ClassVar[float] = math.inf
    variance: ClassVar[float] = 1.0

    def psi(self, x: Real) -> Real:
        """x^2 / 2."""
        return x * x / 2

    def log_density(self, x: Floats) -> Floats:
        """-x^2 / 2 - log(2 pi) / 2."""
        return -x * x / 2 - math.log(2 * math.pi) / 2

    def log_cdf(self, x: Floats) -> Floats:
        """The log of Phi(x)."""
        logs: Floats = log_ndtr(x)
        return logs

    def tail_ball(self, x: arb) -> arb:
        """erfc(x / sqrt 2) / 2."""
        return (x / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True, slots=True)
class Subbotin:
    """psi(x) = abs(x)^p: Laplace at p = 1, Gaussian of std 1 / sqrt 2 at p = 2, flatter beyond.

    A float `p` means its shortest decimal, so that 1.18 and Fraction("1.18") are one family.

    Raises:
        PlanRefused: p lies outside [1, 64]; below 1 the density is not log-concave.
    """

    p: Fraction | float

    def __post_init__(self) -> None:
        p = exact("p", self.p)
        if not 1 <= p <= _LARGEST_EXPONENT:
            raise PlanRefused(
                "noise_parameter",
                f"subbotin({decimal(p)}): p must lie in [1, {_LARGEST_EXPONENT}]",
                way_out="take p between 1 (Laplace) and 2 (Gaussian); larger p seldom has less variance",
            )
        object.__setattr__(self, "p", p)

    @property
    def name(self) -> str:
        """subbotin(p)."""
        return f"subbotin({decimal(Fraction(self.p))})"

    @property
    def slope(self) -> float:
        """1 at p = 1, else unbounded."""
        return 1.0 if self.p == 1 else math.inf

    @property
    def end(self) -> float:
        """The whole line."""
        return math.inf

    @property
    def variance(self) -> float:
        """Gamma(3/p) / Gamma(1/p)."""
        return math.exp(math.lgamma(3 / self.p) - math.lgamma(1 / self.p))

    def psi(self, x: Real) -> Real:
        """abs(x)^p."""
        if isinstance(x, arb):
            return _power_ball(x, Fraction(self.p))
        return np.abs(x) ** float(self.p)

    def log_density(self, x: Floats) -> Floats:
        """-abs(x)^p - log(2 Gamma(1 + 1/p))."""
        return -self.psi(x) - _LOG_2 - math.lgamma(1 + 1 / self.p)

    def log_cdf(self, x: Floats) -> Floats:
        """log(Q(1/p, abs(x)^p) / 2) on the left; Q is the regularised upper gamma function."""
        order = float(1 / self.p)
        return two_sided(lambda tail: log_upper_gamma(order, tail ** float(self.p)) - _LOG_2, x)

    def tail_ball(self, x: arb) -> arb:
        """Q(1/p, x^p) / 2."""
        return self.psi(x).gamma_upper(ball(1 / Fraction(self.p)), 1) / 2


@dataclass(frozen=True, slots=True)
class TruncatedLaplace:
    """psi(x) = abs(x) on [-cut, cut], +inf outside.

    A float `cut` means its shortest decimal.

    Raises:
        PlanRefused: the cut lies outside (0, 4096].

    Source: Geng et al. 2020.
    """

    cut: Fraction | float

    slope: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        cut = exact("cut", self.cut)
        if not 0 < cut <= _LARGEST_CUT:
            raise PlanRefused(
                "noise_parameter",
                f"truncated_laplace({decimal(cut)}): the cut must lie in (0, {_LARGEST_CUT}]",
                way_out="take log(1 + (e^epsilon - 1) / (2 delta)), which spends delta on the cut alone",
            )
        object.__setattr__(self, "cut", cut)

    @property
    def name(self) -> str:
        """truncated_laplace(cut)."""
        return f"truncated_laplace({decimal(Fraction(self.cut))})"

    @property
    def end(self) -> float:
        """The cut."""
        return float(self.cut)

    @property
    def variance(self) -> float:
        """(2 - e^-A (A^2 + 2 A + 2)) / (1 - e^-A), A the cut."""
        return float(2 * gammainc(3, self.end)) / -math.expm1(-self.end)

    @property
    def log_normaliser(self) -> float:
        """log(2 (1 - e^-A))."""
        return _LOG_2 + math.log(-math.expm1(-self.end))

    def psi(self, x: Real) -> Real:
        """abs(x) up to the cut. A ball that touches the cut counts as inside."""
        size = abs(x)
        if isinstance(size, arb):
            return arb("inf") if size > ball(Fraction(self.cut)) else size
        return np.where(size <= self.end, size, np.inf)

    def log_density(self, x: Floats) -> Floats:
        """-psi(x) - log(2 (1 - e^-A))."""
        return -self.psi(x) - self.log_normaliser

    def log_cdf(self, x: Floats) -> Floats:
        """The log of (e^x - e^-A) / (2 (1 - e^-A)) on the left."""

        def log_tail(tail: Floats) -> Floats:
            with np.errstate(divide="ignore"):
                return -tail + np.log(-np.expm1(np.minimum(tail - self.end, 0.0))) - self.log_normaliser

        return two_sided(log_tail, x)

    def tail_ball(self, x: arb) -> arb:
        """(e^-x - e^-A) / (2 (1 - e^-A))."""
        least = (-ball(Fraction(self.cut))).exp()
        tail = ((-x).exp() - least) / (2 * (1 - least))
        return arb(0) if tail < 0 else tail


def _power_ball(x: arb, p: Fraction) -> arb:
    if x.contains(0):
        return arb(0) if x == 0 else arb(0).union(x.abs_upper() ** ball(p))
    return abs(x) ** ball(p)
