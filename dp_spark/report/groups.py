"""What is said of the groups of a release: where they are from, and which they are once that is known."""

import math
from dataclasses import dataclass

from dp_spark.release.group_keys import Keys, keys_digest
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.spec import Axis, GroupsSpec, PublicTable

_SHOWN_GROUPS = 5


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The groups that are released: how many, and how they are known.

    Attributes:
        columns: the columns that form them.
        selected: whether the release selects them; they are public else.
        count: how many there are; None before a run has read or selected them.
        source: where they are from, in words.
        digest: SHA-256 of the keys, where a list of them was read; else None.
        first: the first few, in the order of the table.
    """

    columns: tuple[str, ...]
    selected: bool
    count: int | None
    source: str
    digest: str | None
    first: tuple[tuple[str, ...], ...]


def group_facts(plan: ReleasePlan) -> GroupFacts:
    """The groups of a plan, read or not."""
    groups, columns = plan.spec.groups, tuple(plan.spec.group_by)
    selected = groups.private is not None
    if not groups.in_spec and plan.listed is None:
        return GroupFacts(columns, selected, None, _unread(groups), None, ())
    keys = plan.keys
    source = _source(groups) + _combinations(columns, keys)
    digest = keys_digest(keys) if plan.listed is not None else None
    return GroupFacts(columns, selected, len(keys), source, digest, keys[:_SHOWN_GROUPS])


def _unread(groups: GroupsSpec) -> str:
    if groups.private is not None:
        return "selected by the run"
    if groups.public_table is not None:
        return f"read from {_table(groups.public_table)} at the run"
    return f"read from {_files(groups)} at the run"


def _source(groups: GroupsSpec) -> str:
    if groups.private is not None:
        return "selected by the run"
    if groups.public_table is not None:
        return f"from {_table(groups.public_table)}"
    if not groups.files:
        return "listed in the spec"
    listed = "listed in the spec and " if any(isinstance(each, Axis) for each in groups.axes) else ""
    return f"{listed}from {_files(groups)}"


def _table(table: PublicTable) -> str:
    return f"public_table {table.table}" + (" (rows valid at the end of the period)" if table.as_of else "")


def _files(groups: GroupsSpec) -> str:
    return "public_file " + ", ".join(dict.fromkeys(groups.files))


def _combinations(columns: tuple[str, ...], keys: Keys) -> str:
    """That the keys are every combination of values, where they are."""
    values = [len(set(axis)) for axis in zip(*keys, strict=True)]
    if len(columns) < 2 or math.prod(values) != len(keys):  # one column has no combinations
        return ""
    sizes = zip(values, columns, strict=True)
    return ": every combination of " + " and ".join(f"{size:,} of {name}" for size, name in sizes)
