"""Integer noise tables: frozen weights that sum to 2^128, their exact profile, quantiles and draws.

What is accounted is what is drawn: the privacy of a table is computed from the very integers that the
sampler compares random bits with. No float stands between the promise and the noise.
"""

import hashlib
import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
from flint import ctx
from numpy.typing import NDArray

from dp_spark.noise import wide
from dp_spark.noise.composition import dominating_shift
from dp_spark.rationals import ball

TOTAL = 2**wide.BITS
MAX_ENTRIES = 2**22

RESOLVED_LOG = 88  # below log(2^128) = 88.7: rarer than e^-88 is less than one unit of a table

_MAGIC = b"dp_spark noise table 1\n"
_FLOAT_DOUBT = 2.0**-44  # floats of weights and of e^epsilon are within a relative 2^-50


class Mass(StrEnum):
    """How a density becomes the law of an integer."""

    POINT = "point"  # P(n) ~ exp(-psi(n h)): the discrete Laplace, the discrete Gaussian
    CELL = "cell"  # P(n) ~ integral of exp(-psi) over [(n - 1/2) h, (n + 1/2) h]: rounded noise


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """The law of one integer noise: P(n) = weight(abs(n)) / 2^128 for n in -K..K. Equal by digest.

    Attributes:
        family: name of the family that was frozen.
        step: h of the mass at n: the reciprocal of the scale in grid steps.
        sensitivity: grid steps by which one unit moves one cell at most.
        max_groups: cells that one unit moves at most.
        weights: weights of 0..K as (high, low) words, shape (K + 1, 2); those of -n and n are one
            entry, so every table is symmetric. The last one is positive: K can be drawn.
        mass: how the density became a law.
        edge: the share of its mass that the outermost value kept when the tails were cut, in (0, 1]: the
            cut moves continuously, and a smaller last weight leaves a law log-concave.

    Raises:
        ValueError: the weights of -K..K do not sum to 2^128, the last is 0, or a parameter is out of range.
    """

    family: str
    step: Fraction
    sensitivity: int
    max_groups: int
    weights: wide.Wide
    mass: Mass = Mass.POINT
    edge: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.step <= 0 or self.sensitivity < 1 or self.max_groups < 1:
            raise ValueError("step, sensitivity and max_groups of a noise table must be positive")
        if not 0 < self.edge <= 1:
            raise ValueError(f"edge = {self.edge} of a noise table must lie in (0, 1]")
        if not 3 <= self.entries <= MAX_ENTRIES:
            raise ValueError(f"a noise table of {self.entries} entries; from 3 to {MAX_ENTRIES} are possible")
        if wide.total(self.weights[:1]) + 2 * wide.total(self.weights[1:]) != TOTAL:
            raise ValueError("the weights of a noise table must sum to exactly 2^128")
        if not self.weights[-1].any():
            raise ValueError("the outermost weight of a noise table must be positive")
        self.weights.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoiseTable) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def support(self) -> int:
        """K: noise lies in -K..K."""
        return len(self.weights) - 1

    @property
    def entries(self) -> int:
        """The number of values that noise can take, 2 K + 1."""
        return 2 * self.support + 1

    @property
    def variance(self) -> float:
        """Variance in squared grid steps, rounded up by 1e-12 of itself."""
        values = np.arange(self.support + 1, dtype=np.float64)
        return 2 * float(np.sum(values**2 * wide.to_floats(self.weights))) * (1 + 1e-12)

    @property
    def std(self) -> float:
        """Standard deviation in grid steps."""
        return math.sqrt(self.variance)

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def quantile(self, q: Fraction | float) -> int:
        """The least n with P(noise <= n) >= q, exactly; q in (0, 1]."""
        if not 0 < q <= 1:
            raise ValueError(f"q = {q} must lie in (0, 1]")
        last_below = math.ceil(Fraction(q) * TOTAL) - 1
        return int(self.draw(wide.from_ints([last_below]))[0])

    def half_width(self, coverage: Fraction | float = 0.95) -> int:
        """The least k with P(abs(noise) <= k) >= coverage, exactly; coverage in (0, 1]."""
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage = {coverage} must lie in (0, 1]")
        return self.quantile((1 + Fraction(coverage)) / 2)

    def tail(self, least: int) -> Fraction:
        """P(noise >= least), exactly."""
        if least <= 0:
            return 1 - self.tail(1 - least)
        return Fraction(wide.total(self.weights[least:]), TOTAL)

    def privacy_delta(self, epsilon: Fraction | float) -> float:
        """An upper bound of delta at `epsilon` >= 0 for one unit: all its cells, both directions.

        delta = sum over n of (P(n) - e^epsilon P(n + D))+ at the dominating shift D, in integers with
        e^epsilon rounded down, plus (max_groups + 1) entries (1 + e^epsilon) 2^-128: weights are within
        one unit of a log-concave law, for which D covers every smaller shift. The directions are equal by
        symmetry. From epsilon = 89 on the second term alone exceeds 1, and 1 is returned.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon = {epsilon} must not be negative")
        if epsilon > RESOLVED_LOG + 1:
            return 1.0
        growth = _exp_below(Fraction(epsilon))
        shift = dominating_shift(self.sensitivity, self.max_groups)
        excess = _excess(self._all_weights(), shift, growth)
        slack = (self.max_groups + 1) * self.entries * (TOTAL + growth + 2)
        return min(1.0, _float_above(Fraction(excess + slack, TOTAL * TOTAL)))

    def draw(self, words: wide.Wide) -> NDArray[np.int64]:
        """Noise by inverse cdf, shape (n,), from uniform 128-bit words of shape (n, 2), high and low.

        The value is the least n whose cumulative weight exceeds the word.
        """
        cumulative = wide.running_sums(self._all_weights())
        below_total = cumulative[:-1]  # the last one is 2^128, above all words, and does not fit a row
        return wide.count_at_most(below_total, words) - self.support

    def to_bytes(self) -> bytes:
        """The canonical bytes: one line of text for the parameters, then 16 bytes a weight of 0..K.

        Mass and edge are written unless they are the point mass and 1.
        """
        numbers = (self.step.numerator, self.step.denominator, self.sensitivity, self.max_groups)
        plain = self.mass is Mass.POINT and self.edge == 1
        shape = () if plain else (self.mass, self.edge.numerator, self.edge.denominator)
        parameters = " ".join((self.family, *map(str, (*numbers, *shape))))
        return _MAGIC + parameters.encode() + b"\n" + wide.to_bytes(self.weights)

    @staticmethod
    def from_bytes(data: bytes) -> "NoiseTable":
        """The table with these canonical bytes.

        Raises:
            ValueError: they are not the canonical bytes of a table whose weights sum to 2^128.
        """
        parameters, newline, weights = data.removeprefix(_MAGIC).partition(b"\n")
        fields = parameters.decode("ascii", errors="replace").split(" ")
        if not newline or len(fields) not in {5, 8} or len(weights) % wide.BYTES_PER_ROW:
            raise ValueError("these are not the bytes of a noise table")
        family, numbers, shape = fields[0], list(map(int, fields[1:5])), fields[5:]
        step, (sensitivity, max_groups) = _fraction(*numbers[:2]), numbers[2:]
        mass = Mass(shape[0]) if shape else Mass.POINT
        edge = _fraction(*map(int, shape[1:])) if shape else Fraction(1)
        table = NoiseTable(family, step, sensitivity, max_groups, wide.from_bytes(weights), mass, edge)
        if table.to_bytes() != data:
            raise ValueError("the bytes of a noise table are not in canonical form")
        return table

    def _all_weights(self) -> wide.Wide:
        return np.concatenate([self.weights[:0:-1], self.weights])


def _excess(weights: wide.Wide, shift: int, growth: int) -> int:
    """Sum over n of (W(n) 2^128 - growth W(n + shift))+, exactly; W is 0 outside the table.

    Floats only say which terms are positive, and leave what they cannot decide to integers.
    """
    kept, moved = weights[:-shift], weights[shift:]
    left, right = wide.to_floats(kept), wide.to_floats(moved) * (growth / TOTAL)
    positive = left > right * (1 + _FLOAT_DOUBT)
    doubtful = ~positive & (left >= right * (1 - _FLOAT_DOUBT))
    gain = wide.to_ints(kept[doubtful]) * TOTAL - growth * wide.to_ints(moved[doubtful])
    certain = TOTAL * wide.total(kept[positive]) - growth * wide.total(moved[positive])
    return int(TOTAL * wide.total(weights[-shift:]) + certain + gain[gain > 0].sum())


def _exp_below(epsilon: Fraction) -> int:
    """The integer part of 2^128 e^epsilon, or at most a little less; epsilon at most 89."""
    with ctx.workprec(4 * wide.BITS):
        power = ball(epsilon).exp()
        below = (power * TOTAL).lower().floor().unique_fmpz()
    if below is None:
        raise ArithmeticError("e^epsilon was not resolved")
    return int(below)


def _fraction(numerator: int, denominator: int) -> Fraction:
    """The fraction, or 0, which no table has, if its denominator is 0."""
    return Fraction(numerator, denominator) if denominator else Fraction(0)


def _float_above(value: Fraction) -> float:
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)
