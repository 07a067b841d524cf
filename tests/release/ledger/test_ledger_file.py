import errno
import os
import sqlite3
import stat
from contextlib import closing

import pytest
from ledger_support import MASTER_KEY, POPULATION, reserve, sql, url_of

from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.release.ledger import Ledger, create_ledger, sqlite
from dp_spark.release.ledger.sqlite import ledger_engine


def open_code(path):
    with pytest.raises(SetupRefused) as refused:
        Ledger.open(url_of(path), MASTER_KEY)
    return refused.value.code


def test_creating_a_ledger_again_keeps_it(file_ledger, path):
    reserve(file_ledger)
    create_ledger(url_of(path))
    assert file_ledger.budget(POPULATION).spent.epsilon > 0


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_ledger_and_log_are_private(path, umask):
    before = os.umask(umask)
    try:
        create_ledger(url_of(path))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            files = list(path.parent.iterdir())
            modes = {stat.S_IMODE(file.stat().st_mode) for file in files}
    finally:
        os.umask(before)
    assert {file.name for file in files} == {"ledger.db", "ledger.db-wal", "ledger.db-shm"}
    assert modes == {0o600}


def test_a_ledger_in_a_missing_directory_is_refused(tmp_path):
    path = tmp_path / "missing" / "ledger.db"
    with pytest.raises(SetupRefused, match="mkdir") as refused:
        create_ledger(url_of(path))
    assert refused.value.code == "directory_missing"
    assert open_code(path) == "ledger_missing"
    assert not path.parent.exists()


def test_a_place_that_takes_no_ledger_is_refused_and_left_clean(path, monkeypatch):
    def link(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(SetupRefused, match="Operation not permitted"):
        create_ledger(url_of(path))
    assert list(path.parent.iterdir()) == []


def test_opening_never_creates_a_ledger(path):
    with pytest.raises(SetupRefused, match="dp-spark ledger init"):
        Ledger.open(url_of(path), MASTER_KEY)
    assert not path.exists()


def test_a_ledger_that_vanishes_is_not_created_anew(file_ledger, path):
    path.unlink()
    with pytest.raises(SetupRefused) as refused:
        reserve(file_ledger)
    assert refused.value.code == "ledger_unavailable"
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(SetupRefused):
        create_ledger(url_of(path))
    assert open_code(path) in {"not_a_ledger", "ledger_damaged"}
    assert path.read_bytes() == content


def test_another_database_is_refused_and_left_alone(path):
    sql(path, "CREATE TABLE shopping (item TEXT)")
    before = path.read_bytes()
    with pytest.raises(SetupRefused):
        create_ledger(url_of(path))
    assert open_code(path) == "not_a_ledger"
    assert path.read_bytes() == before


def test_another_schema_version_is_refused(file_ledger, path):
    sql(path, "UPDATE alembic_version SET version_num = '9999'")
    assert open_code(path) == "ledger_version"


@pytest.mark.parametrize("where", [0, 100, 4096 + 1, 8 * 4096])
def test_a_damaged_file_is_refused(file_ledger, path, where):
    reserve(file_ledger, plan_bytes=bytes(20_000))
    with path.open("r+b") as file:
        file.seek(where)
        file.write(os.urandom(4000))
    assert open_code(path) == "ledger_damaged"


def test_a_truncated_file_is_refused(file_ledger, path):
    reserve(file_ledger, plan_bytes=bytes(20_000))
    os.truncate(path, path.stat().st_size // 2)
    assert open_code(path) == "ledger_damaged"


def test_damage_under_an_open_ledger_is_refused(file_ledger, path):
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(SetupRefused) as refused:
        reserve(file_ledger)
    assert refused.value.code == "ledger_damaged"


def test_a_locked_ledger_is_a_refusal(file_ledger, path, monkeypatch):
    monkeypatch.setattr(sqlite, "_PRAGMAS", ("busy_timeout=50",))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerRefused) as refused:
            reserve(file_ledger)
        assert refused.value.code == "ledger_busy"
        assert file_ledger.budget(POPULATION).spent.epsilon == 0
    assert reserve(file_ledger).charged_now


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?uri=true",
        "no url",
        "postgresql://u:hunter2@h/d",
        "postgresql+psycopg://u:hunter2@h/d",
    ],
)
def test_a_url_that_names_no_ledger_is_refused_without_its_password(url):
    with pytest.raises(SetupRefused) as refused:
        create_ledger(url)
    assert refused.value.code == "ledger_url"
    assert "hunter2" not in str(refused.value)


def test_a_path_with_signs_that_urls_use_is_a_path(tmp_path):
    path = tmp_path / "a b#c"
    create_ledger(url_of(path))
    assert [file.name for file in tmp_path.iterdir()] == ["a b#c"]


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("busy_timeout", 30_000),
        ("secure_delete", 1),
    ],
)
def test_every_connection_has_the_settings(file_ledger, path, pragma, value):
    with ledger_engine(path).connect() as connection:
        assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value


def test_an_error_text_carries_no_parameters(file_ledger, path):
    with pytest.raises(Exception, match="hidden") as refused, ledger_engine(path).begin() as connection:
        connection.exec_driver_sql("INSERT INTO release_keys VALUES (?, ?)", (99, b"wrapped-key-bytes"))
    assert "wrapped-key-bytes" not in str(refused.value)
