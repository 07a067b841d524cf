"""Public lists in files, as an operator writes them: CSV or Parquet, read as texts."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dp_spark.errors import InputRefused
from dp_spark.release.problems import nearest

UNREADABLE = (OSError, pa.ArrowException, ValueError)
_PARQUET = b"PAR1"
# Types that Spark writes as one text, whatever its version; numbers with a point have several.
_TEXTUAL = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_boolean,
    pa.types.is_null,
)
_NUMERIC = (pa.types.is_floating, pa.types.is_decimal)


def told_file(path: str) -> str:
    """A file of public groups, in the words of the spec."""
    return f"public_file {path!r}"


def not_readable(told: str, failure: Exception) -> InputRefused:
    """The refusal of a file that cannot be read."""
    return InputRefused(
        "groups_not_readable",
        f"{told} cannot be read ({type(failure).__name__})",
        way_out="name one file of this machine (a relative path is seen from where the command runs): "
        "CSV in UTF-8 with a header line, or Parquet",
    )


def file_rows(
    path: str, columns: Sequence[str], *, told: str, numbers: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of these columns of a file, CSV or Parquet; texts, or what has one text.

    Args:
        path: of one file of this machine.
        columns: in the order in which they are wanted.
        told: what the file is, in the words of the spec.
        numbers: columns that may hold numbers with a point.

    Raises:
        InputRefused: a column is missing, there twice, or of a type that has no one text.
        OSError, pyarrow.ArrowException, ValueError: the file cannot be read; `not_readable` tells it.
    """
    file = Path(os.path.realpath(path.removeprefix("file:")))
    with file.open("rb") as stream:
        parquet = stream.read(len(_PARQUET)) == _PARQUET
    yield from _parquet(file, columns, told, numbers) if parquet else _csv(file, columns, told)


def file_texts(
    path: str, columns: Sequence[str], *, most: int, told: str, numbers: Sequence[str] = ()
) -> list[tuple[str | None, ...]]:
    """The rows of these columns of a file as texts in NFC, None for a NULL; no more than `most` of them.

    Raises:
        InputRefused: the file cannot be read, has more rows or none, or as `file_rows`.
    """
    found: list[tuple[str | None, ...]] = []
    try:
        for batch in file_rows(path, columns, told=told, numbers=numbers):
            found += zip(*(normal_texts(column).to_pylist() for column in batch.columns), strict=True)
            if len(found) > most:
                raise InputRefused(
                    "list_too_long",
                    f"{told} has more than {most:,} rows",
                    way_out="list those that matter, each once",
                )
    except UNREADABLE as failure:
        raise not_readable(told, failure) from None
    if not found:
        raise InputRefused("list_empty", f"{told} has no rows", way_out="name a list that has some")
    return found


def normal_texts(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """A column as texts in NFC.

    Raises:
        pyarrow.ArrowInvalid: it holds bytes that are no UTF-8.
    """
    texts: Any = column.cast(pa.string())
    texts.validate(full=True)  # normalising takes bytes that are no UTF-8 for granted
    normal: pa.Array[Any] = pc.call_function("utf8_normalize", [texts], pc.Utf8NormalizeOptions("NFC"))
    return normal


def _csv(file: Path, columns: Sequence[str], told: str) -> Iterator[pa.RecordBatch]:
    """Every column as text: nothing is guessed, and an empty field is an empty text."""
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pyarrow.csv.open_csv(file, parse_options=parse) as reader:
        _require_columns(reader.schema, columns, told)
    texts = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=list(columns),
        strings_can_be_null=False,
    )
    with pyarrow.csv.open_csv(file, parse_options=parse, convert_options=texts) as reader:
        yield from reader


def _parquet(
    file: Path, columns: Sequence[str], told: str, numbers: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file) as parquet:
        _require_columns(parquet.schema_arrow, columns, told)
        for name in columns:
            kind = parquet.schema_arrow.field(name).type
            value = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
            allowed = (*_TEXTUAL, *_NUMERIC) if name in numbers else _TEXTUAL
            if not any(holds(value) for holds in allowed):
                raise InputRefused(
                    "groups_columns",
                    f"{told}: column {name!r} is {kind} (allowed: text, whole number, date, boolean)",
                    way_out="write it as text, as the rows have it",
                )
        for batch in parquet.iter_batches(columns=list(columns)):
            yield batch.select(list(columns))


def _require_columns(schema: pa.Schema, columns: Sequence[str], told: str) -> None:
    for name in columns:
        number = len(schema.get_all_field_indices(name))
        if number != 1:
            guess = nearest(name, schema.names)
            hint = f"; did you mean {guess!r}?" if guess and not number else ""
            raise InputRefused(
                "groups_columns",
                f"{told} has {number or 'no'} column{'s' if number else ''} {name!r}{hint}",
                way_out="give the file a header line that has each column once",
            )
