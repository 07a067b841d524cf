"""Coarser groupings of a release: which columns of group_by each of them keeps."""

from collections.abc import Iterator, Sequence

from dp_spark.release.problems import Problem, Wrong, nearest, shown
from dp_spark.release.reading import read_each, read_list, read_text

Rollup = tuple[tuple[str, ...], ...]


def read_rollup(value: object) -> Rollup:
    """Lists of columns, each in the order it is written in; an empty one is the total."""
    return tuple(read_each(enumerate(read_list(value)), _read_columns))


def _read_columns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        way_out = "write [[region], []]: lists of columns; [] is the total"
        raise Wrong(Problem("is not a list of columns", way_out, "a list of columns", shown(value)))
    return tuple(read_each(enumerate(value), read_text))


def rollup_problems(rollup: Rollup, group_by: Sequence[str]) -> Iterator[Problem]:
    """Groupings that are not coarser than the release's, or that are there twice."""
    seen: set[frozenset[str]] = set()
    for i, columns in enumerate(rollup):
        place = ("rollup", i)
        unknown = next((column for column in columns if column not in group_by), None)
        if unknown is not None:
            guess = nearest(unknown, group_by) or group_by[0]
            yield Problem(
                "is no column of group_by", f"write {guess}", shown(list(group_by)), shown(unknown), place
            )
        elif len(set(columns)) == len(group_by):
            why = "is the grouping of the release itself"
            yield Problem(why, "remove it", "fewer columns than group_by", shown(list(columns)), place)
        elif frozenset(columns) in seen:
            yield Problem("is there twice", "remove one", "distinct groupings", shown(list(columns)), place)
        seen.add(frozenset(columns))
