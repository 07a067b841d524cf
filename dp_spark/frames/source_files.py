"""Inputs that are files: Parquet and CSV."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from dp_spark.errors import InputRefused
from dp_spark.frames.source_refusals import condition_of, not_readable
from dp_spark.release.spec import InputFormat, InputSpec

_OPTIONS: Mapping[InputFormat, Mapping[str, str]] = {
    InputFormat.PARQUET: {"mergeSchema": "true"},
    # RFC 4180: a line end within quotes is part of a value, not the start of another person.
    InputFormat.CSV: {
        "header": "true",
        "multiLine": "true",
        "quote": '"',
        "escape": '"',
        "maxColumns": "1000000",
    },
}
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")  # a path from the root, or one with a scheme


def open_files(spark: SparkSession, source: InputSpec) -> DataFrame:
    """The input as a lazy frame; only file names, footers and header lines are read.

    Raises:
        InputRefused: the path does not exist or is not of the format, or its files do not agree on columns.
    """
    path = located(source)

    def reader() -> DataFrameReader:
        return spark.read.format(source.format.value).options(**_OPTIONS[source.format])

    try:
        files = reader().option("recursiveFileLookup", "true").load(path)
        names = files.inputFiles()
        above = len(_partition_columns(path + "/"))
        folders = {_partition_columns(name)[above:] for name in names}
        if len(folders) > 1 or set(next(iter(folders), ())) & set(files.columns):
            raise _mixed(source, "files in directories COLUMN=VALUE beside others, or over such a column")
        if (
            source.format is InputFormat.CSV
            and len({tuple(reader().load(name).columns) for name in names}) > 1
        ):
            raise _mixed(source, "files with different header lines")
        return reader().load(path) if any(folders) else files
    except InputRefused:
        raise
    except Exception as failure:  # noqa: BLE001  # Spark's text may quote a header or a footer
        raise _unreadable_files(source, condition_of(failure)) from None


def located(source: InputSpec) -> str:
    """The input's path as Spark finds it: a relative one is a file of this machine, seen from where we run.

    Spark's own process may have been started elsewhere.
    """
    path = source.path
    assert path is not None  # the formats of files have one
    return path if _ABSOLUTE.match(path) else f"file:{Path.cwd() / path}"


def _partition_columns(file: str) -> tuple[str, ...]:
    """The columns that the file's directories name, `.../town=01/...`, from the outermost in."""
    folders = unquote(file).split("/")[:-1]
    return tuple(folder.split("=")[0] for folder in folders if "=" in folder)


def _mixed(source: InputSpec, what: str) -> InputRefused:
    return InputRefused(
        "input_mixed",
        f"input.path = {source.path!r} holds {what}: which columns a row has would depend on its file",
        way_out="write all files alike, or name the directory of those that are",
    )


def _unreadable_files(source: InputSpec, condition: str) -> InputRefused:
    way_out = "check input.path and input.format"
    if condition == "PARQUET_TYPE_ILLEGAL":
        way_out = (
            "a column has a type that Spark does not read, most often timestamps in nanoseconds: write them "
            "with to_parquet(..., coerce_timestamps='us', allow_truncated_timestamps=True)"
        )
    return not_readable(source, f"at {located(source)} ({condition})", way_out)
