"""The keyed stream: known answers, independent recomputation, injectivity."""

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dp_spark.noise import cell_ids, derive_key, encode_label, fingerprint, wide, words

KEY = bytes(range(32))
LABELS = [b"", b"a", b"EWR", bytes(300)]

text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
part = st.one_of(text, st.integers(), st.integers(-300, 300), st.binary(max_size=12))
parts = st.lists(part, max_size=5)


def decode_label(label: bytes) -> list[str | int | bytes]:
    """The parts back from the bytes: that this works shows that encoding is injective."""
    found: list[str | int | bytes] = []
    while label:
        size = int.from_bytes(label[1:9], "big")
        tag, content, label = label[:1], label[9 : 9 + size], label[9 + size :]
        readings = {b"s": lambda c: c.decode("utf-8", "surrogatepass"), b"b": bytes}
        found.append(readings.get(tag, lambda c: int.from_bytes(c, "big", signed=True))(content))
    return found


def hkdf_by_hand(key: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt, one block of output."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


@given(parts)
def test_labels_can_be_decoded_so_they_are_injective(sequence: list[str | int | bytes]) -> None:
    decoded = decode_label(encode_label(*sequence))
    assert decoded == sequence
    assert list(map(type, decoded)) == list(map(type, sequence))


@given(parts, parts)
def test_distinct_sequences_have_distinct_labels(one: list[object], other: list[object]) -> None:
    same = [(type(p), p) for p in one] == [(type(p), p) for p in other]
    assert (encode_label(*one) == encode_label(*other)) == same


def test_types_and_borders_are_part_of_a_label() -> None:
    alike = [
        (1,),
        ("1",),
        (b"1",),
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        ("abc", ""),
        (),
        ("",),
        (0,),
        (-1,),
        (255,),
    ]
    assert len({encode_label(*sequence) for sequence in alike}) == len(alike)


@pytest.mark.parametrize("wrong", [True, 1.0, None, ("a",)])
def test_other_types_are_refused_by_type_alone(wrong: object) -> None:
    with pytest.raises(TypeError, match="a label takes"):
        encode_label("a", wrong)


def test_derived_keys_are_hkdf() -> None:
    assert derive_key(KEY, "noise") == hkdf_by_hand(KEY, encode_label("key", "noise"))
    assert (
        derive_key(KEY, "noise").hex() == "3134be135b0d3373b96901bf69e401beabafb950ef2fcb925926800faff5d2ea"
    )
    assert derive_key(KEY, "bounding") != derive_key(KEY, "noise")


def test_short_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        derive_key(KEY[:31], "noise")
    with pytest.raises(ValueError, match="31 bytes"):
        words(KEY[:31], b"count", cell_ids(KEY, LABELS))


def test_ids_are_keyed_blake2b() -> None:
    ids = cell_ids(KEY, LABELS)
    assert (ids.shape, ids.dtype) == ((4, 16), np.uint8)
    for row, label in zip(ids, LABELS, strict=True):
        expected = hashlib.blake2b(label, key=KEY, digest_size=16, person=b"dp_spark cell")
        assert row.tobytes() == expected.digest()
    assert ids[2].tobytes().hex() == "5c8cef7cae494747acd973c61bf960ee"


def test_repeated_labels_are_an_internal_error_that_quotes_none() -> None:
    with pytest.raises(RuntimeError, match="internal error") as raised:
        cell_ids(KEY, [b"secret", b"other", b"secret"])
    assert "secret" not in str(raised.value)


def test_words_have_known_values() -> None:
    drawn = words(KEY, b"count", cell_ids(KEY, LABELS))
    assert (drawn.shape, drawn.dtype) == ((4, 2), np.uint64)
    assert [row.tobytes().hex() for row in drawn.astype(">u8")] == [
        "6d88a03b7484f2abaad6b597407825f1",
        "804ef60ffb9043a93717296e9b6bc123",
        "30177f50ce37ec4abd2b454609278082",
        "6d9d3121165c14e5c4bd07d781b7dbcd",
    ]


def test_words_are_aes_256_of_the_ids() -> None:
    """The first block of a counter mode stream is the cipher of its nonce: another way to the same bytes."""
    subkey = hkdf_by_hand(KEY, encode_label("words", b"count"))
    ids = cell_ids(KEY, LABELS)
    for block, word in zip(ids, wide.to_ints(words(KEY, b"count", ids)), strict=True):
        stream = Cipher(algorithms.AES256(subkey), modes.CTR(block.tobytes())).encryptor().update(bytes(16))
        assert int.from_bytes(stream, "big") == word


def test_a_word_depends_on_its_own_id_key_and_label_only() -> None:
    ids = cell_ids(KEY, LABELS)
    drawn = words(KEY, b"count", ids)
    np.testing.assert_array_equal(words(KEY, b"count", ids[::-1]), drawn[::-1])
    np.testing.assert_array_equal(words(KEY, b"count", ids[2:3]), drawn[2:3])
    others = [words(KEY, b"sum", ids), words(bytes(32), b"count", ids)]
    assert len({word for rows in (drawn, *others) for word in wide.to_ints(rows)}) == 12


def test_no_cells_draw_no_words() -> None:
    assert words(KEY, b"count", cell_ids(KEY, [])).shape == (0, 2)


def test_fingerprint_sees_content_order_borders_and_key() -> None:
    chunks = [[b"ab", b"c"], [b"a", b"bc"], [b"c", b"ab"], [b"abc"], [b"abc", b""], []]
    prints = {fingerprint(KEY, iter(each)) for each in chunks} | {fingerprint(bytes(32), [b"abc"])}
    assert len(prints) == 7
    assert {len(each) for each in prints} == {32}
    assert (
        fingerprint(KEY, [b"abc"]).hex() == "5ed2f8c8c2b15df8bd54bb527c521c190a886095dc7b640a2d0738bd418c81d7"
    )
