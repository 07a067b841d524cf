"""Public groups as they stand in a spec: a list of keys, or a list of values for each column."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from dp_spark.release.problems import Problem, Wrong, shown_key, unknown_key
from dp_spark.release.reading import read_each, read_list, read_normal_text, read_path, read_text


@dataclass(frozen=True, slots=True)
class Axis:
    """A group column with its public values: one factor of a cross product."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileAxis:
    """A group column whose public values are those that a file has in the column of its name."""

    column: str
    file: str


PublicGroups = tuple[tuple[str, ...], ...] | tuple[Axis | FileAxis, ...]


def read_public(value: object) -> PublicGroups:
    """Keys in code point order, or the axes of a cross product in the order of their columns."""
    if isinstance(value, Mapping) and value:
        columns = sorted(read_each(((str(column), column) for column in value), read_text))
        return tuple(read_each(((column, (column, value[column])) for column in columns), _read_axis))
    return _distinct(read_each(enumerate(read_list(value)), _read_key))


def _read_axis(written: object) -> Axis | FileAxis:
    assert isinstance(written, tuple)
    column, value = written
    if not isinstance(value, Mapping):
        values = read_each(enumerate(read_list(value)), read_normal_text)
        return Axis(column, tuple(text for (text,) in _distinct([(text,) for text in values])))
    if problems := [unknown_key(str(key), ["file"]) for key in value if key != "file"]:
        raise Wrong(*problems)
    if "file" not in value:
        raise Wrong(Problem("missing key 'file'", "add `file: PATH`, or write a list of values"))
    (file,) = read_each([("file", value["file"])], read_path)
    return FileAxis(column, file)


def _read_key(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(read_each(enumerate(read_list(value)), read_normal_text))
    return (read_normal_text(value),)


def _distinct(keys: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    in_order = sorted(keys)
    if twice := sorted({key for key, after in pairwise(in_order) if key == after}):
        problems = (
            Problem("is listed twice", "list it once", "distinct groups", shown_key(key)) for key in twice
        )
        raise Wrong(*problems)
    return tuple(in_order)
