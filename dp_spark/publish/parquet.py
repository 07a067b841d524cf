"""The Parquet sink: a directory for each part, placed whole by one rename, revised by one exchange."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_spark.errors import PublishRefused
from dp_spark.publish.columns import change_of
from dp_spark.publish.durable import make_directories, sync_directory, write_new_parquet
from dp_spark.publish.exchange import alone_in, exchange
from dp_spark.publish.places import local_path
from dp_spark.publish.sink import (
    DIGEST_LABEL,
    RELEASE_LABEL,
    Edition,
    Part,
    is_edition,
    is_placed,
    refusing,
    unreachable,
)
from dp_spark.release.connecting import scheme_of

FILE_NAME = "part-0.parquet"
_TRIES = 100  # to make, or to place, what other publishers remove or place meanwhile
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """Directories of Parquet files below `root`, one for each part: `root/column=value/part-0.parquet`.

    The copy is made beside `root`, in a directory that only its owner may list, because globs such as
    DuckDB's find files in hidden directories too; it goes with the last copy in it.

    Raises:
        PublishRefused: `root` is no local directory.
    """

    root: Path | str

    def __post_init__(self) -> None:
        local_root(self.root)

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`."""
        home = local_root(self.root)
        if os.path.isfile(home):  # False where it cannot be looked at
            raise refusing(f"parquet {home}", "its directory is a file")
        with suppress(OSError):  # to be mended before it is published
            target = _within(home, part)
            if not is_placed(_standing(target), release_id, None, at=str(target), schema=schema):
                _require_columns(home, part, schema)

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """As `Sink`."""
        home = local_root(self.root)
        try:
            return is_edition(_standing(_within(home, part)), release_id, digest)
        except OSError as error:
            raise _unwritable(home, error) from None

    def publish(self, edition: Edition) -> str:
        """As `Sink`; the path of the file."""
        home = local_root(self.root)
        target = _within(home, edition.part)
        try:
            for _ in range(_TRIES):
                make_directories(home, 0o777)
                if _is_placed(target, edition):
                    break
                _require_columns(home, edition.part, edition.table.schema)
                _place(edition, home, target)
            else:
                raise unreachable(f"parquet {home}", "other publishers place and remove what this one does")
            _tidy(home, edition.release_id)
        except OSError as error:
            raise _unwritable(home, error) from None
        return str(target / FILE_NAME)


def local_root(root: Path | str) -> Path:
    """The local directory that `root` names, as a path or as a `file:` URL.

    Raises:
        PublishRefused: `root` is in an object store, or is the root of the file system.
    """
    path = local_path(root)
    if path is None:
        raise PublishRefused(
            "sink_not_local",
            f"path = {root}: the parquet sink needs a rename that is atomic, which {scheme_of(root)} has not",
            way_out="give a directory of a local or mounted file system, or publish to a table format, "
            "which has its own commits: `sink: delta`, `iceberg` or `table`",
        )
    return path


def _within(home: Path, part: Part) -> Path:
    """The directory of a part."""
    return home / f"{part.column}={part.value}"


def _incoming(home: Path) -> Path:
    """Where copies are made."""
    return home.with_name(f".{home.name}.incoming")


def _attempts(release_id: str) -> str:
    """How names of the copies of one release begin."""
    return hashlib.sha256(release_id.encode()).hexdigest()[:16]


def _is_taken(target: Path) -> bool:
    """Whether something stands at `target`; an empty directory is nothing."""
    try:
        return any(True for _ in os.scandir(target))
    except FileNotFoundError:
        return False
    except NotADirectoryError:  # it is a file, or one stands in the place of the root
        return os.path.lexists(target)


def _is_placed(target: Path, edition: Edition) -> bool:
    standing, schema = _standing(target), edition.table.schema
    return is_placed(standing, edition.release_id, edition.digest, at=str(target), schema=schema)


def _standing(target: Path) -> Mapping[str, str] | None:
    """The labels at `target`: None where nothing stands, empty where it is no artefact of ours."""
    return _labels(target) if _is_taken(target) else None


