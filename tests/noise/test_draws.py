"""Statistical tests that can fail: chi-square, likelihood ratio against a scale off by one percent, labels.

Keys are fixed, so outcomes are too. Every test has a false-alarm rate of at most 1e-9 over keys; there are
fewer than 100 of them, so a change of keys that leaves all well fails with probability below 1e-7.
"""

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar

from dp_spark.noise import (
    Gaussian,
    GeometricTable,
    Laplace,
    Mass,
    NoiseTable,
    encode_label,
    freeze,
    wide,
    words,
)
from dp_spark.noise.families import Logistic, Subbotin, TruncatedLaplace

KEY = bytes(range(32, 64))
FALSE_ALARM, MISS = 1e-9, 1e-3
SCALE = 20
OFF = {"one percent more": Fraction(101, 100), "one percent less": Fraction(99, 100)}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A family and the number of draws that its likelihood-ratio test needs."""

    family: object
    n: int
    mass: Mass = Mass.POINT

    def table(self, factor: Fraction = Fraction(1)) -> NoiseTable | GeometricTable:
        """Scale SCALE times factor; a truncated family is cut at the same place."""
        if self.family == "geometric":
            return GeometricTable(round(2**64 * np.exp(-1 / (SCALE * float(factor)))), 1, 1)
        reach = 60 if isinstance(self.family, TruncatedLaplace) else 400
        step = 1 / (SCALE * factor)
        return freeze(
            self.family, step, reach, sensitivity=1, max_groups=1, mass=self.mass, edge=Fraction(1, 3)
        )


CASES = {
    "laplace": Case(Laplace(), 1_150_000),
    "logistic": Case(Logistic(), 800_000),
    "gaussian": Case(Gaussian(), 600_000),
    "rounded gaussian": Case(Gaussian(), 600_000, Mass.CELL),
    "subbotin": Case(Subbotin(Fraction(3, 2)), 750_000),
    "truncated laplace": Case(TruncatedLaplace(3), 2_200_000),
    "geometric": Case("geometric", 1_150_000),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def no_more(*_: int) -> int:
    raise AssertionError("a tie in a million draws")


def counters(n: int) -> NDArray[np.uint8]:
    return np.stack([np.zeros(n), np.arange(n)], axis=1).astype(">u8").view(np.uint8).reshape(n, 16)


def draws(table: NoiseTable | GeometricTable, n: int, label: str = "draws") -> NDArray[np.int64]:
    ids = counters(n)
    if isinstance(table, NoiseTable):
        return table.draw(words(KEY, encode_label(label), ids))
    pair = [words(KEY, encode_label(label, which), ids) for which in (0, 1)]
    return table.draw(np.stack(pair, axis=1), no_more)


def probabilities(table: NoiseTable | GeometricTable, reach: int) -> Floats:
    """Of -reach..reach, and of all else in the last place."""
    n = np.abs(np.arange(-reach, reach + 1))
    if isinstance(table, NoiseTable):
        half = wide.to_floats(table.weights)
        inside = np.where(n < len(half), half[np.minimum(n, len(half) - 1)], 0.0)
    else:
        rate = table.ratio / 2**64
        inside = (1 - rate) / (1 + rate) * rate**n
    return np.append(inside, max(1 - inside.sum(), 0.0))


def counts(values: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
    place = np.where(np.abs(values) <= reach, values + reach, 2 * reach + 1)
    return np.bincount(place, minlength=2 * reach + 2)


def chi_square(observed: NDArray[np.int64], law: Floats) -> float:
    """P value over all cells with expectation of at least 10, the rest pooled."""
    expected = observed.sum() * law
    large = expected >= 10
    seen = np.append(observed[large], observed[~large].sum())
    due = np.append(expected[large], expected[~large].sum())
    kept = due >= 10
    seen, due = np.append(seen[kept], seen[~kept].sum()), np.append(due[kept], due[~kept].sum())
    if due[-1] < 1e-6:
        assert seen[-1] == 0
        seen, due = seen[:-1], due[:-1]
    return float(stats.chi2.sf(((seen - due) ** 2 / due).sum(), len(due) - 1))


@dataclass(frozen=True)
class RatioTest:
    """Reject when the log likelihood ratio reaches `threshold`; both bounds are Chernoff's, so rigorous."""

    ratios: Floats
    threshold: float
    miss: float

    @staticmethod
    def of(law: Floats, other: Floats, n: int, false_alarm: float) -> "RatioTest":
        sound = (law > 1e-30) & (other > 1e-30)
        ratios = np.where(sound, np.log(np.where(sound, other, 1) / np.where(sound, law, 1)), 0.0)

        def log_moment(power: float, under: Floats) -> float:
            return n * float(np.log(under @ np.exp(power * ratios)))

        def least(power: float) -> float:
            return (log_moment(power, law) - np.log(false_alarm)) / power

        threshold = minimize_scalar(least, bounds=(1e-3, 5), method="bounded").fun
        bound = minimize_scalar(
            lambda power: power * threshold + log_moment(-power, other), bounds=(0, 2), method="bounded"
        ).fun
        return RatioTest(ratios, threshold, float(np.exp(bound)))

    def rejects(self, observed: NDArray[np.int64]) -> bool:
        return float(self.ratios @ observed) >= self.threshold


