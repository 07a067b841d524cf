"""The groups of a release as keys: the one form in which they are stored, and the digest that names them."""

import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping

Keys = tuple[tuple[str, ...], ...]


def keys_bytes(keys: Keys) -> bytes:
    """The keys as JSON in UTF-8, in their order."""
    return json.dumps(keys, ensure_ascii=False, separators=(",", ":")).encode()


def keys_digest(keys: Keys) -> str:
    """SHA-256 of `keys_bytes`, in hexadecimal: equal for equal groups, wherever they were read."""
    return hashlib.sha256(keys_bytes(keys)).hexdigest()


def packed_keys(keys: Keys) -> dict[str, str]:
    """The keys as they stand in a stored plan: compressed, beside their digest."""
    return {"sha256": keys_digest(keys), "keys": b64encode(zlib.compress(keys_bytes(keys))).decode()}


def unpacked_keys(stored: Mapping[str, str]) -> Keys:
    """The keys that `packed_keys` packed.

    Raises:
        ValueError: they are damaged.
    """
    keys = tuple(map(tuple, json.loads(zlib.decompress(b64decode(stored["keys"])))))
    if keys_digest(keys) != stored["sha256"]:
        raise ValueError("the groups of the stored plan are damaged")
    return keys
