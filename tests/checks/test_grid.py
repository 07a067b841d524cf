"""Multiples of a grid, against exact fractions."""

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_spark.checks.grid import are_multiples

INTEGERS = st.integers(-(2**63), 2**63 - 1)
UNSCALED = st.integers(-(10**19) + 1, 10**19 - 1)
GRIDS = st.fractions(min_value=Fraction(1, 10**9)).filter(bool)


def is_multiple(value: Fraction, grid: Fraction) -> bool:
    return (value / grid).denominator == 1


@given(st.lists(INTEGERS), GRIDS | st.integers(1, 50).map(Fraction))
def test_integers_agree_with_fractions(values: list[int], grid: Fraction):
    expected = [is_multiple(Fraction(value), grid) for value in values]
    assert are_multiples(pa.array(values, pa.int64()), grid).tolist() == expected


@given(
    st.lists(UNSCALED, min_size=1),
    st.integers(0, 19),
    GRIDS | st.sampled_from([Fraction(9, 4), Fraction(1, 8)]),
)
def test_decimals_agree_with_fractions(unscaled: list[int], scale: int, grid: Fraction):
    values = pa.array([Decimal(each).scaleb(-scale) for each in unscaled], pa.decimal128(19, scale))
    expected = [is_multiple(Fraction(each, 10**scale), grid) for each in unscaled]
    assert are_multiples(values, grid).tolist() == expected
    assert are_multiples(values.slice(1), grid).tolist() == expected[1:]


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1),
    st.sampled_from([Fraction(9, 4), Fraction(1, 8), Fraction(5)]),
)
def test_every_multiple_is_found(steps: list[int], grid: Fraction):
    cells = [Decimal(each * grid.numerator) / Decimal(grid.denominator) for each in steps]
    assert are_multiples(pa.array(cells, pa.decimal128(19, 3)), grid).all()


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.decimal128(20, 2), pa.uint64()])
def test_other_types_are_an_error(kind: pa.DataType):
    with pytest.raises(TypeError):
        are_multiples(pa.array([], kind), Fraction(1))
