"""Keys of releases and waves under the master key, and where the master key is kept."""

import os
import re
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dp_spark.errors import SetupRefused
from dp_spark.release.secret import read_secret, refused_secret

KEY_BYTES = 32
_WHAT = "master key"
_NONCE_BYTES = 12
WRAPPED_BYTES = _NONCE_BYTES + KEY_BYTES + 16
_HEX = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")
_WRAPPING = b"dp_spark ledger: wrap release keys, version 1"
_CHAINING = b"dp_spark ledger: vouch for rows, version 1"
_DIGESTING = b"dp_spark ledger: digest batches of reports, version 1, wave "
_CHECKING = b"dp_spark ledger: recognise the master key, version 1"


def wrap_key(master_key: bytes, release_key: bytes, owner: str) -> bytes:
    """`release_key` encrypted with AES-256-GCM, bound to `owner`; `WRAPPED_BYTES` long.

    `owner` is the text of a `ReleaseId`, or what `wave_owner` makes of a wave.
    """
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(_derive(master_key, _WRAPPING)).encrypt(nonce, release_key, owner.encode())


def unwrap_key(master_key: bytes, wrapped: bytes, owner: str) -> bytes:
    """The key that `wrap_key` wrapped for `owner`.

    Raises:
        SetupRefused: the master key is another one, or the bytes were altered or belong to another owner.
    """
    nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
    try:
        return AESGCM(_derive(master_key, _WRAPPING)).decrypt(nonce, sealed, owner.encode())
    except InvalidTag:
        raise SetupRefused(
            "key_unreadable",
            f"the key of {owner} does not open with this master key",
            way_out="name the master key that this ledger was used with; if it is that, a row was altered",
        ) from None


def wave_owner(wave: str) -> str:
    """The owner of a wave's key: no id of a release, which has no blanks."""
    return f"survey wave {wave}"


def report_key(master_key: bytes, wave: str) -> bytes:
    """The key under which the batches of one wave have digests; there for good, unlike the wave's own."""
    return _derive(master_key, _DIGESTING + wave.encode())


def master_key_check(master_key: bytes) -> bytes:
    """16 bytes by which a ledger recognises its master key and from which nobody can compute it."""
    return _derive(master_key, _CHECKING)[:16]


def chain_key(master_key: bytes) -> bytes:
    """The key under which the ledger's chain is authenticated."""
    return _derive(master_key, _CHAINING)


def require_master_key(master_key: bytes) -> bytes:
    """`master_key` itself, if it is 32 bytes long.

    Raises:
        SetupRefused: it has another length.
    """
    if len(master_key) != KEY_BYTES:
        raise SetupRefused(
            "bad_master_key",
            f"the master key has {len(master_key)} bytes and must have {KEY_BYTES}",
            way_out="load it from the reference that the profile names",
        )
    return master_key


def create_master_key_file(path: Path) -> None:
    """Write a new master key as 64 hex digits to a new file of mode 600.

    Raises:
        SetupRefused: the path exists, or cannot be written.
    """
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise SetupRefused(
            "master_key_file",
            f"no new master key file can be made at {str(path)!r}: {error.strerror}",
            way_out="name a new file in a directory that exists; a master key is never replaced",
        ) from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(os.urandom(KEY_BYTES).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())


def load_master_key(reference: str) -> bytes:
    """The 32 bytes that a reference leads to as 64 hex digits.

    Raises:
        SetupRefused: the reference is of no known form, leads nowhere or to something else, or the file can
            be read by others than its owner. The text never quotes what was found.
    """
    if _HEX.search(reference):  # a key that was pasted here must not be quoted
        reference = ""
    text = read_secret(_WHAT, reference)
    if _HEX.fullmatch(text) is None:
        message = f"what {reference.partition(':')[0]}: leads to does not hold {2 * KEY_BYTES} hex digits"
        raise refused_secret(_WHAT, message, "restore the master key from its backup")
    return bytes.fromhex(text)


def _derive(master_key: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(master_key)
