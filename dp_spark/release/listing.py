"""Public groups that a spec does not list itself, read from files or found elsewhere: checked, and in order.

A list is read once, before the release is charged, and becomes part of its stored plan. It is public: a
refusal may quote it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa

from dp_spark.errors import InputRefused
from dp_spark.release.group_keys import Keys
from dp_spark.release.list_files import UNREADABLE, file_rows, normal_texts, not_readable, told_file
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.problems import Wrong, shown
from dp_spark.release.public_lists import require_public_path
from dp_spark.release.reading import read_text
from dp_spark.release.spec import MAX_GROUP_KEYS, Axis, GroupsSpec, ReleaseSpec, used_labels


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
    return keys_in_files(spec.groups, spec.group_by, private, rolled=spec.rollup is not None)


def keys_in_files(
    groups: GroupsSpec, columns: Sequence[str], private: Iterable[str], *, rolled: bool
) -> Keys:
    """The groups that files have, in code point order; `rolled` says whether there are totals beside them.

    Raises:
        InputRefused: as `listed_in_files`.
    """
    known = tuple(private)
    for path in groups.files:
        require_public_path(path, known, told=told_file(path))

    def keys(path: str, of: Sequence[str]) -> Keys:
        told = told_file(path)
        return checked_keys(file_rows(path, of, told=told), groups, rolled=rolled, told=told)

    if groups.public_file is not None:
        return keys(groups.public_file, columns)
    axes = {
        axis.column: axis.values
        if isinstance(axis, Axis)
        else tuple(text for (text,) in keys(axis.file, [axis.column]))
        for axis in groups.axes
    }
    size = math.prod(map(len, axes.values()))
    if size > MAX_GROUP_KEYS:
        raise _too_many("groups.public", f"makes {size:,} groups")
    return tuple(product(*(axes[column] for column in columns)))


def checked_keys(batches: Iterable[pa.RecordBatch], groups: GroupsSpec, *, rolled: bool, told: str) -> Keys:
    """The distinct rows as groups, in code point order: texts in NFC, of the rules of a list in the spec.

    An empty text is one; a NULL counts as `null_label`, if there is one.

    Args:
        batches: rows of texts, or of what has one text; a column for each of a key's.
        groups: whose keys they are to be.
        rolled: whether there are totals beside them.
        told: where the rows are from, in the words of the spec.

    Raises:
        InputRefused: the rows cannot be read; there are none, or too many distinct ones; or one cannot be a
            group: for a NULL, for its text, or because a label of the spec is the same text.
    """
    try:
        found = _distinct((_as_texts(batch, groups.null_label) for batch in batches), told)
        columns = [column.to_pylist() for column in found.columns]
    except UNREADABLE as failure:
        raise not_readable(told, failure) from None
    for name, column in zip(found.column_names, columns, strict=True):
        _require_values(set(column), name, told, used_labels(groups, rolled=rolled))
    return tuple(sorted(zip(*columns, strict=True)))


def _as_texts(batch: pa.RecordBatch, null_label: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [_normal(column, null_label) for column in batch.columns], names=batch.schema.names
    )


def _normal(column: "pa.Array[Any]", null_label: str | None) -> "pa.Array[Any]":
    normal: Any = normal_texts(column)
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


def _require_values(values: set[str | None], column: str, told: str, labels: Mapping[str, str]) -> None:
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
    for key, label in labels.items():
        if label in values:
            raise InputRefused(
                "groups_label",
                f"{told} has the value {shown(label)} in column {column!r}, which is groups.{key} too: the "
                "two could not be told apart",
                way_out=f"write another text as groups.{key}",
            )
