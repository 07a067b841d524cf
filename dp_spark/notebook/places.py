"""The words about tables: where the rows are, and where the release goes; methods of `Release`."""

import os
from collections.abc import Mapping
from typing import TypeAlias

from dp_spark.errors import SpecRefused
from dp_spark.notebook.words import R

Path: TypeAlias = str | os.PathLike[str]


def reading(  # noqa: PLR0913  # a word for each format
    release: R,
    *,
    parquet: Path | None = None,
    csv: Path | None = None,
    delta: Path | None = None,
    table: str | None = None,
    iceberg: str | None = None,
    jdbc: str | None = None,
    connection: str | None = None,
    version: int | None = None,
    kept_days: int | None = None,
) -> R:
    """Read the rows from one place, so that `run` needs no frame.

    Args:
        release: what is said so far.
        parquet: a path of Parquet files.
        csv: a path of CSV files.
        delta: the path of a Delta table.
        table: a table of Spark's catalog.
        iceberg: a table of the catalog that `connection` names.
        jdbc: a table of the PostgreSQL database that `connection` names.
        connection: of the profile.
        version: of a Delta or Iceberg table; without it, the newest when the release is charged for.
        kept_days: days after the end of a period for which its rows are kept.
    """
    paths = {"parquet": parquet, "csv": csv, "delta": delta}
    tables = {"table": table, "iceberg": iceberg, "jdbc": jdbc}
    place = _one("reading", "format", paths, tables, 'write .reading(parquet="data/visits")')
    more = {"connection": connection, "version": version, "kept_days": kept_days}
    return release._with("input", {**place, **_said(more)})


def published(  # noqa: PLR0913  # a word for each kind
    release: R,
    *,
    parquet: Path | None = None,
    delta: Path | None = None,
    table: str | None = None,
    iceberg: str | None = None,
    sql: str | None = None,
    connection: str | None = None,
    shape: str | None = None,
) -> R:
    """Publish to one place more; each release needs its own.

    Args:
        release: what is said so far.
        parquet: a directory of Parquet files.
        delta: the path of a Delta table.
        table: a table of Spark's catalog.
        iceberg: a table of the catalog that `connection` names.
        sql: a table of the database that `connection` names.
        connection: of the profile.
        shape: `wide`, a column for each answer, or `long`, a row for each.
    """
    paths = {"parquet": parquet, "delta": delta}
    tables = {"table": table, "iceberg": iceberg, "sql": sql}
    place = _one("published", "sink", paths, tables, 'write .published(parquet="out/visits")')
    return release._added("publish", {**place, **_said({"connection": connection, "shape": shape})})


def _one(
    word: str,
    kind_key: str,
    paths: Mapping[str, Path | None],
    tables: Mapping[str, str | None],
    way_out: str,
) -> dict[str, object]:
    """The one place that was given, as the spec writes it."""
    found: list[dict[str, object]] = [
        {kind_key: kind, key: given}
        for key, places in (("path", paths), ("table", tables))
        for kind, given in places.items()
        if given is not None
    ]
    if len(found) != 1:
        kinds = ", ".join([*paths, *tables])
        raise SpecRefused(
            "spec_invalid",
            f"{word} is given {len(found)} places, not one of {kinds}",
            way_out=way_out,
        )
    return found[0]


def _said(more: Mapping[str, object]) -> dict[str, object]:
    return {key: given for key, given in more.items() if given is not None}
