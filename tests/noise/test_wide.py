"""128-bit arithmetic against Python's own integers."""

import bisect
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_spark.noise import wide

numbers = st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=40)


@given(numbers)
def test_integers_and_bytes_come_back(values: list[int]) -> None:
    rows = wide.from_ints(values)
    assert list(wide.to_ints(rows)) == values
    assert wide.to_bytes(rows) == b"".join(value.to_bytes(16, "big") for value in values)


@given(numbers)
def test_sums_carry_across_all_words(values: list[int]) -> None:
    rows = wide.from_ints(values)
    assert wide.total(rows) == sum(values)
    assert list(wide.to_ints(wide.running_sums(rows))) == [total % 2**128 for total in accumulate(values)]


@given(numbers, numbers)
def test_counting_is_bisection(table: list[int], values: list[int]) -> None:
    ascending = sorted(table)
    probes = [*values, *table]
    counts = wide.count_at_most(wide.from_ints(ascending), wide.from_ints(probes))
    assert list(counts) == [bisect.bisect_right(ascending, probe) for probe in probes]


@given(numbers)
def test_floats_are_close(values: list[int]) -> None:
    np.testing.assert_allclose(
        wide.to_floats(wide.from_ints(values)), [v / 2**128 for v in values], rtol=2**-51
    )


@pytest.mark.parametrize("value", [-1, 2**128])
def test_what_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        wide.from_ints([value])
