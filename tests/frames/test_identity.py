"""Keyed identities: equal for equal units, different for all others, whatever the form of their names."""

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.frames.identity import identities

KEY = bytes(range(32))


def of(*columns: list[str] | list[int]) -> list[tuple[int, ...]]:
    arrays = [
        pa.array(column, pa.string() if isinstance(column[0], str) else pa.int64()) for column in columns
    ]
    return [tuple(row) for row in identities(arrays, KEY).tolist()]


@settings(deadline=None)
@given(st.lists(st.text(max_size=70), min_size=1, max_size=40))
def test_texts_have_the_same_identity_if_and_only_if_they_are_the_same_in_nfc(texts: list[str]) -> None:
    normal = [unicodedata.normalize("NFC", text) for text in texts]
    found = of(texts)
    assert len(set(found)) == len(set(normal))
    assert found == of(normal)
    assert found == [of([text])[0] for text in texts]  # not a function of the others


def test_texts_of_every_length_around_a_block_and_with_zero_bytes_differ() -> None:
    texts = [letter * n for n in range(70) for letter in ("\0", "a", "\x80")]
    assert len(set(of(texts))) == len(set(texts))


def test_a_slice_of_a_column_is_read_from_where_it_begins() -> None:
    column = pa.array(["a", "bb", "ccc", "dddd"])
    assert identities([column.slice(1, 2)], KEY).tolist() == identities([column], KEY)[1:3].tolist()


def test_several_columns_are_told_apart_by_place() -> None:
    rows = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), ("bc", "a")]
    assert len(set(of(*map(list, zip(*rows, strict=True))))) == len(rows)
    assert of(["a"], [1]) != of(["a"], ["1"])
    assert len(set(of([0, 1, 0, 1], [0, 0, 1, 1]))) == 4


def test_another_key_gives_other_identities() -> None:
    column = pa.array(["a"])
    assert identities([column], KEY).tolist() != identities([column], bytes(32)).tolist()


@pytest.mark.parametrize("texts", [["e\u0301", "\u00e9"], ["\u1100\u1161", "\uac00"]])
def test_combining_forms_are_one_unit(texts: list[str]) -> None:
    assert len(set(of(texts))) == 1


@pytest.mark.parametrize("texts", [["a", "a "], ["A", "a"], ["", "NULL"], ["0", "-0"], ["\u00e9", "e"]])
def test_nothing_else_is_folded(texts: list[str]) -> None:
    assert len(set(of(texts))) == 2


def test_bytes_that_are_no_utf8_are_a_unit_like_any_other() -> None:
    raw = pa.array([b"\xff", b"\xfe", b"e\xcc\x81", "\u00e9".encode(), b"\xff"], pa.binary())
    found = identities([raw.cast(pa.string(), safe=False)], KEY)[:, 0].tolist()
    assert found[0] == found[4] != found[1]
    assert found[2] == found[3]


def test_identities_are_uniform_bits() -> None:
    """A million bits of each of 128 places: 6 standard deviations, false alarm 128 * 2e-9."""
    n = 10**6
    ids = identities([pa.array(np.arange(n))], KEY)
    bits = np.unpackbits(ids.view(np.uint8).reshape(n, 16), axis=1)
    assert np.all(np.abs(bits.sum(axis=0, dtype=np.int64) - n / 2) < 6 * np.sqrt(n) / 2)


def test_the_form_of_a_text_does_not_depend_on_its_neighbours() -> None:
    """Every combining mark beside others, in a column with and without bytes that are no UTF-8."""
    marks = [
        chr(point) for point in range(0x300, 0x1E000) if unicodedata.category(chr(point)) in ("Mn", "Cn")
    ]
    texts = [before + mark + after for mark in marks for before, after in (("a", "\u0316"), ("e\u0301", ""))]
    raw = [text.encode() for text in texts]
    alone = identities([pa.array(texts)], KEY)
    mixed = identities([pa.array([*raw, b"\xff"], pa.binary()).cast(pa.string(), safe=False)], KEY)
    assert np.array_equal(alone, mixed[:-1])
