"""When the newest rows of an input were written: a fact of its files or of its log, and of no row."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from glob import glob
from pathlib import Path

from pyarrow import fs

from dp_spark.frames.source_delta import delta_commits
from dp_spark.frames.source_files import located
from dp_spark.frames.source_iceberg import iceberg_commits
from dp_spark.release.profile import Connection
from dp_spark.release.spec import InputFormat, InputSpec

HADOOP_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3"}  # as Spark and as Arrow call one store


def written_at(source: InputSpec, connections: Mapping[str, Connection]) -> datetime | None:
    """When rows were last written to the version of the input that a release would read now; None: never.

    Of files, the newest that Spark would read; of a table with a log, the newest commit that changed rows:
    one that only lays them out anew does not count.

    Raises:
        InputRefused: there is no such table, or no such version of it.
        SetupRefused: its connection is unknown, or its reader is not installed.
        Exception: of a store that does not answer, with a text that may quote anything.
    """
    match source.format:
        case InputFormat.DELTA:
            return _newest(delta_commits(source))
        case InputFormat.ICEBERG:
            return _newest(iceberg_commits(source, connections))
        case _:
            return _newest(_files(located(source)))


def _newest(moments: Iterable[datetime]) -> datetime | None:
    return max(moments, default=None)


def _files(path: str) -> Iterator[datetime]:
    """When each file at or below `path`, which may be a pattern, was last changed."""
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/.*)|(/.*)", path)
    if local is None:
        scheme, _, rest = path.partition("://")
        system, place = fs.FileSystem.from_uri(f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}")
        yield from _below(system, place)
        return
    place = local[1] or local[2]
    for each in [place] if Path(place).exists() else glob(place):
        yield from _below(fs.LocalFileSystem(), each)


def _below(system: fs.FileSystem, place: str) -> Iterator[datetime]:
    top = system.get_file_info(place)
    if top.type is fs.FileType.File:
        yield _changed(top)
        return
    for info in system.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True)):
        own = info.path[len(top.path) :].strip("/").split("/")
        if info.type is fs.FileType.File and not any(map(_is_hidden, own)):
            yield _changed(info)


def _is_hidden(part: str) -> bool:
    """Whether Spark passes over what is below or in it."""
    return part.startswith(".") or part.endswith("._COPYING_") or (part.startswith("_") and "=" not in part)


def _changed(info: fs.FileInfo) -> datetime:
    assert info.mtime_ns is not None  # a file has one
    return datetime.fromtimestamp(info.mtime_ns / 10**9, UTC)
