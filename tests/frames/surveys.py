"""Plans of small surveys, and their reports by plain Python, keys and words by RFC 5869 and AES alone."""

import hashlib
import hmac
import unicodedata
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dp_spark.release.spec import SurveySpec
from dp_spark.release.survey import SurveyPlan, plan_survey

KEY = bytes(range(100, 132))


def survey_plan(**changed: object) -> SurveyPlan:
    """One column of three categories and the catch-all, in two groups."""
    spec = {
        "survey": "work",
        "unit": {"column": "person", "on_null": "drop"},
        "answer": "work",
        "domain": {"categories": {"school": False, "ill": True, "caf\u00e9": True}},
        "epsilon": "1",
        "group_by": ["state"],
        "groups": {"public": ["CA", "\u00cele"]},
        "budget": {"population": "people"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }
    given = {key: each for key, each in (spec | changed).items() if each is not None}
    return plan_survey(SurveySpec(**given))


def hkdf(key: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 of RFC 5869 without salt, one block."""
    extracted = hmac.digest(bytes(32), key, hashlib.sha256)
    return hmac.digest(extracted, info + b"\1", hashlib.sha256)


def label(*parts: str | int) -> bytes:
    """The parts as the stream of words labels them; integers are small."""
    told = b""
    for part in parts:
        content = part.encode() if isinstance(part, str) else bytes([part])
        told += (b"s" if isinstance(part, str) else b"i") + len(content).to_bytes(8, "big") + content
    return told


def sealed(key: bytes, parts: tuple[str | int, ...], block: bytes) -> bytes:
    """The block under AES-256, with a key for this label."""
    inner = label(*parts)
    own = hkdf(key, label("words") + b"b" + len(inner).to_bytes(8, "big") + inner)
    return Cipher(algorithms.AES256(own), modes.ECB()).encryptor().update(block)


def halves(block: bytes) -> bytes:
    """Each half of a block the other way round: words are little-endian where identities are chained."""
    return block[7::-1] + block[:7:-1]


def token(values: Sequence[str | int], wave_key: bytes = KEY) -> bytes:
    """The CBC-MAC of a unit."""
    key = hkdf(wave_key, label("key", "survey token"))
    state = b""
    for place, value in enumerate(values):
        own = _of_integer(value, key, place) if isinstance(value, int) else _of_text(value, key, place)
        if place:
            own = xor(own, halves(sealed(key, ("unit", "then", place), state)))
        state = own
    return state if len(values) == 1 else halves(sealed(key, ("unit", "last", 0), state))


def _of_integer(value: int, key: bytes, place: int) -> bytes:
    return halves(
        sealed(key, ("unit", "integer", place), value.to_bytes(8, "little", signed=True) + bytes(8))
    )


def _of_text(value: str, key: bytes, place: int) -> bytes:
    raw = unicodedata.normalize("NFC", value).encode() + b"\x80"
    raw += bytes(-len(raw) % 16)
    state = bytes(16)
    for start in range(0, len(raw), 16):
        block = xor(state, raw[start : start + 16])
        state = halves(sealed(key, ("unit", f"text {len(raw) // 16}", place), block))
    return state


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def report(plan: SurveyPlan, unit: Sequence[str | int], cell: Sequence[str | None]) -> int:
    """The report of a person with one answer."""
    key, n_words = hkdf(KEY, label("key", "survey words")), plan.mechanism.n_words
    drawn = b"".join(sealed(key, ("report", i), token(unit)) for i in range(-(-n_words // 2)))
    words = [int.from_bytes(drawn[start : start + 8], "big") for start in range(0, 8 * n_words, 8)]
    code = plan.domain.code_of(cell)
    reports = plan.mechanism.randomize(np.array([code]), np.array([words], dtype=np.uint64))
    return int(reports[0])
