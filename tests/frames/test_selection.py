"""Private groups on Spark: who is released, how often, and that nobody else's name leaves the workers."""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from scipy.stats import binom

from dp_spark.frames.collect import collect_totals
from dp_spark.frames.selection import EXCESS, GROUP, UNITS, Selected, passing, select_groups, selected_groups
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import Part
from dp_spark.release.period import period_window
from dp_spark.release.planner import plan_release
from dp_spark.release.selection import GroupSelection, selecting_table
from dp_spark.release.spec import ReleaseSpec

KEY = bytes(range(32))
WINDOW = period_window(None, "2024-03-01")
BASE: dict[str, Any] = {
    "release": "r",
    "unit": {"column": "p", "on_null": "drop"},
    "bounds": {"max_groups": 1, "max_rows_per_group": 1},
    "group_by": ["g"],
    "groups": {"private": {}},
    "guarantee": {"epsilon": 10, "delta": "1e-3"},
    "queries": [{"name": "n", "kind": "count"}, {"name": "people", "kind": "ids"}],
    "budget": {"population": "people"},
    "publish": [{"sink": "parquet", "path": "out"}],
}


def selected(frame: DataFrame, key: bytes = KEY, **changes: Any) -> Selected:
    plan = plan_release(ReleaseSpec(**{**BASE, **changes}))
    return select_groups(frame, plan=plan, window=WINDOW, release_key=key)


def groups_of(spark: SparkSession, sizes: dict[str | None, int], rows_each: int = 1) -> DataFrame:
    """Each group with so many people of its own."""
    rows = [
        (f"{group}-{i}", group)
        for group, size in sizes.items()
        for i in range(size)
        for _ in range(rows_each)
    ]
    return spark.createDataFrame(rows, "p string, g string")


def test_groups_of_enough_people_are_found_and_named(spark: SparkSession) -> None:
    found = selected(groups_of(spark, {"b": 200, "a": 300, "few": 1, None: 500}))
    assert found.keys == (("a",), ("b",))
    assert np.abs(found.noisy_units - [300, 200]).max() < 20


def test_the_same_key_and_rows_select_the_same_whatever_the_partitions(spark: SparkSession) -> None:
    sizes: dict[str | None, int] = {f"g{i}": 1 + i // 4 for i in range(80)}
    frame = groups_of(spark, sizes)
    first, again = (selected(each) for each in (frame, frame.repartition(7, "g")))
    assert first.keys == again.keys
    assert np.array_equal(first.noisy_units, again.noisy_units)
    others = {selected(frame, key=bytes([i] * 32)).keys for i in range(3)}
    assert len({first.keys, *others}) > 1


def test_a_row_is_a_unit_where_the_spec_says_so(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("one", "a")] * 300 + [("two", "b")] * 2, "p string, g string")
    found = selected(rows, unit={"row": True}, bounds=None)
    assert found.keys == (("a",),)
    assert abs(int(found.noisy_units[0]) - 300) < 20
    assert selected(rows).keys == ()


@pytest.mark.parametrize("bounds", [{"max_groups": 2, "max_rows_per_group": 1}, {"max_rows": 2}], ids=repr)
def test_one_person_counts_in_as_many_groups_as_bounds_allow(
    spark: SparkSession, bounds: dict[str, int]
) -> None:
    """300 people, each with two rows in each of ten groups: together they count as 600, or less."""
    rows = [(f"p{i}", f"g{j}") for i in range(300) for j in range(10) for _ in range(2)]
    found = selected(spark.createDataFrame(rows, "p string, g string"), bounds=bounds)
    assert len(found.keys) == 10
    assert (500 if "max_rows" in bounds else 560) < found.noisy_units.sum() < 640


def test_texts_that_are_one_in_nfc_are_one_group(spark: SparkSession) -> None:
    rows = [(f"p{i}", "caf\u00e9" if i % 2 else "cafe\u0301") for i in range(200)]
    for unit in ({"unit": BASE["unit"]}, {"unit": {"row": True}, "bounds": None}):
        found = selected(spark.createDataFrame(rows, "p string, g string"), **unit)
        assert found.keys == (("caf\u00e9",),)
        assert abs(int(found.noisy_units[0]) - 200) < 20


def test_a_null_is_a_group_where_it_has_a_label(spark: SparkSession) -> None:
    frame = groups_of(spark, {None: 150, "(none)": 150, "a": 150})
    found = selected(frame, groups={"private": {}, "null_label": "(none)"})
    assert found.keys == (("(none)",), ("a",))
    assert abs(int(found.noisy_units[0]) - 300) < 20


def test_keys_of_several_columns_and_types(spark: SparkSession) -> None:
    rows = [(f"p{i}", i % 2, "ab"[i % 2]) for i in range(400)]
    frame = spark.createDataFrame(rows, "p string, number int, letter string")
    found = selected(frame, group_by=["letter", "number"])
    assert found.keys == (("a", "0"), ("b", "1"))


def test_a_group_that_is_called_like_a_label_of_the_release_is_none(spark: SparkSession) -> None:
    frame = groups_of(spark, {"(other)": 200, "a": 200})
    assert selected(frame).keys == (("(other)",), ("a",))
    assert selected(frame, groups={"private": {"other": True}}).keys == (("a",),)


def test_a_group_whose_key_is_no_utf8_is_none(spark: SparkSession) -> None:
    frame = groups_of(spark, {"a": 200, "broken": 200}).selectExpr(
        "p", "CASE g WHEN 'broken' THEN CAST(X'61FF' AS STRING) ELSE g END AS g"
    )
    for unit in ({"unit": BASE["unit"]}, {"unit": {"row": True}, "bounds": None}):
        assert selected(frame, **unit).keys == (("a",),)


