import random
import re
import sqlite3
import stat
from contextlib import closing

import pytest
from ledger_support import (
    LINE,
    MASTER_KEY,
    POPULATION,
    SqlitePlace,
    brought_to,
    fund,
    guarantee,
    reserve,
    url_of,
)

from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.release.ledger import (
    Ledger,
    ReleaseState,
    create_ledger,
    create_master_key_file,
    load_master_key,
    sqlite,
)


def bytes_on_disk(path):
    return b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))


def wrapped_keys(place):
    return [row[0] for row in place.sql("SELECT wrapped FROM release_keys ORDER BY release")]


def test_a_release_has_one_key_and_two_releases_two(ledger):
    first = reserve(ledger, "day-0")
    key = ledger.release_key(first)
    again = reserve(ledger, "day-0")
    ledger.start_reading(again)
    assert len(key) == 32
    assert ledger.release_key(again) == key
    assert ledger.release_key(reserve(ledger, "day-1")) != key


@pytest.mark.parametrize("start", LINE[2:])
def test_the_key_is_refused_from_staged_on(ledger, start):
    claim = brought_to(ledger, start)
    with pytest.raises(LedgerRefused) as refused:
        ledger.release_key(claim)
    assert refused.value.code == "key_destroyed"


def test_a_staged_key_is_on_disk_no_more(file_ledger, path):
    brought_to(file_ledger, ReleaseState.READING)
    (wrapped,) = wrapped_keys(SqlitePlace(path))
    assert wrapped in bytes_on_disk(path)
    assert file_ledger.stage(reserve(file_ledger), "digest-1", "staging/1").log_erased
    assert wrapped not in bytes_on_disk(path)


