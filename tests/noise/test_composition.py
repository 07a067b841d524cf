"""The l1 lemma by brute force, and exact sums of guarantees."""

from fractions import Fraction
from itertools import product
from math import prod

import pytest

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import FAMILIES, Family, basic_sum, dominating_shift, freeze, wide

GROWTHS = [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(5, 2), Fraction(6), Fraction(40)]


def vector_delta(weights: dict[int, int], shifts: tuple[int, ...], growth: Fraction) -> Fraction:
    """sum over all points of (product law - growth * shifted product law)+, without a formula."""
    gaps = (
        prod(weights[x] for x in point)
        - growth * prod(weights.get(x - shift, 0) for x, shift in zip(point, shifts, strict=True))
        for point in product(weights, repeat=len(shifts))
    )
    return sum((gap for gap in gaps if gap > 0), start=Fraction(0)) / 2 ** (128 * len(shifts))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize(("cells", "sensitivity", "support"), [(2, 1, 7), (2, 2, 6), (3, 1, 3)])
@pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1)])
def test_cells_are_dominated_by_one_coordinate(
    family: Family, cells: int, sensitivity: int, support: int, step: Fraction
) -> None:
    table = freeze(family, step, support, sensitivity=sensitivity, max_groups=cells)
    half = wide.to_ints(table.weights)
    weights = {n: int(half[abs(n)]) for n in range(-support, support + 1)}
    moves = range(-sensitivity, sensitivity + 1)
    for growth in GROWTHS:
        bound = vector_delta(weights, (dominating_shift(sensitivity, cells),), growth)
        slack = Fraction(cells + 1) * table.entries * (1 + growth) / 2**128
        for shifts in product(moves, repeat=cells):
            assert vector_delta(weights, shifts, growth) <= bound + slack


def test_ten_tenths_make_one() -> None:
    tenth = PrivacyGuarantee(Fraction("0.1"), Fraction("1e-7"))
    assert basic_sum([tenth] * 10) == PrivacyGuarantee(Fraction(1), Fraction("1e-6"))


def test_a_sum_is_the_inverse_of_equal_shares() -> None:
    whole = PrivacyGuarantee(Fraction(1, 3), Fraction(1, 7))
    assert basic_sum([whole.share(7)] * 7) == whole


@pytest.mark.parametrize("guarantees", [[], [PrivacyGuarantee(Fraction(1), Fraction(1, 2))] * 2])
def test_sums_that_guarantee_nothing_are_refused(guarantees: list[PrivacyGuarantee]) -> None:
    with pytest.raises(ValueError, match="must"):
        basic_sum(guarantees)
