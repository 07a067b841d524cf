import errno
import hashlib
import json
import os
import stat
from dataclasses import replace

import pytest

from dp_spark.errors import LedgerRefused, Refusal, SetupRefused
from dp_spark.report import facts_html, file_digest, write_statement
from dp_spark.report import statement as module


def files_in(directory):
    return sorted(str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file())


def with_id(statement, release_id):
    return replace(statement, sealed=replace(statement.sealed, release_id=release_id))


def test_files_are_named_by_the_release(statement, tmp_path):
    paths = write_statement(with_id(statement, "people/daily/2013-W01/12"), tmp_path)
    assert files_in(tmp_path) == ["people/daily/2013-W01-r12.html", "people/daily/2013-W01-r12.json"]
    assert (paths.json.suffix, paths.html.suffix) == (".json", ".html")


def test_what_is_written_can_be_read(statement, tmp_path):
    paths = write_statement(statement, tmp_path)
    assert json.loads(paths.json.read_bytes()) == statement.as_json()
    assert paths.html.read_text("utf-8") == facts_html(statement)


def test_the_digest_of_a_file_is_its_sha_256(tmp_path):
    path = tmp_path / "page"
    path.write_bytes(b"abc")
    assert file_digest(path) == hashlib.sha256(b"abc").hexdigest()


def test_writing_again_gives_the_same_bytes(statement, tmp_path):
    first = [path.read_bytes() for path in each_path(write_statement(statement, tmp_path))]
    again = [path.read_bytes() for path in each_path(write_statement(statement, tmp_path))]
    elsewhere = [path.read_bytes() for path in each_path(write_statement(statement, tmp_path / "other"))]
    assert first == again == elsewhere


def each_path(paths):
    return paths.json, paths.html


def test_others_may_read_it(statement, tmp_path):
    for path in each_path(write_statement(statement, tmp_path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_crash_before_the_end_leaves_the_old_statement_whole(statement, tmp_path, monkeypatch):
    before = [path.read_bytes() for path in each_path(write_statement(statement, tmp_path))]
    names = files_in(tmp_path)

    def crash(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(SetupRefused, match="No space left"):
        write_statement(replace(statement, release="another"), tmp_path)
    assert files_in(tmp_path) == names
    paths = module.statement_paths(statement.sealed.release_id, tmp_path)
    assert [path.read_bytes() for path in each_path(paths)] == before


def test_a_plan_is_no_statement(facts, tmp_path):
    with pytest.raises(LedgerRefused) as refusal:
        write_statement(facts, tmp_path)
    assert refusal.value.code == "statement_without_release"
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    "release_id",
    [
        "",
        "a/b/c",
        "a/b/c/d",
        "a/b/c/-1",
        "a/b/c/1/0",
        "../b/c/0",
        "a/../c/0",
        "a//c/0",
        "a/b/c/\u0661",
        "a/b/c d/0",
    ],
)
def test_an_id_that_is_none_names_no_file(statement, tmp_path, release_id):
    with pytest.raises(Refusal):
        write_statement(with_id(statement, release_id), tmp_path)
    assert files_in(tmp_path) == []


def test_no_number_in_a_statement_is_beyond_json(statement):
    json.dumps(statement.as_json(), allow_nan=False)
