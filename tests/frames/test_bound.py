"""Which rows of a unit count: never too many, the same in every order, a fair choice."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from dp_spark.frames.bound import excess, kept_rows
from dp_spark.frames.identity import Ids, identities
from dp_spark.queries import Bounds

KEY = bytes(range(32))
Rows = list[tuple[int, int, int]]  # unit, group, value


def ids_of(rows: Rows) -> Ids:
    return identities([pa.array([row[0] for row in rows], pa.int64())], KEY)


def kept(rows: Rows, bounds: Bounds, key: bytes = KEY, ids: Ids | None = None) -> Rows:
    ids = ids_of(rows) if ids is None else ids
    group = np.array([row[1] for row in rows], dtype=np.uint16)
    value = np.array([row[2] + 100 for row in rows], dtype=np.uint8)
    chosen = kept_rows(ids, group, [value], key=key, bounds=bounds)
    assert excess(ids[chosen.rows], group[chosen.rows], bounds) == 0
    found = [rows[i] for i in chosen.rows]
    assert sum(chosen.first) == len({row[:2] for row in found})
    return sorted(found)


def some_rows(n: int = 4000, seed: int = 3) -> Rows:
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, 150, n), rng.integers(0, 9, n), rng.integers(-5, 5, n))
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(("max_groups", "max_rows"), [(1, 1), (2, 3), (5, 1), (100, 2), (2, 100)])
def test_no_unit_exceeds_a_bound_and_no_room_is_left_unused(max_groups: int, max_rows: int) -> None:
    rows = some_rows()
    chosen = kept(rows, Bounds(max_groups, max_rows))
    had, has = Counter(row[:2] for row in rows), Counter(row[:2] for row in chosen)
    groups_had, groups_have = Counter(unit for unit, _ in had), Counter(unit for unit, _ in has)
    assert all(groups_have[unit] == min(n, max_groups) for unit, n in groups_had.items())
    assert all(n == min(had[pair], max_rows) for pair, n in has.items())


def test_the_choice_does_not_depend_on_the_order_of_rows() -> None:
    rows, bounds = some_rows(), Bounds(2, 2)
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    assert kept(rows, bounds) == kept(shuffled, bounds) == kept(sorted(rows), bounds)


def test_a_unit_more_changes_nothing_for_the_others() -> None:
    rows, bounds = some_rows(), Bounds(2, 2)
    without = [row for row in rows if row[0] != 17]
    assert kept(without, bounds) == [row for row in kept(rows, bounds) if row[0] != 17]


def test_another_key_chooses_otherwise() -> None:
    rows, bounds = some_rows(), Bounds(2, 2)
    assert kept(rows, bounds) != kept(rows, bounds, key=bytes(32))


@pytest.mark.parametrize("max_rows", [1, 3, 8, 1000])
@pytest.mark.parametrize(("max_groups", "per_group"), [(None, None), (2, None), (None, 2), (3, 4)])
def test_all_rows_of_a_unit_are_bounded_too(
    max_groups: int | None, per_group: int | None, max_rows: int
) -> None:
    rows = some_rows()
    chosen = kept(rows, Bounds(max_groups, per_group, max_rows))
    without = kept(rows, Bounds(max_groups, per_group, 10**6))
    had, has = (Counter(unit for unit, _, _ in each) for each in (without, chosen))
    assert not Counter(chosen) - Counter(without)
    assert all(has[unit] == min(n, max_rows) for unit, n in had.items())


def test_what_is_over_a_bound_is_counted() -> None:
    """The second look, on rows that nobody has bounded: one unit in three groups, five rows in one."""
    rows = [(1, 0, 0)] * 5 + [(1, 1, 0), (1, 2, 0), (2, 0, 0)]
    ids, group = ids_of(rows), np.array([row[1] for row in rows])
    for bounds, over in (
        (Bounds(3, 5), 0),
        (Bounds(2, 5), 1),
        (Bounds(3, 4), 1),
        (Bounds(2, 4, 6), 3),
        (Bounds(None, None, 7), 0),
    ):
        assert excess(ids, group, bounds) == over


def test_units_and_groups_whose_leading_bits_collide_are_told_apart() -> None:
    """Rows are sorted by leading bits; where these are equal, all 128 decide, with the same choice."""
    rows, bounds = some_rows(), Bounds(2, 2, 3)
    ids = ids_of(rows)
    alike = ids.copy()
    alike[:, 1] >>= np.uint64(60)
    chosen = kept(rows, bounds, ids=alike)
    had = Counter(unit for unit, _, _ in kept(rows, Bounds(2, 2, 10**6), ids=alike))
    assert Counter(unit for unit, _, _ in chosen) == {unit: min(n, 3) for unit, n in had.items()}
    shuffled = np.random.default_rng(1).permutation(len(rows))
    assert chosen == kept([rows[i] for i in shuffled], bounds, ids=alike[shuffled])


def fairness(rows: Rows, bounds: Bounds, keys: int = 3000) -> float:
    """The chi-square statistic of how often each row (each place, also of equal rows) is kept."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for i in range(keys):
        counts.update(kept(rows, bounds, key=i.to_bytes(32, "big")))
    copies = Counter(rows)
    total = sum(counts.values())
    expected = {row: total * n / len(rows) for row, n in copies.items()}
    return sum((counts[row] - expected[row]) ** 2 / expected[row] for row in copies)


@pytest.mark.parametrize(
    ("rows", "bounds"),
    [
        ([(0, 0, value) for value in range(6)], Bounds(1, 2)),  # distinct rows of one group
        ([(0, 0, 0)] * 5 + [(0, 0, 1)], Bounds(1, 1)),  # a row that is there five times: 5 of 6
        ([(0, group, 0) for group in range(6)], Bounds(2, 1)),  # groups of one unit
        ([(0, 0, value) for value in range(5)] + [(0, 1, 0)], Bounds(None, None, 2)),  # rows of one unit
    ],
)
def test_every_row_has_the_same_chance(rows: Rows, bounds: Bounds) -> None:
    """3,000 fixed keys, threshold at a false alarm of 1e-9; a choice by order of content fails it."""
    distinct = len(set(rows))
    assert fairness(rows, bounds) < chi2.isf(1e-9, distinct - 1)


def test_the_fairness_test_sees_a_row_favoured_by_a_tenth() -> None:
    counts, rows = np.full(6, 1000.0), 6
    tilted = counts * np.array([1.25, *[0.95] * 5])
    assert ((tilted - counts) ** 2 / counts).sum() > chi2.isf(1e-9, rows - 1)


def test_nothing_is_kept_of_nothing() -> None:
    assert kept([], Bounds(1, 1, 1)) == []


def test_a_growing_bound_keeps_what_a_smaller_one_kept() -> None:
    rows = some_rows(500)
    for smaller, larger in pairwise([Bounds(1, 1), Bounds(1, 2), Bounds(3, 2), Bounds(9, 40)]):
        assert not Counter(kept(rows, smaller)) - Counter(kept(rows, larger))
