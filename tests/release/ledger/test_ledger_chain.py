"""The chain finds every edit, addition and deletion behind the ledger's back, and says what it cannot."""

import json

import pytest
from ledger_support import MASTER_KEY, POPULATION, brought_to, delete, guarantee, reserve, without_guard
from schedule_support import noise as noise_of_table
from schedule_support import table as frozen
from survey_support import SURVEY_TABLES

from dp_spark.errors import SpecRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyUnit
from dp_spark.noise import Gaussian
from dp_spark.release.ledger import (
    Decision,
    Head,
    Ledger,
    Receipt,
    ReleaseId,
    ReleaseState,
    Schedule,
    Standing,
    store,
)
from dp_spark.release.ledger.rows import update
from dp_spark.release.ledger.terms import Enrolled, add_schedule
from dp_spark.release.spec import PeriodSpec, PoolKind

TABLES = [table for table in store.metadata.sorted_tables if table not in {store.links, *SURVEY_TABLES}]


@pytest.fixture
def written(ledger):
    """A ledger with a row in every table but those of surveys, which have a test of their own."""
    brought_to(ledger, ReleaseState.SEALED)
    ledger.add_source("/data/flights", POPULATION)
    ledger.decide(reserve(ledger, "2013-01-02").release_id, Decision.ABORT, "a test")
    day = PrivacyUnit(("tailnum",), Every.DAY)
    ledger.set_budget(
        "days", guarantee(1, "1e-6"), unit=day, neighbours=Neighbours.ADD_REMOVE, reason="a test"
    )
    ledger.set_pools("days", {PoolKind.SUMS: guarantee("0.5", "1e-7")}, reason="a test")
    ledger.set_window("days", Every.MONTH, guarantee("0.5", "1e-7"), reason="a test")
    unproved(ledger, "days", "nightly")
    release = ReleaseId("days", "flights", "2013-01-01")
    reserve(ledger, release_id=release, unit=day, period=PeriodSpec(column="date", every="day"))
    return ledger


def unproved(ledger, population, name):
    """A schedule beside which nothing fits, with what a pool might have paid."""
    noise = noise_of_table(frozen(Gaussian(), 1, 8))
    receipt = Receipt(pool=PoolKind.SUMS)
    new = Enrolled(Schedule(name, noise, 3), "spec-1", b"plan-1", receipt)
    ledger._write(lambda connection: add_schedule(connection, population, new))


def without_guards(place):
    """Whoever owns the database can switch its triggers off."""
    for table in (
        "account_changes",
        "budget_changes",
        "decisions",
        "events",
        "links",
        "partitions",
        "sources",
    ):
        without_guard(place, table)


def test_an_untouched_ledger_verifies_to_its_last_row(written, place):
    verdict = written.verify()
    assert verdict.findings == ()
    assert verdict.rows == sum(place.sql(f"SELECT count(*) FROM {table.name}")[0][0] for table in TABLES)
    assert str(verdict.head) == ":".join(
        map(str, place.sql("SELECT number, mac FROM links ORDER BY number DESC LIMIT 1")[0])
    )


@pytest.mark.parametrize(
    "column", [c for table in TABLES for c in table.columns if not c.primary_key], ids=str
)
def test_an_edit_of_any_column_is_found(written, place, column):
    without_guards(place)
    numeric = column.type.python_type is int
    if column.foreign_keys and not numeric:
        pytest.skip("the database itself refuses")
    value = 77 if numeric else b"edited" if column.type.python_type is bytes else "edited"
    table, key = column.table.name, next(iter(column.table.primary_key)).name
    here = f"{key} = (SELECT min({key}) FROM {table})"
    if column.foreign_keys:
        place.sql(f"UPDATE {table} SET release = 3 - release WHERE {here}")  # the other of two
    else:
        place.sql(f"UPDATE {table} SET {column.name} = ? WHERE {here}", value)
    findings = written.verify().findings
    assert findings
    assert all(finding.startswith(f"row {column.table.name} ") for finding in findings)
    assert "edited" not in "".join(findings)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_deleted_row_is_found(written, place, table):
    without_guards(place)
    key = next(iter(table.primary_key)).name
    delete(place, table.name, f"{key} = (SELECT min({key}) FROM {table.name})")
    assert any(f"row {table.name} " in each and "was deleted" in each for each in written.verify().findings)


