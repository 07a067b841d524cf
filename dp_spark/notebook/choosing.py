"""The words about rows: when they are there and which count; functions that `Release` has as its methods."""

import os

from dp_spark.notebook.words import Listed, Number, R


def period(release: R, column: str, *, every: str, timezone: str = "UTC") -> R:
    """Release one period at a time: the rows whose date lies in that of `run`'s key.

    Args:
        release: what is said so far.
        column: a date, timestamp, or text that begins with YYYY-MM-DD.
        every: `day`, `week` (from Monday) or `month`.
        timezone: IANA name; whose midnight ends a day, for timestamps.
    """
    return release._with("period", {"column": column, "every": every, "timezone": timezone})


def ready(
    release: R, *, exists: str | os.PathLike[str] | Listed | None = None, newer_than: str | None = None
) -> R:
    """Refuse to charge for a period before its rows are there, by what is said here.

    Args:
        release: what is said so far.
        exists: paths that are there then; `{key}` in one is the key of the period.
        newer_than: how old the newest rows of the input may be, such as `36h` or `2d`.
    """
    said = {"exists": exists, "newer_than": newer_than}
    return release._with("ready", {key: each for key, each in said.items() if each is not None})


def compared(release: R, against: str, *, max_change: Number = "0.5", plus_sigma: Number = 4) -> R:
    """Before it is published, compare each release with an earlier one of its name.

    Args:
        release: what is said so far.
        against: `previous`, or `same_weekday` of a release a day.
        max_change: a share of the earlier value; beyond it, and beyond `plus_sigma`, a run warns.
        plus_sigma: what noise explains besides, in standard deviations of the difference.
    """
    history = {"against": against, "max_change": max_change, "plus_sigma": plus_sigma}
    return release._with("checks", {"history": history})


def where(release: R, sql: str) -> R:
    """Count only rows for which a Spark SQL condition is true; a second one narrows the first."""
    narrowed = release._with("where", sql)
    return (
        release._with("where", f"({release.parts['where']}) AND ({sql})")
        if "where" in release.parts
        else narrowed
    )


def derived(release: R, name: str, sql: str, *, default: Number | bool) -> R:
    """Add a column that Spark SQL computes from the others of its row.

    Args:
        release: what is said so far.
        name: of the new column.
        sql: an expression of the list in docs/spec.md.
        default: of the expression's kind; stands where it gives NULL or NaN.
    """
    return release._added("derive", {"name": name, "sql": sql, "default": default})
