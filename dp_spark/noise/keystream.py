"""Key and label to uniform words: the only source of randomness of a release.

A release has one key of 32 bytes. Labels say what a random number is for; under distinct labels the words
are independent, under equal labels they are the same bytes, on whatever machine and however often they
are asked for. The subkey that draws noise stays on the driver: nothing here is ever sent to executors.
"""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dp_spark.noise import wide

KEY_BYTES = 32
ID_BYTES = 16

_AT_ONCE = 2**17

_CELL_PERSON = b"dp_spark cell"
_PRINT_PERSON = b"dp_spark print"


def derive_key(key: bytes, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose: HKDF-SHA256, no salt.

    Raises:
        ValueError: the key has fewer than 32 bytes.
    """
    return _hkdf(key, encode_label("key", purpose))


def encode_label(*parts: str | int | bytes) -> bytes:
    """The parts as bytes; different sequences of typed parts never give the same bytes.

    A part is one byte for its type, eight for its length, and its content: UTF-8, or the shortest
    big-endian two's complement of an integer. Nothing is folded: "1", 1 and b"1" differ.

    Raises:
        TypeError: a part is neither str, int nor bytes (a bool is not an int here).
    """
    return b"".join(map(_encode_part, parts))


def cell_ids(key: bytes, labels: Sequence[bytes]) -> NDArray[np.uint8]:
    """One identifier of 16 bytes for each label, shape (n, 16): keyed BLAKE2b.

    Raises:
        RuntimeError: two labels are equal; their noise would be equal too. No label is quoted.
    """
    if len(set(labels)) != len(labels):
        raise RuntimeError("internal error: two cells of one draw have the same label, so nothing was drawn")
    start = hashlib.blake2b(key=key, digest_size=ID_BYTES, person=_CELL_PERSON)
    digests = bytearray()
    for label in labels:
        state = start.copy()
        state.update(label)
        digests += state.digest()
    return np.frombuffer(bytes(digests), dtype=np.uint8).reshape(-1, ID_BYTES)


def words(key: bytes, label: bytes, ids: NDArray[np.uint8] | wide.Wide) -> wide.Wide:
    """One uniform 128-bit word for each id of 16 bytes under this label, shape (n, 2), high and low.

    AES-256 on the ids as blocks. ECB hides nothing about equal blocks, but distinct ids stay distinct, and
    on n distinct inputs a block cipher is a random permutation whose outputs are independent uniform words
    up to n^2 / 2^129 (PRP/PRF switching): 2e-27 for a million cells.

    Raises:
        ValueError: the key has fewer than 32 bytes.
    """
    cipher = Cipher(algorithms.AES256(_hkdf(key, encode_label("words", label))), modes.ECB())  # noqa: S305
    encryptor = cipher.encryptor()
    blocks = np.ascontiguousarray(ids).reshape(-1).view(np.uint8)
    sealed = np.empty(len(blocks) + ID_BYTES, dtype=np.uint8)  # the cipher wants room for one block more
    for start in range(0, len(blocks), _AT_ONCE):  # what a cache holds goes three times as fast
        chunk = blocks[start : start + _AT_ONCE]
        encryptor.update_into(chunk.data, sealed[start : start + len(chunk) + ID_BYTES].data)
    return wide.from_bytes(sealed[: len(blocks)])


def fingerprint(key: bytes, chunks: Iterable[bytes]) -> bytes:
    """A keyed digest of 32 bytes of a sequence of chunks; where one chunk ends is part of it."""
    state = hashlib.blake2b(key=key, digest_size=32, person=_PRINT_PERSON)
    for chunk in chunks:
        state.update(len(chunk).to_bytes(8, "big"))
        state.update(chunk)
    return state.digest()


def _hkdf(key: bytes, info: bytes) -> bytes:
    if len(key) < KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes; at least {KEY_BYTES} are needed")
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)


def _encode_part(part: str | int | bytes) -> bytes:
    if isinstance(part, bool):
        raise TypeError("a label takes no bool; write 0 or 1")
    if isinstance(part, str):
        tag, content = b"s", part.encode("utf-8", errors="surrogatepass")
    elif isinstance(part, int):
        tag, content = b"i", part.to_bytes(part.bit_length() // 8 + 1, "big", signed=True)
    elif isinstance(part, bytes):
        tag, content = b"b", part
    else:
        raise TypeError(f"a label takes str, int and bytes, not {type(part).__name__}")
    return tag + len(content).to_bytes(8, "big") + content
