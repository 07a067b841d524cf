"""Columns of a published table over its life: what a later release may add, and what it may not change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dp_spark.errors import PublishRefused
from dp_spark.release.spec import LONG_COLUMNS, RELEASE_COLUMN


@dataclass(frozen=True, slots=True)
class Change:
    """How the columns of an edition differ from those of the table that takes it.

    Attributes:
        added: fields that the table lacks; it gets them as nullable, as older rows have no value.
        missing: names that the edition lacks; its rows are NULL there.
    """

    added: Sequence["pa.Field[Any]"]
    missing: Sequence[str]


def is_long(schema: pa.Schema) -> bool:
    """Whether these are columns of the long shape, a row for each metric."""
    return set(LONG_COLUMNS) <= set(schema.names)


def change_of(standing: pa.Schema, edition: pa.Schema, *, at: str) -> Change:
    """What has to change before a table takes an edition; order, comments and nullability do not count.

    Args:
        standing: of the table, in the types of Arrow that the edition would have there.
        edition: of the edition.
        at: the table, as a refusal names it.

    Raises:
        PublishRefused: a column has another type, or its name differs in case only, or a release of the other
            shape stands there.
    """
    is_release = RELEASE_COLUMN in standing.names and RELEASE_COLUMN in edition.names
    if is_release and is_long(standing) != is_long(edition):
        raise PublishRefused(
            "another_shape",
            f"{at} has releases in the {'long' if is_long(standing) else 'wide'} shape",
            way_out="publish each shape to a path or table of its own",
        )
    known = {field.name: field for field in standing}
    folded = {name.casefold(): name for name in known}
    for field in edition:
        name = folded.get(field.name.casefold())
        if name is not None and (name != field.name or known[name].type != field.type):
            raise PublishRefused(
                "column_retyped",
                f"{at} has a column {name} of type {known[name].type}, and the release has {field.name} of "
                f"type {field.type}",
                way_out="name the changed query anew, or publish to another table: readers of this one rely "
                "on its types",
            )
    return Change(
        added=[field.with_nullable(True) for field in edition if field.name not in known],
        missing=[name for name in known if name not in edition.names],
    )


def in_columns(table: pa.Table, standing: pa.Schema, change: Change) -> pa.Table:
    """The rows of an edition in the order of the columns that a table has, then those that it gets.

    Columns that the edition lacks are NULL; only columns that the table gets keep their comments.
    """
    fields = [field.remove_metadata() for field in standing]
    arrays = [
        pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        if field.name in change.missing
        else table[field.name]
        for field in fields
    ]
    nullable = [field.with_nullable(True) if field.name in change.missing else field for field in fields]
    return pa.Table.from_arrays(
        [*arrays, *(table[field.name] for field in change.added)],
        schema=pa.schema([*nullable, *change.added]),
    )
