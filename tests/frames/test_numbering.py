"""Groups as numbers: exactly those that are listed, by text in NFC."""

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.frames.numbering import NO_GROUP, GroupNumbers

Key = tuple[str, ...]


def numbers(keys: list[Key], rows: list[tuple[str | None, ...]]) -> list[int]:
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(keys[0]))]
    return GroupNumbers(keys).of(columns).tolist()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.sampled_from("01")), min_size=1),
    st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("wxyz"), st.sampled_from("012"))),
)
def test_a_row_has_the_index_of_its_key(listed: list[Key], rows: list[Key]) -> None:
    keys = sorted(set(listed))
    places = {key: i for i, key in enumerate(keys)}
    assert numbers(keys, [*rows]) == [places.get(row, NO_GROUP) for row in rows]


def test_all_combinations() -> None:
    keys = list(product("abc", "xyz"))
    assert numbers(keys, [*keys]) == list(range(9))


@pytest.mark.parametrize("row", [("a", None), (None, "x"), (None, None), ("b", "x"), ("a ", "x"), ("A", "x")])
def test_null_and_what_is_not_listed_have_no_number(row: tuple[str | None, ...]) -> None:
    assert numbers([("a", "x")], [row, ("a", "x")]) == [NO_GROUP, 0]


def test_combining_forms_are_one_group() -> None:
    assert numbers([("\u00e9",)], [("e\u0301",), ("\u00e9",), ("e",)]) == [0, 0, NO_GROUP]


def test_no_rows() -> None:
    assert numbers([("a",), ("b",)], []) == []


@pytest.mark.parametrize("beside", [[], [b"\xff"]])
def test_a_key_with_marks_newer_than_pythons_tables_is_found(beside: list[bytes]) -> None:
    text = "a\u0897\u0316"
    column = pa.array([text.encode(), *beside], pa.binary()).cast(pa.string(), safe=False)
    assert GroupNumbers([(text,)]).of([column])[0] == 0


def test_what_is_not_listed_is_of_the_last_key_where_that_is_asked() -> None:
    keys = [("a", "x"), ("b", "y"), ("(other)", "(other)")]
    rows = [("a", "x"), ("a", "y"), ("c", "x"), ("(other)", "(other)"), (None, "x"), ("b", None)]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    assert GroupNumbers(keys, other=True).of(columns).tolist() == [0, 2, 2, 2, NO_GROUP, NO_GROUP]


def test_a_last_key_alone_takes_everything() -> None:
    column = pa.array(["a", "(other)", None], pa.string())
    assert GroupNumbers([("(other)",)], other=True).of([column]).tolist() == [0, 0, NO_GROUP]
