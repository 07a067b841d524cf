"""The groups of a spec: listed in it, read from a public file or table, or selected by the release itself."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from dp_spark.release.group_keys import Keys
from dp_spark.release.problems import Problem, Wrong, shown
from dp_spark.release.reading import read_truth, word_of
from dp_spark.release.spec.listed import Axis, FileAxis, PublicGroups, read_public
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import (
    AsOf,
    Bound,
    Column,
    Label,
    Location,
    QueryKind,
    Selection,
    TableName,
    read_as_of,
)

MAX_GROUP_KEYS = 2_000_000
TOTAL_LABEL, OTHER_LABEL = "(all)", "(other)"
_NO_TRAVEL = (
    "remove it: to read a table as it was (time travel) is not offered yet; give it valid_from and valid_to "
    "with as_of: period_end, or a view of that version"
)


class PublicTable(Part, frozen=True):
    """A public table of the Spark catalog, each distinct key of which is a group.

    With `as_of` only rows that are valid at the period's last moment count: `valid_from` is not after the
    last day, and `valid_to` is NULL or after it.
    """

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("version", "version_as_of", "timestamp", "timestamp_as_of", "snapshot"), _NO_TRAVEL
    )

    table: TableName = Field(examples=["public.stations"])
    as_of: Annotated[AsOf, BeforeValidator(read_as_of)] | None = None
    valid_from: Column | None = Field(None, examples=["valid_from"])
    valid_to: Column | None = Field(None, examples=["valid_to"])

    @model_validator(mode="after")
    def _check_validity(self) -> Self:
        if self.as_of is not None and self.valid_from is None:
            why = f"missing key 'valid_from': as_of = {str(self.as_of)!r} asks which rows are valid then"
            raise Wrong(Problem(why, "add `valid_from: COLUMN` (and valid_to), or remove as_of"))
        named = {key: getattr(self, key) for key in ("valid_from", "valid_to")}
        if self.as_of is None and any(named.values()):
            key, column = next((key, column) for key, column in named.items() if column)
            why = "says nothing without as_of: all rows of the table are groups"
            raise Wrong(Problem(why, f"add `as_of: {AsOf.PERIOD_END}`", "", shown(column), (key,)))
        return self


class PrivateGroups(Part, frozen=True):
    """Groups that the release itself selects, at a price: those that enough units have."""

    select: Annotated[Selection, BeforeValidator(word_of(Selection))] = Selection.OPTIMAL
    min_units: Bound = Field(1, examples=["1"])
    other: Annotated[bool, PlainValidator(read_truth)] = False

    @model_validator(mode="after")
    def _check_other(self) -> Self:
        if self.other and self.select is Selection.THRESHOLD:
            why = (
                f"does not go with select = {str(self.select)!r}: the noisy ids that select are those of the "
                "selection pass, and the other rows would need ids of their own"
            )
            way_out = f"remove it, or write select: {Selection.OPTIMAL}"
            raise Wrong(Problem(why, way_out, "false", "'true'", ("other",)))
        return self


GroupSource = Literal["public", "public_file", "public_table", "private"]
_SOURCES: tuple[GroupSource, ...] = ("public", "public_file", "public_table", "private")


class GroupsSpec(Part, frozen=True):
    """The groups that are released, by exactly one of four sources, and how missing parts of keys are named.

    Public ones are released whether or not rows have them, and known before any row is read.
    """

    public: Annotated[PublicGroups, PlainValidator(read_public)] | None = Field(
        None, examples=["[EWR, JFK, LGA]"]
    )
    public_file: Location | None = Field(None, examples=["stations.csv"])
    public_table: PublicTable | None = Field(None, examples=["{table: public.stations}"])
    private: PrivateGroups | None = Field(None, examples=["{select: optimal, min_units: 1}"])
    null_label: Label | None = Field(None, examples=["(none)"])
    total_label: Label = TOTAL_LABEL
    other_label: Label = OTHER_LABEL

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = [key for key in _SOURCES if getattr(self, key) is not None]
        if not given:
            way_out = "add `public: [EWR, JFK, LGA]`, or public_file, public_table or private"
            raise Wrong(Problem("missing key 'public'", way_out))
        if len(given) > 1:
            why = f"stands beside {given[0]}: groups have one source"
            raise Wrong(Problem(why, "keep one of the two", " | ".join(_SOURCES), at=(given[1],)))
        if self.size is not None and self.size > MAX_GROUP_KEYS:
            why = f"makes {self.size:,} groups"
            way_out = "list fewer values, or the combinations that matter as [[a, b], ...]"
            raise Wrong(Problem(why, way_out, f"at most {MAX_GROUP_KEYS:,}", at=("public",)))
        return self

    @property
    def source(self) -> GroupSource:
        """Which of the four sources the groups have."""
        return next(key for key in _SOURCES if getattr(self, key) is not None)

    @property
    def in_spec(self) -> bool:
        """Whether the spec itself lists all groups."""
        return self.public is not None and not self.files

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that the groups are read from."""
        axes = (each.file for each in self.axes if isinstance(each, FileAxis))
        return tuple(axes) if self.public_file is None else (self.public_file,)

    @property
    def axes(self) -> tuple[Axis | FileAxis, ...]:
        """The axes of a cross product; none where the groups are listed, or not in the spec."""
        return tuple(each for each in self.public or () if isinstance(each, Axis | FileAxis))

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The groups as listed; none where they are a cross product, or not in the spec."""
        return tuple(each for each in self.public or () if not isinstance(each, Axis | FileAxis))

    @property
    def size(self) -> int | None:
        """The number of groups; None where the spec does not tell."""
        if not self.in_spec:
            return None
        axes = [each for each in self.axes if isinstance(each, Axis)]
        return math.prod(len(axis.values) for axis in axes) if axes else len(self.keys)

    def listed(self, columns: Sequence[str]) -> Keys:
        """All groups in code point order, each with its values in the order of `columns`.

        Precondition: `in_spec`.
        """
        axes = {each.column: each.values for each in self.axes if isinstance(each, Axis)}
        return tuple(product(*(axes[column] for column in columns))) if axes else self.keys

    def written(self) -> dict[str, object]:
        """What is said, without what is left at its default: the canonical form."""
        said = {key: each for key, each in self if each != type(self).model_fields[key].default}
        match self.public:
            case [Axis(values=values)]:  # the same groups as a list of them
                said["public"] = [(each,) for each in values]
            case [Axis() | FileAxis(), *_]:
                said["public"] = {
                    each.column: each.values if isinstance(each, Axis) else {"file": each.file}
                    for each in self.axes
                }
        return said


def group_problems(
    groups: GroupsSpec, columns: Sequence[str], kinds: Sequence[QueryKind], *, rolled: bool
) -> Iterator[Problem]:
    """Groups that do not have exactly these columns, or that the queries or a rollup do not go with."""
    yield from _column_problems(groups, columns)
    yield from _label_problems(groups, rolled=rolled)
    if groups.private is not None and groups.private.select is Selection.THRESHOLD:
        place = ("groups", "private", "select")
        select, way_out = shown(str(Selection.THRESHOLD)), f"write select: {Selection.OPTIMAL}"
        if QueryKind.IDS not in kinds:
            why = "needs a query of kind ids: its noisy ids are what selects"
            yield Problem(
                why, f"add `{{name: people, kind: ids}}` to queries, or {way_out}", "", select, place
            )
        if rolled:
            why = (
                "does not go with rollup: the noisy ids that select are those of the selection pass, and "
                "coarser groups would need ids of their own"
            )
            yield Problem(why, f"remove rollup, or {way_out}", str(Selection.OPTIMAL), select, place)


def _column_problems(groups: GroupsSpec, columns: Sequence[str]) -> Iterator[Problem]:
    place = ("groups", "public")
    axes = [each.column for each in groups.axes]
    if axes and sorted(axes) != sorted(columns):
        way_out = f"write one list of values for each of {', '.join(columns)}"
        yield Problem("has other columns than group_by", way_out, shown(list(columns)), shown(axes), place)
    uneven = next((key for key in groups.keys if len(key) != len(columns)), None)
    if uneven is not None:
        why = f"has {len(uneven)} values, group_by has {len(columns)} columns"
        way_out = (
            f"write every group as a list of {len(columns)}, or {{column: [values]}} for all combinations"
        )
        yield Problem(why, way_out, f"a value for each of {', '.join(columns)}", shown(list(uneven)), place)


def _label_problems(groups: GroupsSpec, *, rolled: bool) -> Iterator[Problem]:
    """Labels that mean two things: they could not be told apart in the released table."""
    used = used_labels(groups, rolled=rolled)
    places = list(used)
    for i, key in enumerate(places):
        others = [("null_label", groups.null_label), *((each, used[each]) for each in places[:i])]
        clash = next((other for other, label in others if label == used[key]), None)
        if clash is not None:
            why = f"is {clash} too: the two could not be told apart"
            yield Problem(why, "write another text", "distinct labels", shown(used[key]), ("groups", key))
    values = {value for each in groups.axes if isinstance(each, Axis) for value in each.values}
    values |= {value for key in groups.keys for value in key}
    for key, label in used.items():
        if label in values:
            why = f"is a value of a public group, and what {key} stands for: the two could not be told apart"
            yield Problem(why, f"write another {key}", "", shown(label), ("groups", "public"))


def used_labels(groups: GroupsSpec, *, rolled: bool) -> dict[str, str]:
    """Which labels a release writes in place of values, by key: no value of a group may equal one."""
    other = groups.private is not None and groups.private.other
    return ({"total_label": groups.total_label} if rolled else {}) | (
        {"other_label": groups.other_label} if other else {}
    )
