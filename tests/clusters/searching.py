"""Looks for a secret in whatever form a program may write it."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dp_spark.noise import derive_key

PIECE = 8  # bytes; logs cut long values short, and a random piece of this length occurs nowhere by chance
PURPOSES = ("bounding", "noise", "fingerprint")


def secrets_of(release_key: bytes) -> dict[str, bytes]:
    """The release key and the keys that are derived from it."""
    return {"release": release_key, **{purpose: derive_key(release_key, purpose) for purpose in PURPOSES}}


def forms(secret: bytes) -> dict[str, bytes]:
    """Each piece of the secret as it may stand in a file."""
    pieces = range(0, len(secret) - PIECE + 1, PIECE)
    return {
        f"{form} at {start}": text
        for start in pieces
        for form, text in _forms_of_piece(secret[start : start + PIECE])
    }


def _forms_of_piece(piece: bytes) -> Iterator[tuple[str, bytes]]:
    signed = [byte - 256 if byte > 127 else byte for byte in piece]
    yield "raw", piece
    for upper in (False, True):
        digits = piece.hex(" ").upper() if upper else piece.hex(" ")
        yield f"hex, upper={upper}", digits.replace(" ", "").encode()
        for between in (" ", ":", ", "):
            yield f"hex, upper={upper}, {between!r}", digits.replace(" ", between).encode()
        yield f"escaped hex, upper={upper}", ("\\x" + digits.replace(" ", "\\x")).encode()
    yield "Python's repr", repr(piece)[2:-1].encode()
    yield "Python's repr, twice", repr(repr(piece)[2:-1])[1:-1].encode()
    yield "octal", "".join(f"\\{byte:03o}" for byte in piece).encode()
    yield "protobuf text", b"".join(b"%c" % b if 32 <= b < 127 else f"\\{b:03o}".encode() for b in piece)
    yield "JSON of Latin-1", "".join(f"\\u{b:04x}" if b < 32 or b > 126 else chr(b) for b in piece).encode()
    yield "UTF-8 of Latin-1", piece.decode("latin-1").encode()
    for between in (",", ", "):
        yield f"numbers {between!r}", between.join(map(str, piece)).encode()
        yield f"Java's bytes {between!r}", between.join(map(str, signed)).encode()
    for lead in range(3):  # where in a group of three the piece begins
        encoded = base64.b64encode(bytes(lead) + piece)
        inner = encoded[(lead * 8 + 5) // 6 : (lead + PIECE) * 8 // 6]
        yield f"base64, {lead}", inner
        if set(inner) & set(b"+/"):
            yield f"base64 of URLs, {lead}", inner.translate(bytes.maketrans(b"+/", b"-_"))


def found_in(content: bytes, secrets: Mapping[str, bytes]) -> set[str]:
    """Which secrets occur, and how they are written."""
    return {
        f"{name}: {form}" for name, secret in secrets.items() for form, text in forms(secret).items()
        if text in content
    }  # fmt: skip


def found_in_files(files: Iterable[Path], secrets: Mapping[str, bytes]) -> dict[str, set[str]]:
    """The files that hold a secret, and what they hold."""
    found = {str(file): found_in(file.read_bytes(), secrets) for file in files}
    return {file: what for file, what in found.items() if what}


def files_below(*directories: Path) -> list[Path]:
    """All files in the directories, but not behind links."""
    return [
        path for each in directories for path in each.rglob("*") if path.is_file() and not path.is_symlink()
    ]