def test_an_added_row_is_found(written, place):
    place.sql("INSERT INTO accounts VALUES ('mine', 'row', 'add_remove', '9/1', '0/1')")
    assert written.verify().findings == ('row accounts ["mine"] was added behind the ledger\'s back',)


@pytest.mark.parametrize("column", ["touched", "at", "mac"])
def test_an_edited_link_is_found(written, place, column):
    without_guards(place)
    place.sql(f"UPDATE links SET {column} = '[]' WHERE number = 3")
    assert "link 3 was altered, or the link before it" in written.verify().findings


@pytest.mark.parametrize("number", [1, 4])
def test_a_missing_link_is_found(written, place, number):
    without_guards(place)
    place.sql("DELETE FROM links WHERE number = ?", number)
    assert any("missing" in finding for finding in written.verify().findings)


def test_whoever_lacks_the_master_key_cannot_write_a_link(written, place):
    """An edit with a link of its own, made with all that the database tells."""
    from dp_spark.release.ledger.chain import append_link
    from dp_spark.release.ledger.database import database_of

    def forge(connection):
        update(connection, store.releases, store.releases.c.id == 1, charge_epsilon="0/1")
        append_link(connection, bytes(32), "2026-01-01")

    database_of(place.url).write(forge)
    assert any("was altered, or the link" in finding for finding in written.verify().findings)


def test_the_last_links_and_their_rows_may_be_cut_off_unnoticed_unless_a_head_was_kept(written, place):
    kept = written.head()
    assert written.verify(kept).findings == ()
    without_guards(place)
    number = kept.number
    before = written.verify()
    standings = place.sql("SELECT population, label, standing FROM standings")
    reserve(written, "2013-01-03", charge=guarantee("0.1"))
    later = written.head()
    assert later.number == number + 1
    for table, key, _ in json.loads(
        place.sql("SELECT touched FROM links ORDER BY number DESC LIMIT 1")[0][0]
    ):
        if table == "standings":
            continue
        columns = [column.name for column in store.metadata.tables[table].primary_key]
        delete(place, table, " AND ".join(f"{c} = '{v}'" for c, v in zip(columns, key, strict=True)))
    for population, label, standing in standings:
        put = "UPDATE standings SET standing = ? WHERE population = ? AND label = ?"
        place.sql(put, standing, population, label)
    place.sql("DELETE FROM links WHERE number = ?", later.number)
    assert written.verify() == before  # put back whole: nothing to see
    assert written.verify(later).findings == (
        f"link {later.number} is not the one that was kept: the ledger was put back",
    )


def test_a_sum_that_a_runner_has_lowered_is_found_from_what_the_releases_took(written):
    """With a link of its own: a runner holds the master key."""
    table, nothing = store.standings, Standing().to_text()
    mine = table.c.population == POPULATION
    written._write(lambda connection: update(connection, table, mine, standing=nothing))
    assert written.verify().findings == (
        f'row standings ["{POPULATION}", ""] holds less than its releases took',
    )


def test_every_write_leaves_a_link_and_a_read_none(ledger):
    before = ledger.head().number
    claim = reserve(ledger)
    ledger.start_reading(claim)
    ledger.find(claim.release_id)
    assert ledger.head().number == before + 2


def test_a_head_reads_back(ledger):
    assert Head.parse(str(ledger.head())) == ledger.head()
    for text in ("", "1", "x:" + "0" * 64, "1:abc"):
        with pytest.raises(SpecRefused):
            Head.parse(text)


def test_no_other_module_writes_rows():
    from pathlib import Path

    from dp_spark.release import ledger

    for module in Path(ledger.__file__).parent.glob("*.py"):
        text = module.read_text()
        writes = ("sa.insert(", "sa.update(", "sa.delete(", "INSERT ", "DELETE FROM")
        allowed = {"rows.py": 2, "chain.py": 1, "schema.py": 1}
        assert sum(text.count(each) for each in writes) == allowed.get(module.name, 0), module


def test_the_chain_needs_the_master_key(written, place):
    assert Ledger.open(place.url, MASTER_KEY).verify().findings == ()