@every_case
def test_draws_follow_the_table_in_every_cell(case: Case) -> None:
    """n as in CASES; false alarm 1e-9; a scale off by five percent is seen on both sides."""
    law = probabilities(case.table(), 400)
    assert chi_square(counts(draws(case.table(), case.n), 400), law) > FALSE_ALARM
    for factor in (Fraction(105, 100), Fraction(95, 100)):
        assert chi_square(counts(draws(case.table(factor), case.n), 400), law) < FALSE_ALARM


@every_case
def test_a_scale_off_by_one_percent_is_seen(case: Case) -> None:
    """Two likelihood-ratio tests of 5e-10 each, n as in CASES: false alarm 1e-9, miss 1e-3."""
    law = probabilities(case.table(), 400)
    tests = [
        RatioTest.of(law, probabilities(case.table(factor), 400), case.n, FALSE_ALARM / 2)
        for factor in OFF.values()
    ]
    assert all(test.miss <= MISS for test in tests)
    assert not any(test.rejects(counts(draws(case.table(), case.n), 400)) for test in tests)
    for test, factor in zip(tests, OFF.values(), strict=True):
        assert test.rejects(counts(draws(case.table(factor), case.n, "other"), 400))


def dependence(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """P value of independence over 8 by 8 classes of about equal probability."""
    edges = np.quantile(one, np.arange(1, 8) / 8)
    pairs = 8 * np.searchsorted(edges, one) + np.searchsorted(edges, other)
    return float(stats.chi2_contingency(np.bincount(pairs, minlength=64).reshape(8, 8), correction=False)[1])


def test_noise_is_independent_across_labels_cells_and_words() -> None:
    """n = 400,000; false alarm 1e-9 each. Three in a hundred shared draws would be seen, and are."""
    n, table = 400_000, CASES["laplace"].table()
    count, total = draws(table, n, "count"), draws(table, n, "sum")
    assert dependence(count, total) > FALSE_ALARM
    assert dependence(count[:-1], count[1:]) > FALSE_ALARM
    shared = np.where(np.arange(n) % 33 == 0, count, total)
    assert dependence(count, shared) < FALSE_ALARM


def test_a_million_draws_take_at_most_a_second() -> None:
    table = freeze(Gaussian(), Fraction(13, 2**19), 2**19, sensitivity=1, max_groups=1)
    drawn = words(KEY, b"speed", counters(10**6))
    started = time.process_time()
    table.draw(drawn)
    assert time.process_time() - started < 1.0
