"""Public groups that a spec does not list itself, read from files or found elsewhere: checked, and in order.

A list is read once, before the release is charged, and becomes part of its stored plan. It is public: a
refusal may quote it.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dp_spark.errors import InputRefused
from dp_spark.release.group_keys import Keys
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.problems import Wrong, nearest, shown
from dp_spark.release.public_lists import require_public_path
from dp_spark.release.reading import read_text
from dp_spark.release.spec import MAX_GROUP_KEYS, Axis, ReleaseSpec, used_labels

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


def with_listed_files(plan: ReleasePlan, private: Iterable[str]) -> ReleasePlan:
    """The plan with the groups that its spec has in files; any other plan as it is.

    `private` are the sources that no list may be read from, by their names in the ledger.

    Raises:
        InputRefused: as `listed_in_files`.
    """
    return replace(plan, listed=listed_in_files(plan.spec, private)) if plan.spec.groups.files else plan


def listed_in_files(spec: ReleaseSpec, private: Iterable[str]) -> Keys:
    """The groups of a spec that has them in files, in code point order.

    Raises:
        InputRefused: a file is private or cannot be read, or lacks a column; or as `checked_keys`.
    """
    groups, known = spec.groups, tuple(private)
    for path in groups.files:
        require_public_path(path, known, told=_told(path))
    if groups.public_file is not None:
        path = groups.public_file
        return checked_keys(_batches(path, spec.group_by), spec, told=_told(path))
    axes = {
        axis.column: axis.values if isinstance(axis, Axis) else _axis_values(axis.file, axis.column, spec)
        for axis in groups.axes
    }
    size = math.prod(map(len, axes.values()))
    if size > MAX_GROUP_KEYS:
        raise _too_many("groups.public", f"makes {size:,} groups")
    return tuple(product(*(axes[column] for column in spec.group_by)))


def checked_keys(batches: Iterable[pa.RecordBatch], spec: ReleaseSpec, *, told: str) -> Keys:
    """The distinct rows as groups, in code point order: texts in NFC, of the rules of a list in the spec.

    An empty text is one; a NULL counts as `null_label`, if there is one.

    Args:
        batches: rows of texts, or of what has one text; a column for each of a key's.
        spec: whose groups they are to be.
        told: where the rows are from, in the words of the spec.

    Raises:
        InputRefused: the rows cannot be read; there are none, or too many distinct ones; or one cannot be a
            group: for a NULL, for its text, or because a label of the spec is the same text.
    """
    try:
        found = _distinct((_as_texts(batch, spec.groups.null_label) for batch in batches), told)
        columns = [column.to_pylist() for column in found.columns]
    except (OSError, pa.ArrowException, ValueError) as failure:
        raise InputRefused(
            "groups_not_readable",
            f"{told} cannot be read ({type(failure).__name__})",
            way_out="name one file of this machine (a relative path is seen from where the command runs): "
            "CSV in UTF-8 with a header line, or Parquet",
        ) from None
    for name, column in zip(found.column_names, columns, strict=True):
        _require_values(set(column), name, spec, told)
    return tuple(sorted(zip(*columns, strict=True)))


def _axis_values(path: str, column: str, spec: ReleaseSpec) -> tuple[str, ...]:
    return tuple(text for (text,) in checked_keys(_batches(path, [column]), spec, told=_told(path)))


def _told(path: str) -> str:
    return f"public_file {path!r}"


def _batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of these columns of a file, of whichever of the two formats it is."""
    file = Path(os.path.realpath(path.removeprefix("file:")))
    with file.open("rb") as stream:
        parquet = stream.read(len(_PARQUET)) == _PARQUET
    yield from _parquet(file, columns, _told(path)) if parquet else _csv(file, columns, _told(path))


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


def _parquet(file: Path, columns: Sequence[str], told: str) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file) as parquet:
        _require_columns(parquet.schema_arrow, columns, told)
        for name in columns:
            kind = parquet.schema_arrow.field(name).type
            value = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
            if not any(holds(value) for holds in _TEXTUAL):
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
                way_out="give the file a header line that has each column of group_by once",
            )


def _as_texts(batch: pa.RecordBatch, null_label: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [_normal(column, null_label) for column in batch.columns], names=batch.schema.names
    )


def _normal(column: "pa.Array[Any]", null_label: str | None) -> "pa.Array[Any]":
    texts: Any = column.cast(pa.string())
    texts.validate(full=True)  # normalising takes bytes that are no UTF-8 for granted
    normal: Any = pc.call_function("utf8_normalize", [texts], pc.Utf8NormalizeOptions("NFC"))
    filled: pa.Array[Any] = normal if null_label is None else normal.fill_null(null_label)
    return filled


def _distinct(batches: Iterable[pa.RecordBatch], told: str) -> pa.Table:
    """The distinct rows of all batches; not much more than MAX_GROUP_KEYS of them are held at a time."""
    found: list[pa.RecordBatch] = []
    rows, distinct = 0, 0
    for batch in batches:
        found.append(batch)
        rows += batch.num_rows
        if rows - distinct > MAX_GROUP_KEYS:
            found = _merged(found, told).to_batches()
            rows = distinct = sum(each.num_rows for each in found)
    return _merged(found, told)


def _merged(batches: Sequence[pa.RecordBatch], told: str) -> pa.Table:
    rows = pa.Table.from_batches(batches) if batches else None
    if rows is None or not rows.num_rows:
        why = f"{told} has no rows: there would be no groups"
        raise InputRefused("groups_empty", why, way_out="name a list that has some")
    merged = rows.group_by(rows.column_names, use_threads=False).aggregate([])
    if merged.num_rows > MAX_GROUP_KEYS:
        raise _too_many(told, "has more distinct keys than that")
    return merged


def _too_many(told: str, why: str) -> InputRefused:
    return InputRefused(
        "groups_too_many",
        f"{told} {why} (allowed: at most {MAX_GROUP_KEYS:,})",
        way_out="list those that matter, or group by fewer columns",
    )


def _require_values(values: set[str | None], column: str, spec: ReleaseSpec, told: str) -> None:
    """Refuse what a list in the spec could not have as a value of a group, but for the empty text."""
    if None in values:
        raise InputRefused(
            "groups_null",
            f"{told} has a NULL in column {column!r}, which belongs to no group",
            way_out="remove such rows, or write groups.null_label, the text that a NULL counts as",
        )
    for text in values - {"", None}:
        try:
            read_text(text)
        except Wrong as failure:
            (problem,) = failure.problems
            why = f"{told}: column {column!r}: {problem.told()}"
            raise InputRefused("groups_text", why, way_out=f"{problem.way_out}, or remove the row") from None
    for key, label in used_labels(spec.groups, rolled=spec.rollup is not None).items():
        if label in values:
            raise InputRefused(
                "groups_label",
                f"{told} has the value {shown(label)} in column {column!r}, which is groups.{key} too: the "
                "two could not be told apart",
                way_out=f"write another text as groups.{key}",
            )
