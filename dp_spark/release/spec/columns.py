"""The columns that a release writes, and names of which only one can be written."""

from collections.abc import Iterator, Sequence
from itertools import chain

from dp_spark.release.problems import Place, Problem, path_text, shown

PERIOD_COLUMN, RELEASE_COLUMN, REVISION_COLUMN = "period_start", "release_id", "revision"
GROUPING_COLUMN, METRIC_COLUMN = "grouping_id", "metric"
LONG_COLUMNS = (METRIC_COLUMN, "value", "std", "low", "high")  # what the long shape has instead of answers
STD_SUFFIX, LOW_SUFFIX, HIGH_SUFFIX = "_std", "_low", "_high"


def output_columns(answer: str) -> tuple[str, str, str, str]:
    """The columns of an answer, a query's name and a suffix: value, std, low, high."""
    return answer, answer + STD_SUFFIX, answer + LOW_SUFFIX, answer + HIGH_SUFFIX


def column_problems(
    group_by: Sequence[str], queries: Sequence[tuple[str, Sequence[str]]]
) -> Iterator[Problem]:
    """Columns that two of the release, its groups and its queries, by name and suffixes, would write.

    Case makes no difference: Spark and warehouses fold it.
    """
    own = (PERIOD_COLUMN, GROUPING_COLUMN, RELEASE_COLUMN, REVISION_COLUMN)
    writers = dict.fromkeys(own, "the release itself")
    wanted: list[tuple[Place, str, tuple[str, ...]]] = [
        (("group_by", i), column, (column,)) for i, column in enumerate(group_by)
    ]
    wanted += [
        (("queries", i, "name"), name, tuple(chain(*(output_columns(name + suffix) for suffix in suffixes))))
        for i, (name, suffixes) in enumerate(queries)
    ]
    for place, name, columns in wanted:
        clash = next((column for column in columns if column.casefold() in writers), None)
        if clash is not None:
            why = f"would write the column {shown(clash)}, which {writers[clash.casefold()]} writes"
            way_out = "list it once, or rename it in the input" if place[0] == "group_by" else "rename it"
            yield Problem(why, way_out, "distinct output columns, whatever their case", shown(name), place)
        for column in columns:
            writers.setdefault(column.casefold(), path_text(place[:2]))


def long_problems(group_by: Sequence[str], long: Sequence[int]) -> Iterator[Problem]:
    """Group columns that the long shape of the sinks `long`, by number, has columns of its own for."""
    for i, column in enumerate(group_by):
        if long and column.casefold() in LONG_COLUMNS:
            why = f"is a column that {path_text(('publish', long[0], 'shape'))} = long has of its own"
            allowed = "none of " + ", ".join(LONG_COLUMNS)
            yield Problem(why, "rename it in the input", allowed, shown(column), ("group_by", i))