def test_a_staged_key_leaves_the_log_while_another_connection_is_open(file_ledger, path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT count(*) FROM releases").fetchall()
        claim = brought_to(file_ledger, ReleaseState.READING)
        (wrapped,) = wrapped_keys(SqlitePlace(path))
        assert wrapped in path.with_name("ledger.db-wal").read_bytes()
        assert file_ledger.stage(claim, "digest-1", "staging/1").log_erased
        assert wrapped not in bytes_on_disk(path)


def test_a_reader_in_the_way_delays_the_erasure_and_not_the_stage(file_ledger, path, monkeypatch):
    monkeypatch.setattr(sqlite, "_CHECKPOINT_TRIES", 1)
    monkeypatch.setattr(sqlite, "_CHECKPOINT_SECONDS", 0)
    claim = brought_to(file_ledger, ReleaseState.READING)
    (wrapped,) = wrapped_keys(SqlitePlace(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM releases").fetchall()
        outcome = file_ledger.stage(claim, "digest-1", "staging/1")
    assert (outcome.won, outcome.log_erased) == (True, False)
    file_ledger.budget(POPULATION)
    assert wrapped not in bytes_on_disk(path)


def test_no_page_keeps_a_copy_of_a_key_whatever_the_order(file_ledger, path, monkeypatch):
    ledger = file_ledger
    without_sync = [each for each in sqlite._PRAGMAS if not each.startswith("synchronous")]
    monkeypatch.setattr(sqlite, "_PRAGMAS", (*without_sync, "synchronous=OFF"))
    fund(ledger, 100)
    rng = random.Random(1)
    keys, waiting = {}, []
    for day in range(120):
        claim = reserve(ledger, f"day-{day}", plan_bytes=rng.randbytes(rng.choice((50, 900, 5000))))
        ledger.start_reading(claim)
        keys[day] = wrapped_keys(SqlitePlace(path))[-1]
        waiting.append((day, claim))
        if day % 3:
            ledger.stage(waiting.pop(rng.randrange(len(waiting)))[1], "d", f"staging/{day}")
    live = {day for day, _ in waiting}
    disk = bytes_on_disk(path)
    # Any 16 bytes from the middle of a wrapped key count as a copy.
    assert {day for day, wrapped in keys.items() if wrapped[20:36] in disk} == live


def test_a_wrapped_key_opens_only_for_its_own_release(ledger, place):
    first, second = reserve(ledger, "day-0"), reserve(ledger, "day-1")
    one, two = wrapped_keys(place)
    place.sql("UPDATE release_keys SET wrapped = ? WHERE release = 1", two)
    with pytest.raises(SetupRefused) as refused:
        ledger.release_key(first)
    assert refused.value.code == "key_unreadable"
    assert one.hex() not in str(refused.value)
    assert ledger.release_key(second)


def test_a_ledger_knows_its_master_key(ledger, place):
    reserve(ledger)
    with pytest.raises(SetupRefused) as refused:
        Ledger.open(place.url, bytes(32))
    assert refused.value.code == "wrong_master_key"


def test_a_ledger_opened_before_its_first_release_still_refuses_a_second_master_key(ledger, place):
    other = Ledger.open(place.url, bytes(32))
    reserve(ledger, "day-0")
    with pytest.raises(SetupRefused) as refused:
        reserve(other, "day-1")
    assert refused.value.code == "wrong_master_key"


def test_a_short_master_key_is_refused(path):
    create_ledger(url_of(path))
    with pytest.raises(SetupRefused):
        Ledger.open(url_of(path), MASTER_KEY[:31])


def test_a_master_key_file_is_private_and_loads(tmp_path):
    file = tmp_path / "master.key"
    create_master_key_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}\n", file.read_text())
    assert load_master_key(f"file:{file}").hex() == file.read_text().strip()


def test_a_master_key_file_is_never_replaced(tmp_path):
    file = tmp_path / "master.key"
    create_master_key_file(file)
    before = file.read_text()
    with pytest.raises(SetupRefused):
        create_master_key_file(file)
    assert file.read_text() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_master_key_file_that_others_can_open_is_refused(tmp_path, mode):
    file = tmp_path / "master.key"
    create_master_key_file(file)
    file.chmod(mode)
    with pytest.raises(SetupRefused, match="chmod 600"):
        load_master_key(f"file:{file}")


def test_a_master_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("DP_KEY", MASTER_KEY.hex())
    assert load_master_key("env:DP_KEY") == MASTER_KEY


def test_a_master_key_comes_from_a_command(tmp_path):
    script = tmp_path / "key.sh"
    script.write_text(f"echo {MASTER_KEY.hex()}")
    assert load_master_key(f"command:sh {script}") == MASTER_KEY
    assert load_master_key(f"command:sh {script} | false") == MASTER_KEY  # no shell reads the line
    with pytest.raises(SetupRefused) as refused:
        load_master_key("command:printenv --version")
    assert "Free Software" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "abc", "g" * 64, "a" * 63, "a" * 65, "a" * 32 + " " + "a" * 32, "é"])
def test_what_is_no_key_is_refused_and_not_quoted(tmp_path, monkeypatch, content):
    file = tmp_path / "master.key"
    file.write_text(content)
    file.chmod(0o600)
    monkeypatch.setenv("DP_KEY", content)
    for reference in (f"file:{file}", "env:DP_KEY"):
        with pytest.raises(SetupRefused) as refused:
            load_master_key(reference)
        assert len(content) < 32 or content not in str(refused.value)


@pytest.mark.parametrize("form", ["{}", "env:{}", "file:{}", "{}:", "hex:{}"])
def test_a_key_pasted_as_a_reference_is_not_quoted(form):
    key = "ab" * 32
    with pytest.raises(SetupRefused) as refused:
        load_master_key(form.format(key))
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    "reference",
    ["file:/nowhere/master.key", "env:DP_NOT_SET", "file:", "vault:x", "", "command:false", "command:'"],
)
def test_a_reference_that_leads_nowhere_is_refused(reference):
    with pytest.raises(SetupRefused):
        load_master_key(reference)


def test_no_value_that_the_ledger_hands_out_prints_keys_or_plans(ledger):
    claim = reserve(ledger, charge=guarantee("0.1"), plan_bytes=b"a-long-plan")
    assert "a-long-plan" not in repr(claim)
    assert MASTER_KEY.hex() not in repr(ledger)
    assert repr(MASTER_KEY) not in repr(ledger)
