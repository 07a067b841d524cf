"""Pure epsilon: the law in fractions, its profile by brute force, the draw on ties."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_spark.errors import PlanRefused
from dp_spark.noise import GeometricTable, Laplace, calibrate_lattice, pure_epsilon_table, wide
from dp_spark.noise.geometric import NOISE_BOUND, _thresholds

ONE = 2**64
HALF = GeometricTable(ONE // 2, 1, 1)
TABLES = [HALF, pure_epsilon_table(1, 1, 1), pure_epsilon_table(0.5, 4, 2), pure_epsilon_table(3, 1, 2)]

every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.ratio)[:6])


def no_more(row: int, which: int, place: int) -> int:
    raise AssertionError("these words decide")


def rate(table: GeometricTable) -> Fraction:
    return Fraction(table.ratio, ONE)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "cells"), [(1, 1, 1), (0.1, 3, 2), (5, 2, 1), (0.01, 1, 1)]
)
def test_ratio_is_the_least_that_is_private(epsilon: float, sensitivity: int, cells: int) -> None:
    table = pure_epsilon_table(epsilon, sensitivity, cells)
    shift = sensitivity * cells
    assert table.privacy_delta(epsilon) == 0
    worse = GeometricTable(table.ratio - 1, sensitivity, cells)
    assert worse.privacy_delta(epsilon) > 0
    assert float(rate(table)) == pytest.approx(math.exp(-epsilon / shift), rel=1e-15)


@every_table
@pytest.mark.parametrize("epsilon", [0, 0.01, 0.3, 0.7, 0.999, 2.5])
def test_profile_is_the_brute_force_sum(table: GeometricTable, epsilon: float) -> None:
    """Over 4,000 values in fractions: the rest has mass below 1e-100 at these ratios."""
    r, shift, growth = float(rate(table)), table.sensitivity * table.max_groups, math.exp(epsilon)
    law = [(1 - r) / (1 + r) * r ** abs(n) for n in range(-2000, 2001)]
    delta = math.fsum(max(p - growth * q, 0.0) for p, q in zip(law, law[shift:], strict=False))
    assert table.privacy_delta(epsilon) == pytest.approx(delta, rel=1e-9, abs=1e-15)


@every_table
def test_quantiles_are_exact_at_every_step_of_the_cdf(table: GeometricTable) -> None:
    r = rate(table)
    for n in range(-9, 10):
        cdf = r**-n / (1 + r) if n <= 0 else 1 - r ** (n + 1) / (1 + r)
        assert table.quantile(cdf) == n
        assert table.quantile(cdf + Fraction(1, 10**60)) == n + 1
    covered = [1 - 2 * r ** (k + 1) / (1 + r) for k in range(6)]
    assert [table.half_width(share) for share in covered] == list(range(6))


def test_variance_is_that_of_the_law_and_near_a_table_with_almost_no_delta() -> None:
    assert HALF.variance == pytest.approx(4, rel=1e-12)
    near = calibrate_lattice(Laplace(), 1, 1e-20, 1, 1).variance
    assert pure_epsilon_table(1, 1, 1).variance == pytest.approx(near, rel=1e-6)


def test_thresholds_are_integer_parts_of_powers() -> None:
    r = rate(TABLES[1])
    expected = [math.floor(r**n * 2**128) for n in range(1, 200)]
    count = expected.index(0) + 1
    assert list(wide.to_ints(_thresholds(TABLES[1].ratio))) == expected[:count][::-1]


@every_table
def test_draw_is_the_count_of_powers_above_the_uniform_number(table: GeometricTable) -> None:
    r = rate(table)
    values = [0, 1, 2, 7, 30]
    just_below = [math.ceil(r**n * 2**128) - 1 for n in values]  # U < r^n whatever follows, if not tied
    words = wide.from_ints([word - 1 for word in just_below])
    zeros = wide.from_ints([2**128 - 1] * len(values))  # U >= r: the other variable is 0
    forth = table.draw(np.stack([words, zeros], axis=1), no_more)
    back = table.draw(np.stack([zeros, words], axis=1), no_more)
    assert forth.tolist() == values
    assert back.tolist() == [-value for value in values]


def test_ties_are_decided_by_further_words() -> None:
    """r = 1/2: U with 128 zero bits and then b is in the memoryless tail; exact powers count as not below."""
    top = wide.from_ints([2**128 - 1])
    zero = wide.from_ints([0])
    asked: list[tuple[int, int, int]] = []

    def more(row: int, which: int, place: int) -> int:
        asked.append((row, which, place))
        return [0, 2**100, 5][place]

    drawn = HALF.draw(np.stack([zero, top], axis=1), more)
    assert drawn.tolist() == [256 + 27]  # U = 2^-284 and a little: below 2^-283, not below 2^-284
    assert asked[:2] == [(0, 0, 0), (0, 0, 1)]
    eighth = wide.from_ints([2**125])
    assert HALF.draw(np.stack([eighth, top], axis=1), lambda *_: 5).tolist() == [2]
    assert HALF.draw(np.stack([eighth, top], axis=1), lambda *_: 0 if _[2] < 3 else 1).tolist() == [2]


def test_noise_saturates_and_value_plus_noise_fits_its_column() -> None:
    assert HALF.support == NOISE_BOUND
    assert 2**60 + NOISE_BOUND < 2**63 - 1 < 10**38


def test_bytes_come_back_and_other_bytes_are_refused() -> None:
    for table in TABLES:
        assert GeometricTable.from_bytes(table.to_bytes()) == table
    assert len({table.digest for table in TABLES}) == len(TABLES)
    for wrong in (b"", HALF.to_bytes() + b" ", HALF.to_bytes().replace(b" 1 ", b" 01 ")):
        with pytest.raises(ValueError, match="bytes of geometric"):
            GeometricTable.from_bytes(wrong)


@pytest.mark.parametrize(("ratio", "sensitivity"), [(0, 1), (ONE, 1), (ONE - 1, 1), (ONE // 2, 0)])
def test_parameters_out_of_range_are_refused(ratio: int, sensitivity: int) -> None:
    with pytest.raises(ValueError, match="ratio"):
        GeometricTable(ratio, sensitivity, 1)


@pytest.mark.parametrize(
    ("epsilon", "code"), [(0, "epsilon_range"), (44, "epsilon_range"), (1e-9, "noise_table_size")]
)
def test_what_cannot_be_met_is_refused(epsilon: float, code: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        pure_epsilon_table(epsilon, 1, 1)
    assert refused.value.code == code