def test_a_group_whose_key_no_list_could_have_is_none(spark: SparkSession) -> None:
    """A long text would be named by its digest; a control character is no name of a group."""
    frame = groups_of(spark, {"a": 200, "x" * 1001: 200, "y" * 5000: 200, "a\nb": 200, "e\u2028": 200})
    assert selected(frame).keys == (("a",),)


def test_units_may_share_other_groups_where_they_are_selected_than_where_they_are_added_up(
    spark: SparkSession,
) -> None:
    """A unit of one group, hidden among hundreds that only it has: selection mostly sees one of those."""
    plan = plan_release(ReleaseSpec(**BASE))
    rows = [(f"p{i}", "a") for i in range(200)]
    alone = spark.createDataFrame([*rows, *(("q", f"own-{i}") for i in range(500))], "p string, g string")
    both = alone.union(spark.createDataFrame([("q", "a")], "p string, g string"))

    def totals(frame: DataFrame) -> tuple[int, int]:
        found = select_groups(frame, plan=plan, window=WINDOW, release_key=KEY)
        assert found.keys == (("a",),)
        of_selected = plan.with_selected(found.keys)
        counts, *_ = collect_totals(frame, plan=of_selected, window=WINDOW, release_key=KEY)
        return int(found.noisy_units[0]), int(counts[0])

    assert totals(alone)[0] == totals(both)[0]  # the same units, the same noise
    assert (totals(alone)[1], totals(both)[1]) == (200, 201)


def test_no_rows_select_nothing(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "p string, g string")
    assert selected(empty).keys == ()
    assert selected(empty, unit={"row": True}, bounds=None).keys == ()


def test_neither_key_nor_group_stands_in_a_plan_of_spark(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_release(ReleaseSpec(**BASE))
    frame = groups_of(spark, {"secret-group": 200})
    selected_groups(frame, plan=plan, window=WINDOW, release_key=KEY).explain(mode="extended")
    text = capsys.readouterr().out
    assert "MapInArrow" in text
    assert "secret-group" not in text
    assert KEY.hex() not in text


def batch(units: np.ndarray) -> pa.RecordBatch:
    columns = [np.arange(len(units)), units, np.zeros(len(units), dtype=np.int64)]
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=[GROUP, UNITS, EXCESS])


def passed_of(selection: GroupSelection, units: int, groups: int) -> int:
    drawn = passing(iter([batch(np.full(groups, units))]), selection=selection, key=KEY, label=b"label")
    return sum(each.num_rows for each in drawn)


@pytest.mark.parametrize("min_units", [1, 4])
def test_groups_pass_as_often_as_the_plan_says(min_units: int) -> None:
    """200,000 groups of each of three sizes: false alarm below 1e-9 each, by the exact binomial.

    A threshold one lower, or one higher, lies outside for every size, which is asserted too.
    """
    part = Part(1, 1)
    guarantee = PrivacyGuarantee(Fraction(2), Fraction(1, 10**3))
    table = selecting_table(part, [Part(1, 1)], guarantee, 1)
    selection = GroupSelection(table, part, min_units, shared=False)
    groups = 200_000
    for probability in (0.05, 0.5, 0.95):
        units = selection.units_for(probability)
        low, high = binom.ppf([5e-10, 1 - 5e-10], groups, selection.probability(units))
        assert low <= passed_of(selection, units, groups) <= high
        for other in (units - 1, units + 1):
            assert not low <= groups * selection.probability(other) <= high
            assert not low <= passed_of(selection, other, groups) <= high


def test_below_the_least_number_of_units_nothing_ever_passes() -> None:
    part = Part(1, 1)
    table = selecting_table(part, [], PrivacyGuarantee(Fraction(1), Fraction(1, 10)), 1)
    selection = GroupSelection(table, part, 5, shared=False)
    assert [passed_of(selection, units, 100_000) for units in range(5)] == [0] * 5
    assert passed_of(selection, 5, 100_000) > 1000


def test_other_numbers_of_units_have_independent_noise() -> None:
    """Neighbouring data under one key: as many pass on one side only as if drawn anew."""
    part = Part(1, 1)
    table = selecting_table(part, [], PrivacyGuarantee(Fraction(1), Fraction(1, 10)), 1)
    selection = GroupSelection(table, part, 1, shared=False)
    units = selection.units_for(0.5)

    def those(number: int) -> set[int]:
        drawn = passing(iter([batch(np.full(20_000, number))]), selection=selection, key=KEY, label=b"l")
        return {group for each in drawn for group in each[GROUP].to_pylist()}

    here, there = those(units), those(units + 1)
    expected = selection.probability(units) * selection.probability(units + 1) * 20_000
    assert abs(len(here & there) - expected) < 6.5 * 20_000**0.5 / 2


def test_bounds_that_do_not_hold_are_told() -> None:
    """A group with an excess is handed on whether or not it passes."""
    flagged = pa.RecordBatch.from_arrays(
        [pa.array(np.array([each])) for each in (7, 1, 3)], names=[GROUP, UNITS, EXCESS]
    )
    plan = plan_release(ReleaseSpec(**BASE))
    assert plan.selection is not None
    (kept,) = passing(iter([flagged]), selection=plan.selection, key=KEY, label=b"l")
    assert kept[EXCESS].to_pylist() == [3]
