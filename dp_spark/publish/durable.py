"""Directories and Parquet files that are on the disk, not only in its cache, when a function returns."""

import os
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

_ROWS_OF_A_ROW_GROUP = 2**17


def make_directories(path: Path, mode: int) -> None:
    """Make `path` and what is missing above it, each with `mode` less the umask."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for directory in reversed(missing):
        try:
            os.mkdir(directory, mode)
        except FileExistsError:  # another process made it; a file in its place shows in the next step
            continue
        sync_directory(directory.parent)


def sync_directory(path: Path) -> None:
    """Put the entries of a directory (names made, renamed, removed) on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new_parquet(table: pa.Table, path: Path, mode: int) -> None:
    """Write `table` to a file that does not exist yet, made with `mode` less the umask.

    The same table and metadata give the same bytes: how it is chunked and its size choose nothing.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        _write_parquet(table.combine_chunks(), file)
        file.flush()
        os.fsync(file.fileno())


def _write_parquet(table: pa.Table, file: BinaryIO) -> None:
    pq.write_table(table, file, row_group_size=_ROWS_OF_A_ROW_GROUP, compression="zstd")
