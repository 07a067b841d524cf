"""Sums by group on the driver: those of whole numbers, cut at the largest total."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.frames.collect import added_by_group
from dp_spark.release.planner import LARGEST_TOTAL

VALUES = st.one_of(
    st.integers(-LARGEST_TOTAL, LARGEST_TOTAL),
    st.integers(-(2**33), 2**33),
    st.sampled_from(
        [LARGEST_TOTAL, -LARGEST_TOTAL, LARGEST_TOTAL - 1, 1 - LARGEST_TOTAL, 2**32, -(2**32), -1]
    ),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=60))
def test_values_of_a_group_are_added_exactly_and_cut_once(pairs: list[tuple[int, int]]) -> None:
    group, values = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    sums = [sum(value for each, value in pairs if each == number) for number in range(4)]
    cut = [max(-LARGEST_TOTAL, min(LARGEST_TOTAL, total)) for total in sums]
    assert added_by_group(group, values, 4).tolist() == cut
