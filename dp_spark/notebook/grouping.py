"""The words about groups: functions that `Release` has as its methods."""

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from dp_spark.notebook.words import Begun, Listed, R
from dp_spark.release.spec import AsOf

Public: TypeAlias = Listed | Mapping[str, Any]


def grouped_by(release: R, *columns: str, public: Public | None = None) -> R:
    """Answer for every group; for every public one, whether it has rows or not.

    Args:
        release: what is said so far.
        columns: what makes a group; compared and released as text.
        public: its values, as texts; of several columns a list of lists, or `{column: [values], ...}`
            for all combinations, where `{column: {"file": path}}` takes the values of a file's column.
            Without it, `groups_in_file`, `groups_in_table` or `groups_selected` say which groups.
    """
    grouped = release._with("group_by", list(columns))
    return grouped if public is None else _from_source(grouped, "public", public)


def groups_in_file(release: R, path: str | os.PathLike[str]) -> R:
    """Take the groups from a public file: CSV with a header line, or Parquet; read before the charge."""
    return _from_source(release, "public_file", path)


def groups_in_table(
    release: R, table: str, *, valid_from: str | None = None, valid_to: str | None = None
) -> R:
    """Take the groups from a public table or view of the Spark catalog; read before the charge.

    Args:
        release: what is said so far.
        table: its name.
        valid_from: column of the first day that a row is valid; only rows that are valid at the end of
            the period count then.
        valid_to: column of the first day that it is valid no more; NULL has no end.
    """
    written = {"table": table, "valid_from": valid_from, "valid_to": valid_to}
    as_of = {} if valid_from is None else {"as_of": AsOf.PERIOD_END}
    given = {key: each for key, each in written.items() if each is not None}
    return _from_source(release, "public_table", given | as_of)


def groups_selected(release: R, by: str = "optimal", *, min_units: int = 1, other: bool = False) -> R:
    """Have the release select its groups, at a price: those that enough units have.

    Args:
        release: what is said so far.
        by: `optimal` (the most groups that the guarantee allows), or `threshold` on the noisy `ids`.
        min_units: fewer units than this are never enough.
        other: release the rows of all other groups together, as one.
    """
    return _from_source(release, "private", {"select": by, "min_units": min_units, "other": other})


def rolled_up(release: R, *groupings: Listed) -> R:
    """Answer every question for coarser groups, too; each grouping pays for noise of its own.

    Args:
        release: what is said so far.
        groupings: each a list of the columns of `grouped_by` that it keeps; `[]` is the total of all groups.
    """
    return release._with("rollup", list(groupings))


def labelled(release: R, *, null: str | None = None, total: str | None = None, other: str | None = None) -> R:
    """Name, after the groups are said, what has no value of its own in a group column.

    Args:
        release: what is said so far.
        null: a NULL counts as this text, and is one group with it; else its row is of no public group.
        total: shown in columns that are rolled up; else `(all)`.
        other: shown for the rows of groups that are not selected; else `(other)`.
    """
    written = {"null_label": null, "total_label": total, "other_label": other}
    labels = {key: each for key, each in written.items() if each is not None}
    return release._with("groups", {**_groups(release), **labels})


def _groups(release: Begun) -> Mapping[str, object]:
    """What is said of groups so far."""
    said: Mapping[str, object] = release.parts["groups"].written() if "groups" in release.parts else {}
    return said


def _from_source(release: R, source: str, written: object) -> R:
    """Groups from this source instead of another; labels stay."""
    labels = {key: each for key, each in _groups(release).items() if key.endswith("_label")}
    return release._with("groups", {**labels, source: written})
