"""Pure epsilon (delta = 0): discrete Laplace noise of rational ratio, drawn without any error.

A frozen table has a last value, and a neighbour can never take it: it always costs some delta. Here the
tail has no end. It is memoryless, so the table of thresholds serves for all of it, and the noise is made
finite by post-processing: the *sum* of value and noise is clipped to public bounds.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.noise import wide
from dp_spark.noise.composition import dominating_shift
from dp_spark.rationals import ball

RATIO_BITS = 64
WORDS_PER_DRAW = 2
# Noise saturates here. Totals saturate below 2^60, so their range is below, and value + noise is 62 bits.
NOISE_BOUND = 2**61

_MAGIC = b"dp_spark geometric noise 1\n"
_WORKING_BITS = 256
_MOST_THRESHOLDS = 2**22
_WORD = 2**wide.BITS

# More words for draw `index` (0 or 1 of WORDS_PER_DRAW) of cell `row`: word number 0, 1, 2, ... of them.
MoreWords = Callable[[int, int, int], int]


@dataclass(frozen=True, slots=True)
class GeometricTable:
    """The law P(n) = (1 - r) / (1 + r) r^abs(n) on all integers, r = ratio / 2^64.

    Attributes:
        ratio: a, in 1..2^64 - 1; pure epsilon holds with epsilon = shift * log(2^64 / a).
        sensitivity: grid steps by which one unit moves one cell at most.
        max_groups: cells that one unit moves at most.

    Precondition of pure epsilon, met by the caller: the exact value lies in public bounds no wider than
    NOISE_BOUND, and value plus noise is clipped to them. Then that noise saturates cannot be seen.

    Raises:
        ValueError: a parameter is out of range.
    """

    ratio: int
    sensitivity: int
    max_groups: int

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 2**RATIO_BITS or self.sensitivity < 1 or self.max_groups < 1:
            raise ValueError("a geometric table needs a ratio of 1..2^64 - 1 and positive sensitivities")
        if _thresholds_needed(self.ratio) > _MOST_THRESHOLDS:
            raise ValueError(f"a ratio of {self.ratio} / 2^64 needs too many thresholds")

    @property
    def family(self) -> str:
        """The name that reports show."""
        return "geometric"

    @property
    def support(self) -> int:
        """Noise lies in -support..support."""
        return NOISE_BOUND

    @property
    def variance(self) -> float:
        """2 r / (1 - r)^2 in squared grid steps, not less; saturation only lowers it."""
        gap = 2**RATIO_BITS - self.ratio
        return float(Fraction(2 * self.ratio * 2**RATIO_BITS, gap * gap)) * (1 + 1e-15)

    @property
    def std(self) -> float:
        """Standard deviation in grid steps."""
        return math.sqrt(self.variance)

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def quantile(self, q: Fraction | float) -> int:
        """The least n with P(noise <= n) >= q, exactly, before saturation; q in (0, 1)."""
        if not 0 < q < 1:
            raise ValueError(f"q = {q} must lie in (0, 1)")
        share = Fraction(q)
        if share <= Fraction(2**RATIO_BITS, 2**RATIO_BITS + self.ratio):  # P(noise <= 0) = 1 / (1 + r)
            # P(noise <= -n) = r^n / (1 + r): the largest n for which it is at least q
            return 1 - _first_below(self.ratio, share * (1 + self._rate), strictly=True)
        # P(noise <= n) = 1 - r^(n + 1) / (1 + r)
        return _first_below(self.ratio, (1 - share) * (1 + self._rate), strictly=False) - 1

    def half_width(self, coverage: Fraction | float = 0.95) -> int:
        """The least k with P(abs(noise) <= k) >= coverage, exactly; coverage in (0, 1)."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage = {coverage} must lie in (0, 1)")
        return max(0, self.quantile((1 + Fraction(coverage)) / 2))

    def privacy_delta(self, epsilon: Fraction | float) -> float:
        """Delta at `epsilon` >= 0 for one unit; 0 from the pure epsilon on, else rounded up.

        With rho = r^shift, delta = max over t of P(noise >= t) - e^epsilon P(noise >= t + shift).
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon = {epsilon} must not be negative")
        shift = dominating_shift(self.sensitivity, self.max_groups)
        with ctx.workprec(4 * wide.BITS):
            log_rate = (arb(self.ratio) / arb(2**RATIO_BITS)).log()
            exponent = Fraction(epsilon)
            budget = ball(exponent)
            if budget >= -shift * log_rate:
                return 0.0
            # In -shift <= n <= 0 the ratio P(n) / P(n + shift) is r^(-2 n - shift): positive terms from t on.
            start = math.floor(float((-budget / log_rate - shift) / 2)) if exponent else -(shift // 2)
            best = arb(0)
            for first in range(max(-shift, start - 2), min(0, start + 2) + 1):
                excess = _tail(log_rate, first) - budget.exp() * _tail(log_rate, first + shift)
                best = best.max(excess)
            return math.nextafter(float(best.upper()), math.inf)

    def draw(self, words: wide.Wide, more: MoreWords) -> NDArray[np.int64]:
        """Noise, shape (n,), from uniform words of shape (n, 2, 2): two words a cell, high and low halves.

        The difference of two geometric variables, exactly: a variable is the number of n >= 1 for which a
        uniform real lies below r^n, and the word is its first 128 bits. They decide but for a cell in about
        10^35; `more` then gives as many further words as it takes. All other work is fixed.
        """
        first, second = (self._geometric(words[:, which], which, more) for which in range(WORDS_PER_DRAW))
        noise: NDArray[np.int64] = np.clip(first - second, -NOISE_BOUND, NOISE_BOUND)
        return noise

    def to_bytes(self) -> bytes:
        """The canonical bytes: one line of text."""
        return _MAGIC + f"{self.ratio} {self.sensitivity} {self.max_groups}\n".encode()

    @staticmethod
    def from_bytes(data: bytes) -> "GeometricTable":
        """The table with these canonical bytes.

        Raises:
            ValueError: they are not the canonical bytes of a geometric table.
        """
        fields = data.removeprefix(_MAGIC).decode("ascii", errors="replace").split()
        if len(fields) != 3:
            raise ValueError("these are not the bytes of geometric noise")
        table = GeometricTable(*map(int, fields))
        if table.to_bytes() != data:
            raise ValueError("the bytes of geometric noise are not in canonical form")
        return table

    @property
    def _rate(self) -> Fraction:
        return Fraction(self.ratio, 2**RATIO_BITS)

    def _geometric(self, words: wide.Wide, which: int, more: MoreWords) -> NDArray[np.int64]:
        ascending = _thresholds(self.ratio)
        below = wide.count_at_most(ascending, words)  # thresholds that the word reaches
        found = len(ascending) - below
        last = np.maximum(below, 1) - 1
        tied = (below > 0) & (ascending[last] == words).all(axis=1)
        for row in np.flatnonzero(tied):
            word = int(wide.to_ints(words[row : row + 1])[0])
            found[row] = _resolved(self.ratio, word, partial(more, int(row), which))
        return found


def pure_epsilon_table(epsilon: Fraction | float, sensitivity: int, max_groups: int) -> GeometricTable:
    """The geometric table of least variance that is (epsilon, 0) private for one unit.

    The ratio is the least a / 2^64 that is at least e^(-epsilon / shift).

    Raises:
        PlanRefused: epsilon is not in (0, 44 * shift), or so small that 2^22 thresholds do not do.
    """
    shift = dominating_shift(sensitivity, max_groups)
    if not 0 < epsilon < 44 * shift:
        raise PlanRefused(
            "epsilon_range",
            f"epsilon = {float(epsilon):g} must lie above 0 and below {44 * shift} for pure epsilon",
            way_out="choose a positive epsilon; 0.1 to 2 for one release is usual",
        )
    exponent = Fraction(epsilon) / shift
    with ctx.workprec(_WORKING_BITS):
        power = (-ball(exponent)).exp() * arb(2**RATIO_BITS)
        ratio = int(power.upper().ceil().unique_fmpz() or 0)
    if ratio >= 2**RATIO_BITS or _thresholds_needed(ratio) > _MOST_THRESHOLDS:
        raise PlanRefused(
            "noise_table_size",
            f"pure epsilon = {float(epsilon):g} at shift {shift} needs over {_MOST_THRESHOLDS} thresholds",
            way_out="give more epsilon, fewer max_groups, closer bounds, or a coarser grid step for sums",
        )
    return GeometricTable(ratio, sensitivity, max_groups)


def _thresholds_needed(ratio: int) -> int:
    """About how many n >= 1 have r^n >= 2^-128."""
    return math.ceil(wide.BITS * math.log(2) / -math.log1p((ratio - 2**RATIO_BITS) / 2**RATIO_BITS)) + 1


@lru_cache(maxsize=8)
def _thresholds(ratio: int) -> wide.Wide:
    """The integer parts of r^n 2^128 for n = N..1, ascending; the first is 0: all n >= N have it."""
    floors: list[int] = []
    precision = _WORKING_BITS
    while not floors or floors[-1] > 0:
        with ctx.workprec(precision):
            step, power = arb(ratio) / arb(2**RATIO_BITS), arb(_WORD)
            floors = []
            while not floors or floors[-1] > 0:
                power = power * step
                whole = power.floor().unique_fmpz()
                if whole is None:
                    floors, precision = [], 2 * precision
                    break
                floors.append(int(whole))
    rows = wide.from_ints(reversed(floors))
    rows.setflags(write=False)
    return rows


def _resolved(ratio: int, word: int, more: Callable[[int], int]) -> int:
    """The number of n >= 1 with U < r^n for the uniform real U whose bits begin with `word`."""
    bits, words = word, 1
    while True:
        lowest = _first_below(ratio, Fraction(bits + 1, 2 ** (wide.BITS * words)), strictly=True) - 1
        highest = _first_below(ratio, Fraction(bits, 2 ** (wide.BITS * words)), strictly=False) - 1
        if bits and lowest == highest:
            return min(lowest, 2 * NOISE_BOUND)
        bits, words = bits << wide.BITS | more(words - 1), words + 1


def _first_below(ratio: int, level: Fraction, *, strictly: bool) -> int:
    """The least n >= 0 with r^n < level (`strictly`) or r^n <= level, exactly; level > 0."""
    if level == 0:
        return 4 * NOISE_BOUND
    precision = 4 * _WORKING_BITS
    with ctx.workprec(precision):
        log_level = ball(level).log()
        guess = int((log_level / (arb(ratio) / arb(2**RATIO_BITS)).log()).mid().floor().unique_fmpz() or 0)
    n = max(0, guess - 1)
    while not _is_below(ratio, n, level, strictly=strictly):
        n += 1
    return n


def _is_below(ratio: int, n: int, level: Fraction, *, strictly: bool) -> bool:
    """Whether r^n < level or r^n <= level, decided in balls; in integers if they are equal."""
    precision = 4 * _WORKING_BITS
    with ctx.workprec(precision):
        gap = (arb(ratio) / arb(2**RATIO_BITS)).log() * n - ball(level).log()
        if gap < 0:
            return True
        if gap > 0:
            return False
    power = Fraction(ratio, 2**RATIO_BITS) ** n
    return power < level if strictly else power <= level


def _tail(log_rate: arb, start: int) -> arb:
    """P(noise >= start)."""
    rate = log_rate.exp()
    if start > 0:
        return (log_rate * start).exp() / (1 + rate)
    return 1 - (log_rate * (1 - start)).exp() / (1 + rate)
