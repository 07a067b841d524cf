"""The Parquet sink: a directory for each period, or each wave of a survey, placed whole by one rename."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_spark.errors import PublishRefused
from dp_spark.publish.durable import make_directories, sync_directory, write_new_parquet
from dp_spark.publish.places import local_path, scheme_of
from dp_spark.publish.sink import Edition, Part, is_earlier

FILE_NAME = "part-0.parquet"
RELEASE_KEY, DIGEST_KEY = b"dp_spark.release_id", b"dp_spark.digest"
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """Directories of Parquet files below `root`, one for each part."""

    root: Path | str

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """As `Sink`."""
        require_free(self.root, part=part, release_id=release_id)

    def publish(self, edition: Edition) -> str:
        """As `Sink`; the path of the file."""
        return str(
            publish_parquet(
                edition.table,
                self.root,
                part=edition.part,
                release_id=edition.release_id,
                digest=edition.digest,
            )
        )


def publish_parquet(table: pa.Table, root: Path | str, *, part: Part, release_id: str, digest: str) -> Path:
    """Place `table` as `root/column=value/part-0.parquet` and return that path.

    Readers of `root` see the part whole or not at all, also if this process is killed. Publishing an
    artefact that is there already changes nothing; a later revision of a release takes the place of an
    earlier one. The copy is made beside `root`, in a directory that
    only its owner may list, because globs such as DuckDB's find files in hidden directories too.

    Raises:
        PublishRefused: `root` cannot be written, or the part holds something else.
    """
    home = local_root(root)
    target = _within(home, part)
    incoming = home.with_name(f".{home.name}.incoming")
    attempts = hashlib.sha256(release_id.encode()).hexdigest()[:16]
    try:
        make_directories(home, 0o777)
        labels = _labels(target) if _is_taken(target) else None
        revised = labels is not None and is_earlier(labels[RELEASE_KEY].decode(errors="replace"), release_id)
        if revised or not _is_taken(target):
            make_directories(incoming, 0o700)
            labelled = _labelled(table.drop_columns([part.column]), release_id, digest)
            attempt = incoming / f"{attempts}.{os.urandom(8).hex()}"
            _place(labelled, attempt, target, aside=attempt.with_suffix(".revised") if revised else None)
        _require_own(target, release_id, digest)
        # Whoever else is at work on this release finds it published when its copy is gone.
        for leftover in incoming.glob(f"{attempts}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise _unwritable(home, error) from None
    return target / FILE_NAME


def require_free(root: Path | str, *, part: Part, release_id: str) -> None:
    """Check, before anything is charged, that the part is free at `root` or holds this release.

    Raises:
        PublishRefused: `root` is no local directory, or the part holds something else.
    """
    target = _within(local_root(root), part)
    labels = _labels(target) if _is_taken(target) else {RELEASE_KEY: release_id.encode()}
    if labels is None or not (
        labels[RELEASE_KEY] == release_id.encode()
        or is_earlier(labels[RELEASE_KEY].decode(errors="replace"), release_id)
    ):
        raise _occupied(target, _owner(labels))


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
            way_out="give a directory of a local or mounted file system",
        )
    return path


def _is_taken(target: Path) -> bool:
    """Whether something stands at `target`; an empty directory is nothing."""
    try:
        return any(True for _ in os.scandir(target))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True


def _labelled(table: pa.Table, release_id: str, digest: str) -> pa.Table:
    labels = {RELEASE_KEY: release_id.encode(), DIGEST_KEY: digest.encode()}
    return table.replace_schema_metadata(labels)


def _within(home: Path, part: Part) -> Path:
    """The directory of a part."""
    return home / f"{part.column}={part.value}"


def _place(table: pa.Table, attempt: Path, target: Path, *, aside: Path | None) -> None:
    """Write a copy to `attempt`, rename it to `target`; another publisher may be there first.

    What it revises goes `aside` first: for that moment the period is absent, and if the process is killed
    there, it stays so until the release is run again.
    """
    try:
        os.mkdir(attempt)
        write_new_parquet(table, attempt / FILE_NAME, 0o666)
        sync_directory(attempt)
        if aside is not None:
            os.rename(target, aside)
        os.rename(attempt, target)
        sync_directory(target.parent)
    except OSError as error:
        removed_by_a_faster_one = error.errno == errno.ENOENT and _is_taken(target)
        if error.errno not in _TAKEN and not removed_by_a_faster_one:
            raise
    finally:
        for mine in (attempt, aside):
            if mine is not None:
                shutil.rmtree(mine, ignore_errors=True)


def _require_own(target: Path, release_id: str, digest: str) -> None:
    """Refuse unless `target` holds this artefact and no other file that a reader would read."""
    labels = _labels(target)
    if labels is None or labels[RELEASE_KEY] != release_id.encode():
        raise _occupied(target, _owner(labels))
    if labels[DIGEST_KEY] != digest.encode():
        raise _occupied(target, f"another artefact of the same release {release_id}")


def _owner(labels: dict[bytes, bytes] | None) -> str:
    if labels is None:
        return "files that are no artefact of dp_spark"
    return f"release {labels[RELEASE_KEY].decode(errors='replace')}"


def _labels(target: Path) -> dict[bytes, bytes] | None:
    """Release id and digest of the artefact at `target`, or None where there is no such thing."""
    if not target.is_dir() or set(_visible(target)) != {FILE_NAME}:
        return None
    try:
        labels = pq.read_metadata(target / FILE_NAME).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    return labels if {RELEASE_KEY, DIGEST_KEY} <= labels.keys() else None


def _visible(target: Path) -> Iterator[str]:
    return (entry.name for entry in os.scandir(target) if entry.name[0] not in "._")


def _occupied(target: Path, holds: str) -> PublishRefused:
    return PublishRefused(
        "period_occupied",
        f"{target} holds {holds}; a period that is published is not replaced",
        way_out="a release of another name needs a path of its own. If the ledger was restored from a "
        "backup, leave the directory: it was charged, and a second one would show other noise. Else move it "
        "away and run the same key again",
    )


def _unwritable(home: Path, error: OSError) -> PublishRefused:
    across = error.errno == errno.EXDEV
    return PublishRefused(
        "sink_unwritable",
        f"cannot publish to {home}: "
        + ("it is a mount point" if across else error.strerror or type(error).__name__),
        way_out="give a directory below the mount point"
        if across
        else "give this user space and write access to it and to the directory above it; "
        "the artefact stays staged, run the same key again",
    )
