"""The one form in which texts are compared: Unicode NFC, by bytes; nothing else is folded.

`é` and `e` with a combining accent are one text; case, trailing spaces, '' and 'NULL' are told apart. Bytes
that are no UTF-8 stay as they are.
"""

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
    """The column in NFC, each text by itself; at almost no cost where it is ASCII."""
    _, body = layout(column)
    if body.max(initial=0) <= _LAST_ASCII:
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # a text that is no UTF-8 is among them
        raw = column.cast(pa.binary())
        broken = pa.array([text is not None and not _is_utf8(text) for text in raw.to_pylist()])
        rest = _composed(pc.if_else(broken, b"", raw).cast(pa.string()))
        mended: Any = pc.if_else(broken, raw, rest.cast(pa.binary()))
        return mended.cast(pa.string(), safe=False)  # type: ignore[no-any-return]
    return _composed(column)


def _composed(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """One implementation for all texts: another may know newer marks, and order them otherwise."""
    normal: pa.Array[Any] = pc.call_function("utf8_normalize", [column], pc.Utf8NormalizeOptions("NFC"))
    return normal


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
