"""The groups of a release as keys: the one form in which they are stored, and the digest that names them."""

import hashlib
import json

Keys = tuple[tuple[str, ...], ...]


def keys_bytes(keys: Keys) -> bytes:
    """The keys as JSON in UTF-8, in their order."""
    return json.dumps(keys, ensure_ascii=False, separators=(",", ":")).encode()


def keys_digest(keys: Keys) -> str:
    """SHA-256 of `keys_bytes`, in hexadecimal: equal for equal groups, wherever they were read."""
    return hashlib.sha256(keys_bytes(keys)).hexdigest()
