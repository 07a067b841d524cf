"""Batches of reports in the restricted zone: directories of Parquet files, told by a keyed digest.

The digest is of names and bytes of its files, and nothing else may be there that Spark could read. Whoever
can write there and has not the key can change no report unseen.
"""

import errno
import glob
import hashlib
import hmac
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.publish.durable import sync_directory
from dp_spark.publish.parquet import local_root

_DIGEST_FORMAT = b"dp_spark batch 1"
_HIDDEN = ("_", ".")
_AT_ONCE = 8
_ASIDE = ".removed-"  # in the name of a batch that is being removed: a text follows that nobody knows
_TRIES = 20  # to remove what others write or remove meanwhile
_LENGTH_BYTES = 8


def seal_batch(directory: Path | str, key: bytes) -> str:
    """The digest of a batch just written, which is on the disk and its owner's alone when this returns.

    Raises:
        PublishRefused: the directory is in an object store.
        SetupRefused: it cannot be read, or holds what is no file.
    """
    home = local_root(directory)
    try:
        home.chmod(0o700)
        files = _files(home)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_sync_file, files))
        digest = _digest(files, key)
        sync_directory(home)
        sync_directory(home.parent)
    except OSError as error:
        raise _unusable(home, error) from None
    return digest


def verify_batch(directory: Path | str, digest: str, key: bytes) -> None:
    """Check that a batch is as it was sealed.

    Raises:
        PublishRefused: it is missing, or a file was changed, renamed, added or removed.
    """
    home = local_root(directory)
    try:
        intact = hmac.compare_digest(_digest(_files(home), key), digest)
    except FileNotFoundError:
        raise _lost(home, "batch_missing", "is missing, or a file of it vanished") from None
    except OSError:
        intact = False
    if not intact:
        raise _lost(home, "batch_damaged", "does not have the digest that the ledger recorded")


def count_reports(directory: Path | str) -> int:
    """The reports of a batch, from the footers of its files.

    Raises:
        SetupRefused: a file is no Parquet file, or cannot be read.
    """
    home = local_root(directory)
    try:
        return sum(pq.read_metadata(file).num_rows for file in _files(home))
    except OSError as error:
        raise _unusable(home, error) from None


def delete_batch(directory: Path | str) -> None:
    """Remove a batch, or what an attempt left of one, and what earlier removals of it have left.

    It goes under another name first: a writer that is still at work finds nothing to add to. When this
    returns the directory is not there; that a file in it vanished meanwhile says nothing of the others.

    Raises:
        PublishRefused: the directory is in an object store.
        SetupRefused: something of it cannot be removed, or comes again as often as it is; or it is a link,
            which may lead to anything.
    """
    named = Path(directory)
    home = local_root(named.parent) / named.name
    try:
        for _ in range(_TRIES):
            _rename_aside(home)
            for aside in _asides(home):
                with suppress(FileNotFoundError):  # somebody else removes it, too: look again
                    shutil.rmtree(aside)
            if not os.path.lexists(home) and not _asides(home):
                break
        else:
            raise OSError(errno.EBUSY, "others write there while it is removed")
        if home.parent.exists():
            sync_directory(home.parent)
    except OSError as error:
        raise _unusable(home, error) from None


def _rename_aside(home: Path) -> None:
    """Give the directory a name that no writer knows, if it is there."""
    if home.is_symlink() or (home.exists() and not home.is_dir()):
        raise OSError(errno.ENOTDIR, "it is no directory")
    with suppress(FileNotFoundError):
        home.rename(home.with_name(f"{home.name}{_ASIDE}{os.urandom(8).hex()}"))


def _asides(home: Path) -> list[Path]:
    """What removals have renamed: it goes with the batch, however often they were killed."""
    return [*home.parent.glob(f"{glob.escape(home.name + _ASIDE)}*")]


def _files(home: Path) -> list[Path]:
    """The files of a batch, by name, beside those that Spark writes about them.

    Whatever else is there, also a link or a directory, is refused: Spark may read it, as it does names that
    begin with `_` and hold `=`.
    """
    found = sorted((each for each in os.scandir(home) if not _is_about(each.name)), key=_name)
    if not all(each.is_file(follow_symlinks=False) and _is_part(each.name) for each in found):
        raise OSError(0, "something in it is no file of a batch")
    return [Path(each.path) for each in found]


def _is_about(name: str) -> bool:
    """Whether it is what Spark writes beside a batch: that it is whole, and checksums."""
    return name == "_SUCCESS" or (name.startswith(".") and name.endswith(".crc"))


def _is_part(name: str) -> bool:
    return not name.startswith(_HIDDEN) and "=" not in name


def _name(entry: "os.DirEntry[str]") -> bytes:
    return os.fsencode(entry.name)


def _digest(files: Sequence[Path], key: bytes) -> str:
    """HMAC-SHA256, in hexadecimal, over the number of files and of each its name, length and SHA-256."""
    state = hmac.new(key, _DIGEST_FORMAT, hashlib.sha256)
    state.update(len(files).to_bytes(_LENGTH_BYTES, "big"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for file, (length, content) in zip(files, pool.map(_hashed, files), strict=True):
            name = os.fsencode(file.name)
            state.update(len(name).to_bytes(_LENGTH_BYTES, "big") + name)
            state.update(length.to_bytes(_LENGTH_BYTES, "big") + content)
    return state.hexdigest()


def _hashed(file: Path) -> tuple[int, bytes]:
    """Length and SHA-256 of the bytes that were read."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256")
        return opened.tell(), digest.digest()


def _sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(home: Path, error: OSError) -> SetupRefused:
    return SetupRefused(
        "batch_unusable",
        f"the batch of reports at {home} cannot be read, kept or removed: "
        f"{error.strerror or type(error).__name__}",
        way_out="give the restricted zone space and this user write access, then run the same wave again",
    )


def _lost(home: Path, code: str, fault: str) -> PublishRefused:
    return PublishRefused(
        code,
        f"the batch of reports at {home} {fault}",
        way_out="restore the directory from a backup of the restricted zone; without one the wave cannot be "
        "closed: abandon it (dp-spark survey abandon); asking again is a new wave with a new charge",
    )
