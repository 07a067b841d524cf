"""The artefact of a release: the Arrow schema of its table, the digest of its rows, its staged file."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.publish.durable import make_directories, sync_directory, write_new_parquet
from dp_spark.release.plan import DECIMAL_PRECISION, ColumnType, OutputColumn

_DIGEST_FORMAT = b"dp_spark artefact 1"
_ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.DATE: pa.date32(),
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
}


def arrow_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """The Arrow schema of a released table: no column nullable, comments in the fields' metadata."""
    return pa.schema(
        pa.field(
            column.name, _arrow_type(column), nullable=False, metadata={b"comment": column.comment.encode()}
        )
        for column in columns
    )


def _arrow_type(column: OutputColumn) -> pa.DataType:
    if column.type is ColumnType.DECIMAL:
        return pa.decimal128(DECIMAL_PRECISION, column.decimals)
    return _ARROW_TYPES[column.type]


def artefact_digest(table: pa.Table) -> str:
    """Hex SHA-256 of the canonical typed rows of `table`; names, types and the order of rows count.

    Chunks, slices, dictionaries, width of string offsets, metadata and nullable flags do not count;
    -0.0 counts as 0.0. The encoding is injective: the format, the numbers of columns and rows, then each
    column's name, type and values; texts are led by their length, numbers are little-endian and of their
    type's width, and a column of strings is all lengths, then all UTF-8 bytes.

    Raises:
        PublishRefused: a cell is NULL, or a column is of a type that no released table has.
    """
    digest = hashlib.sha256()
    for part in _canonical_parts(table):
        digest.update(part)
    return digest.hexdigest()


def _canonical_parts(table: pa.Table) -> Iterator[bytes | memoryview]:
    yield from _with_length(_DIGEST_FORMAT)
    yield _length(table.num_columns)
    yield _length(table.num_rows)
    for name, column in zip(table.column_names, table.columns, strict=True):
        plain = _plain(column)
        if plain.null_count:
            raise _not_an_artefact(name, "holds a NULL")
        yield from _with_length(name.encode())
        yield from _with_length(_type_name(name, plain.type).encode())
        if pa.types.is_large_string(plain.type):
            yield from map(_fixed_width, pc.binary_length(plain).chunks)
            yield from map(_characters, plain.chunks)
        else:
            yield from map(_fixed_width, plain.chunks)


def _plain(column: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """`column` without dictionary, with 64-bit string offsets and no -0.0."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return pc.add(column, 0.0) if pa.types.is_float64(column.type) else column


def _type_name(name: str, plain: pa.DataType) -> str:
    if pa.types.is_large_string(plain):
        return ColumnType.STRING
    if pa.types.is_decimal128(plain):
        return f"{ColumnType.DECIMAL}({plain.precision}, {plain.scale})"
    for sql_type, arrow_type in _ARROW_TYPES.items():
        if arrow_type == plain:
            return sql_type
    raise _not_an_artefact(name, f"is of type {plain}, which no released table has")


def _fixed_width(values: "pa.Array[Any]") -> bytes | memoryview:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    width = values.type.bit_width // 8
    buffer = values.buffers()[1]
    return memoryview(buffer)[values.offset * width :][: len(values) * width] if buffer else b""


def _characters(texts: "pa.Array[Any]") -> bytes | memoryview:
    _, offsets, characters = texts.buffers()
    if offsets is None or characters is None:
        return b""
    bounds = np.frombuffer(memoryview(offsets), np.int64)
    return memoryview(characters)[bounds[texts.offset] : bounds[texts.offset + len(texts)]]


def _length(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _with_length(text: bytes) -> tuple[bytes, bytes]:
    return _length(len(text)), text


def _not_an_artefact(column: str, fault: str) -> PublishRefused:
    return PublishRefused(
        "not_an_artefact",
        f"column {column} {fault}",
        way_out="this is a fault of dp_spark, not of the data: keep the release id and report it",
    )


def write_artefact(table: pa.Table, path: Path) -> None:
    """Stage `table` at `path`, whole or not at all; new directories are 700, the file is 600.

    Raises:
        SetupRefused: the restricted zone cannot be written.
    """
    attempt = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        make_directories(path.parent, 0o700)
        try:
            write_new_parquet(table, attempt, 0o600)
            os.replace(attempt, path)
        finally:
            attempt.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise SetupRefused(
            "artefact_unwritable",
            f"cannot stage at {path}: {error.strerror or type(error).__name__}",
            way_out="give the restricted zone space and this user write access, then run it again",
        ) from None


def delete_artefact(path: Path) -> None:
    """Remove a staged artefact; one that is not there is removed already.

    Raises:
        SetupRefused: it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SetupRefused(
            "artefact_not_deleted",
            f"{path} in the restricted zone cannot be removed: {error.strerror or type(error).__name__}",
            way_out="give this user write access there, then run it again",
        ) from None


def read_artefact(path: Path, digest: str) -> pa.Table:
    """The table staged at `path`.

    Raises:
        PublishRefused: nothing is there, or its rows do not have `digest`.
    """
    try:
        table = pq.ParquetFile(path).read()
        intact = artefact_digest(table) == digest
    except FileNotFoundError:
        raise _lost(path, "artefact_missing", "is missing") from None
    except (OSError, pa.ArrowException, PublishRefused, ValueError):
        intact = False
    if not intact:
        raise _lost(path, "artefact_damaged", "does not have the digest that the ledger recorded")
    return table


def _lost(path: Path, code: str, fault: str) -> PublishRefused:
    return PublishRefused(
        code,
        f"the staged artefact {path} {fault}",
        way_out="restore the file from a backup of the restricted zone; "
        "without one it is lost, and a revision, or another wave, costs a new charge",
    )
