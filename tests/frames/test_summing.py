"""Sums at places: the same whether room is kept for all of them or only for those that have something."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.frames import summing
from dp_spark.frames.summing import CellSums, summed

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**40)), max_size=20)


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=4), st.sampled_from([0, 10]))
def test_cells_have_the_sum_of_what_was_added(portions: list[list[tuple[int, int]]], room: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summing, "_DENSE_CELLS", room)
        cells = CellSums(10)
    for portion in portions:
        places, values = np.array(portion, dtype=np.int64).reshape(-1, 2).T
        cells.add(places, values)
        cells.add(places, None)
    added = [(place, value + 1) for portion in portions for place, value in portion]
    sums = {place: sum(value for at, value in added if at == place) for place, _ in sorted(added)}
    places, values = cells.found()
    assert dict(zip(places.tolist(), values.tolist(), strict=True)) == sums
    assert places.tolist() == sorted(sums)


def test_sums_of_large_numbers_are_exact_beyond_what_a_float_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summing, "_EXACT_ROWS", 2**10)
    values = np.full(2**22, 2**32 - 1, dtype=np.uint32)
    values[0] = 2**32 - 2
    group = np.zeros(len(values), dtype=np.uint8)
    assert summed(group, values, 2).tolist() == [2**22 * (2**32 - 1) - 1, 0]
