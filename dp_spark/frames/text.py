"""The one form in which texts are compared: Unicode NFC, by bytes; nothing else is folded.

`é` and `e` with a combining accent are one text; case, trailing spaces, '' and 'NULL' are told apart. Bytes
that are no UTF-8 stay as they are.
"""

import unicodedata
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_LAST_ASCII = 127


def layout(column: "pa.Array[Any]") -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Where the texts, or bytes, of an Arrow column begin and end, shape (rows + 1,), and all their bytes."""
    _, ends, data = column.buffers()
    if ends is None or data is None:
        return np.zeros(len(column) + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    limits = np.frombuffer(memoryview(ends), dtype=np.int32)
    limits = limits[column.offset : column.offset + len(column) + 1]
    body = np.frombuffer(memoryview(data), dtype=np.uint8)[limits[0] : limits[-1]]
    return limits - limits[0], body


def normal_texts(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """The column in NFC; at almost no cost where it is ASCII."""
    _, body = layout(column)
    if body.max(initial=0) <= _LAST_ASCII:
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # a text that is no UTF-8 is among them
        raw = column.cast(pa.binary()).to_pylist()
        return pa.array(map(_normal, raw), pa.binary()).cast(pa.string(), safe=False)
    normal: pa.Array[Any] = pc.call_function("utf8_normalize", [column], pc.Utf8NormalizeOptions("NFC"))
    return normal


def _normal(raw: bytes | None) -> bytes | None:
    if raw is None:
        return None
    try:
        return unicodedata.normalize("NFC", raw.decode()).encode()
    except UnicodeDecodeError:
        return raw