def _labels(target: Path) -> Mapping[str, str]:
    if not target.is_dir() or set(_visible(target)) != {FILE_NAME}:
        return {}
    try:
        found = pq.read_metadata(target / FILE_NAME).metadata or {}
    except (OSError, pa.ArrowException):
        return {}
    labels = {name.decode(errors="replace"): text.decode(errors="replace") for name, text in found.items()}
    return labels if {RELEASE_LABEL, DIGEST_LABEL} <= labels.keys() else {}


def _visible(target: Path) -> Iterator[str]:
    return (entry.name for entry in os.scandir(target) if entry.name[0] not in "._")


def _require_columns(home: Path, part: Part, schema: pa.Schema) -> None:
    """Refuse columns that readers cannot merge with those of the newest other part; absent ones are NULL."""
    standing = _newest_schema(home, part)
    if standing is not None:
        own = pa.schema(field for field in schema if field.name != part.column)
        change_of(standing, own, at=str(home))


def _newest_schema(home: Path, part: Part) -> pa.Schema | None:
    """The columns of the last other part, in the order of names, that is an artefact of ours."""
    own = _within(home, part).name
    try:
        names = [entry.name for entry in os.scandir(home) if entry.name.startswith(f"{part.column}=")]
    except FileNotFoundError:
        return None
    for name in sorted(set(names) - {own}, reverse=True):
        if _labels(home / name):
            with suppress(OSError, pa.ArrowException):  # it is removed or revised meanwhile
                return pq.read_schema(home / name / FILE_NAME)
    return None


def _place(edition: Edition, home: Path, target: Path) -> None:
    """Write a copy and put it at `target`, unless another publisher is there first: who looks again sees."""
    table = edition.table.drop_columns([edition.part.column]).replace_schema_metadata(edition.labels)
    attempt = _incoming(home) / f"{_attempts(edition.release_id)}.{os.urandom(8).hex()}"
    try:
        _make_attempt(attempt)
        write_new_parquet(table, attempt / FILE_NAME, 0o666)
        sync_directory(attempt)
        if _is_taken(target):
            _revise(attempt, home, target, edition)
        else:
            _rename(attempt, target)
        sync_directory(home)
    except FileNotFoundError:
        pass  # whoever was faster with the same release has removed the copy
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
        _remove_empty(attempt.parent)


def _make_attempt(attempt: Path) -> None:
    """Make the directory of an attempt, and the one it lies in: whoever is done removes that, once empty."""
    for _ in range(_TRIES):
        make_directories(attempt.parent, 0o700)
        with suppress(FileNotFoundError):
            os.mkdir(attempt)
            return
    os.mkdir(attempt)


def _revise(attempt: Path, home: Path, target: Path, edition: Edition) -> None:
    """Let the copy and an earlier revision change places.

    One publisher at a time: else a late one would put back an earlier revision than what it meets. Where
    the system cannot exchange, the part is absent between two renames, and stays so, if the process is
    killed there, until the release is published again.
    """
    with alone_in(home):
        if _is_placed(target, edition) or exchange(attempt, target):
            return
        aside = attempt.with_name(f"{attempt.name}.revised")
        os.rename(target, aside)
        try:
            _rename(attempt, target)
        except BaseException:
            _rename(aside, target)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _rename(attempt: Path, target: Path) -> None:
    """Rename to `target`, if nothing stands there."""
    try:
        os.rename(attempt, target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise


def _tidy(home: Path, release_id: str) -> None:
    """Remove what attempts at a release that is placed have left, and the directory if it was the last.

    Whoever else is at work on this release finds it published when its copy is gone.
    """
    incoming = _incoming(home)
    with suppress(FileNotFoundError):  # another publisher has removed it, the last of them
        for leftover in os.scandir(incoming):
            if leftover.name.startswith(f"{_attempts(release_id)}."):
                shutil.rmtree(leftover, ignore_errors=True)
    _remove_empty(incoming)


def _remove_empty(incoming: Path) -> None:
    with suppress(OSError):  # it holds what others prepare, or is gone
        os.rmdir(incoming)


def _unwritable(home: Path, error: OSError) -> PublishRefused:
    if error.errno != errno.EXDEV:
        return unreachable(f"parquet {home}", error.strerror or type(error).__name__)
    return PublishRefused(
        "sink_is_mount",
        f"cannot publish to {home}: it is a mount point, and copies are made beside it",
        way_out="give a directory below the mount point",
    )
