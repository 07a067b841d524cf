"""The digest of a batch of reports tells every change of what Spark would read, and needs the key."""

import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.publish import delete_batch, seal_batch, verify_batch

KEY = bytes(range(32))


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    home = tmp_path / "attempt-1"
    home.mkdir()
    (home / "_SUCCESS").touch()
    (home / ".part-0.parquet.crc").write_bytes(b"crc")
    for i in range(20):
        (home / f"part-{i}.parquet").write_bytes(bytes([i]) * i)
    return home


def test_the_digest_is_an_hmac_of_names_lengths_and_bytes(batch: Path) -> None:
    files = sorted(batch.glob("part-*"), key=lambda file: file.name.encode())
    told = b"dp_spark batch 1" + len(files).to_bytes(8, "big")
    for file in files:
        name, content = file.name.encode(), file.read_bytes()
        told += len(name).to_bytes(8, "big") + name + len(content).to_bytes(8, "big")
        told += hashlib.sha256(content).digest()
    assert seal_batch(batch, KEY) == hmac.new(KEY, told, "sha256").hexdigest()


def test_a_sealed_batch_is_its_owners_alone_and_verifies_again(batch: Path) -> None:
    digest = seal_batch(f"file:{batch}", KEY)
    assert batch.stat().st_mode & 0o777 == 0o700
    verify_batch(batch, digest, KEY)
    (batch / "_SUCCESS").unlink()  # what Spark does not read may go
    (batch / ".part-0.parquet.crc").unlink()
    verify_batch(batch, digest, KEY)
    with pytest.raises(PublishRefused, match="does not have the digest"):
        verify_batch(batch, digest, bytes(32))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda home: (home / "part-7.parquet").write_bytes(b"\7" * 6 + b"\x08"),
    "a name": lambda home: (home / "part-7.parquet").rename(home / "part-70.parquet"),
    "a file less": lambda home: (home / "part-7.parquet").unlink(),
    "a file more": lambda home: (home / "part-99.parquet").touch(),
    "two files exchanged": lambda home: exchange(home / "part-7.parquet", home / "part-8.parquet"),
    "a directory": lambda home: (home / "state=CA").mkdir(),
    "a link": lambda home: replace_by_link(home / "part-7.parquet"),
}


def exchange(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def replace_by_link(file: Path) -> None:
    aside = file.rename(file.with_name("_aside"))
    os.symlink(aside, file)


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(batch: Path, change: str) -> None:
    digest = seal_batch(batch, KEY)
    CHANGES[change](batch)
    with pytest.raises(PublishRefused, match="does not have the digest"):
        verify_batch(batch, digest, KEY)


def test_a_batch_that_is_gone_is_told_from_one_that_is_damaged(batch: Path) -> None:
    digest = seal_batch(batch, KEY)
    delete_batch(batch)
    delete_batch(batch)  # once more changes nothing
    assert not batch.exists()
    with pytest.raises(PublishRefused, match="is missing"):
        verify_batch(batch, digest, KEY)


def test_a_file_that_vanishes_meanwhile_does_not_save_the_others(
    batch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when Spark's committer renames a file of an attempt that is being deleted."""
    unlink = os.unlink
    vanished: list[str] = []

    def after_another(name: str, *, dir_fd: int | None = None) -> None:
        if not vanished:
            vanished.append(name)
            unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", after_another)
    delete_batch(batch)
    assert vanished
    assert list(batch.parent.iterdir()) == []


def test_a_writer_that_comes_again_is_told_from_a_batch_that_is_gone(
    batch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a writer that makes the directory anew, once, and then for ever."""
    rename, comes_again = Path.rename, [True]

    def and_write(path: Path, target: Path) -> Path:
        renamed = rename(path, target)
        if comes_again[0]:
            (path / "_temporary").mkdir(parents=True)
        return renamed

    monkeypatch.setattr(Path, "rename", and_write)
    with pytest.raises(SetupRefused, match="others write there"):
        delete_batch(batch)
    comes_again[0] = False
    delete_batch(batch)
    assert list(batch.parent.iterdir()) == []


def test_what_a_killed_removal_left_goes_with_the_next(batch: Path) -> None:
    batch.rename(batch.with_name(f"{batch.name}.removed-0011"))
    delete_batch(batch)
    assert list(batch.parent.iterdir()) == []


def test_where_a_link_leads_nothing_is_deleted(batch: Path) -> None:
    link = batch.with_name("batch-9-text")
    link.symlink_to(batch)
    with pytest.raises(SetupRefused, match="no directory"):
        delete_batch(link)
    assert (link.is_symlink(), len(list(batch.glob("part-*")))) == (True, 20)


def test_what_cannot_be_sealed_is_refused(batch: Path) -> None:
    with pytest.raises(PublishRefused, match="s3a"):
        seal_batch("s3a://bucket/batch", KEY)
    with pytest.raises(SetupRefused, match="cannot be read"):
        seal_batch(batch / "nothing", KEY)
    (batch / "state=CA").mkdir()
    with pytest.raises(SetupRefused, match="no file"):
        seal_batch(batch, KEY)
