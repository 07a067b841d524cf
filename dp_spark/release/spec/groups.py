"""The public groups of a spec: as a list of keys, or as the cross product of one list for each column."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, PlainValidator, model_validator

from dp_spark.release.problems import Problem, Wrong, shown
from dp_spark.release.reading import read_each, read_list, read_normal_text, read_text
from dp_spark.release.spec.part import Part

MAX_GROUP_KEYS = 2_000_000


@dataclass(frozen=True, slots=True)
class Axis:
    """A group column with its public values: one factor of a cross product."""

    column: str
    values: tuple[str, ...]


PublicGroups = tuple[tuple[str, ...], ...] | tuple[Axis, ...]


def _read_public(value: object) -> PublicGroups:
    """Keys in code point order, or the axes of a cross product in the order of their columns."""
    if isinstance(value, Mapping) and value:
        columns = sorted(read_each(((str(column), column) for column in value), read_text))
        values = read_each(((column, value[column]) for column in columns), _read_axis_values)
        return tuple(map(Axis, columns, values))
    return _distinct(read_each(enumerate(read_list(value)), _read_key))


def _read_axis_values(value: object) -> tuple[str, ...]:
    values = read_each(enumerate(read_list(value)), read_normal_text)
    return tuple(text for (text,) in _distinct([(text,) for text in values]))


def _read_key(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(read_each(enumerate(read_list(value)), read_normal_text))
    return (read_normal_text(value),)


def _distinct(keys: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    in_order = sorted(keys)
    if twice := sorted({key for key, after in pairwise(in_order) if key == after}):
        written = (shown(key[0] if len(key) == 1 else list(key)) for key in twice)
        raise Wrong(
            *(Problem("is listed twice", "list it once", "distinct groups", each) for each in written)
        )
    return tuple(in_order)


class GroupsSpec(Part, frozen=True):
    """The groups that are released whether or not rows have them; known before any row is read."""

    public: Annotated[PublicGroups, PlainValidator(_read_public)] = Field(examples=["[EWR, JFK, LGA]"])

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if self.size > MAX_GROUP_KEYS:
            why = f"makes {self.size:,} groups"
            way_out = "list fewer values, or the combinations that matter as [[a, b], ...]"
            raise Wrong(Problem(why, way_out, f"at most {MAX_GROUP_KEYS:,}", at=("public",)))
        return self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of a cross product; none where the groups are listed."""
        return tuple(each for each in self.public if isinstance(each, Axis))

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The groups as listed; none where they are a cross product."""
        return tuple(each for each in self.public if not isinstance(each, Axis))

    @property
    def size(self) -> int:
        """The number of groups."""
        return math.prod(len(axis.values) for axis in self.axes) if self.axes else len(self.public)


def group_problems(groups: GroupsSpec, columns: list[str]) -> Iterator[Problem]:
    """Groups that do not have exactly these columns."""
    place = ("groups", "public")
    axes = [each.column for each in groups.axes]
    if axes and sorted(axes) != sorted(columns):
        way_out = f"write one list of values for each of {', '.join(columns)}"
        yield Problem("has other columns than group_by", way_out, shown(columns), shown(axes), place)
    uneven = next((key for key in groups.keys if len(key) != len(columns)), None)
    if uneven is not None:
        why = f"has {len(uneven)} values, group_by has {len(columns)} columns"
        way_out = (
            f"write every group as a list of {len(columns)}, or {{column: [values]}} for all combinations"
        )
        yield Problem(why, way_out, f"a value for each of {', '.join(columns)}", shown(list(uneven)), place)
