"""What is said of the groups of a release: where they are from, and which they are once that is known."""

import math
from dataclasses import dataclass

from dp_spark.noise import epsilon_alone
from dp_spark.release.group_keys import Keys, keys_digest
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.spec import Axis, GroupsSpec, PublicTable

_SHOWN_GROUPS = 5
_SHOWN_PROBABILITIES = (0.01, 0.5, 0.99)


@dataclass(frozen=True, slots=True)
class ReleasedFacts:
    """The least number of units at which a group is released with at least a probability."""

    probability: float
    units: int


@dataclass(frozen=True, slots=True)
class SelectionFacts:
    """How private groups are selected.

    Attributes:
        select: the way: `optimal` or `threshold`.
        min_units: groups of fewer units are never released.
        family: the law of the noise on the number of units.
        std: its standard deviation.
        largest: it lies within plus and minus this.
        threshold: units plus noise that is released; noise alone does not reach it.
        released: from how many units on a group is released, and how likely.
        one_unit: how likely a group of one unit is released.
        epsilon_alone: what the selection would cost by itself, at the release's delta; None where an ids
            query pays.
        shared_with: the ids query whose noisy numbers select and are released; None where the noise is
            drawn for the selection alone.
        other: what the key of the group of all other rows says, where there is one; else None.
        table: SHA-256 of the noise table.
    """

    select: str
    min_units: int
    family: str
    std: float
    largest: int
    threshold: int
    released: tuple[ReleasedFacts, ...]
    one_unit: float
    epsilon_alone: float | None
    shared_with: str | None
    other: str | None
    table: str


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
        selection: how they are selected; None where they are public.
    """

    columns: tuple[str, ...]
    selected: bool
    count: int | None
    source: str
    digest: str | None
    first: tuple[tuple[str, ...], ...]
    selection: SelectionFacts | None = None


def group_facts(plan: ReleasePlan) -> GroupFacts:
    """The groups of a plan, read or not."""
    groups, columns = plan.spec.groups, tuple(plan.spec.group_by)
    selection = _selection_facts(plan)
    selected = selection is not None
    if not groups.in_spec and plan.listed is None:
        return GroupFacts(columns, selected, None, _unread(groups), None, (), selection)
    keys = plan.keys
    source = _source(groups) + ("" if selected else _combinations(columns, keys))
    digest = keys_digest(keys) if plan.listed is not None else None
    return GroupFacts(columns, selected, len(keys), source, digest, keys[:_SHOWN_GROUPS], selection)


def _selection_facts(plan: ReleasePlan) -> SelectionFacts | None:
    private, selection, groups = plan.spec.groups.private, plan.selection, plan.spec.groups
    if private is None or selection is None:
        return None
    table, selecting = selection.table, plan.selecting
    alone = None if selecting else epsilon_alone(table, selection.part, plan.guarantee.delta)
    return SelectionFacts(
        select=str(private.select),
        min_units=selection.min_units,
        family=table.family,
        std=table.std,
        largest=table.support,
        threshold=selection.threshold + selection.min_units - 1,
        released=tuple(ReleasedFacts(each, selection.units_for(each)) for each in _SHOWN_PROBABILITIES),
        one_unit=selection.probability(1),
        epsilon_alone=alone,
        shared_with=selecting.query if selecting else None,
        other=groups.other_label if private.other else None,
        table=table.digest,
    )


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
