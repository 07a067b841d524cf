"""The life of a wave: batches by number, one counts artefact, a key that goes, what may follow what."""

import random
from itertools import zip_longest

import pytest
from ledger_support import MASTER_KEY, SqlitePlace, delete, reserve, without_guard
from survey_support import (
    COUNTS,
    ESTIMATES,
    PEOPLE,
    SINK,
    STATEMENT,
    SURVEY,
    SURVEY_TABLES,
    add_batch,
    batch_of,
    limit_survey,
    opened,
    publish,
    wave_brought_to,
    wave_of,
)

from dp_spark.errors import LedgerRefused, Refusal, SetupRefused
from dp_spark.release.ledger import BatchClaim, Ledger, ReleaseId, StoredFile, WaveState, sqlite, store
from dp_spark.release.ledger.rows import insert, update

OTHER = StoredFile("staging/other", "digest-o")
APPENDED = ("survey_changes", "wave_batches", "wave_events", "wave_decisions")


@pytest.fixture
def surveys(empty_ledger):
    limit_survey(empty_ledger)
    return empty_ledger


def code_of(action, *args):
    with pytest.raises(Refusal) as refused:
        action(*args)
    return refused.value.code


def test_batches_are_numbered_from_one_and_kept_in_order(surveys):
    wave = opened(surveys).wave_id
    assert [add_batch(surveys, wave) for _ in range(3)] == [True] * 3
    record = surveys.wave(wave)
    assert [batch.number for batch in record.batches] == [1, 2, 3]
    assert (record.reports, record.closed_at) == (30, None)


def test_of_two_batches_of_one_number_the_first_to_come_is_the_waves(surveys):
    """Whichever was begun first: the number decides, not the fence."""
    wave = opened(surveys).wave_id
    older, newer = surveys.begin_batch(wave), surveys.begin_batch(wave)
    assert (older.number, newer.number, older.fence, newer.fence) == (1, 1, 1, 2)
    assert surveys.commit_batch(older, batch_of(older))
    assert not surveys.commit_batch(newer, batch_of(newer))
    assert surveys.commit_batch(older, batch_of(older))  # told again what happened
    assert surveys.wave(wave).batches == (batch_of(older),)
    assert surveys.begin_batch(wave) == BatchClaim(wave, 2, 3)


def test_a_batch_that_is_not_the_claims_is_refused(surveys):
    wave = opened(surveys).wave_id
    claim = surveys.begin_batch(wave)
    foreign = BatchClaim(wave, 2, claim.fence)
    future = BatchClaim(wave, 1, claim.fence + 1)
    assert code_of(surveys.commit_batch, foreign, batch_of(foreign)) == "unknown_claim"
    assert code_of(surveys.commit_batch, future, batch_of(future)) == "unknown_claim"
    assert code_of(surveys.commit_batch, claim, batch_of(foreign)) == "other_batch"
    assert code_of(surveys.commit_batch, claim, batch_of(claim, reports=-1)) == "other_batch"
    assert surveys.commit_batch(claim, batch_of(claim, reports=0))


def test_a_wave_closes_with_all_its_batches_or_not_at_all(surveys):
    wave = opened(surveys).wave_id
    add_batch(surveys, wave)
    for counted in (0, 2):
        assert code_of(surveys.close_wave, wave, counted, COUNTS) == "other_batches"
    assert surveys.wave(wave).state is WaveState.OPEN
    assert surveys.close_wave(wave, 1, COUNTS) == COUNTS
    assert surveys.close_wave(wave, 1, OTHER) == COUNTS
    record = surveys.wave(wave)
    assert (record.state, record.counts, record.closed_at is None) == (WaveState.CLOSED, COUNTS, False)


@pytest.mark.parametrize("state", [WaveState.CLOSED, WaveState.SEALED])
def test_a_wave_that_is_closed_takes_no_answer_and_gives_no_key(surveys, state):
    wave = opened(surveys, "2024q1").wave_id
    claim = surveys.begin_batch(wave)
    wave_brought_to(surveys, state)
    for action in (
        lambda: surveys.begin_batch(wave),
        lambda: surveys.commit_batch(BatchClaim(wave, 3, claim.fence), batch_of(claim)),
        lambda: surveys.wave_key(wave),
    ):
        assert code_of(action) == "wave_closed"
    assert len(surveys.report_key(wave)) == 32


def test_estimates_are_those_that_come_first_and_only_of_a_closed_wave(surveys):
    wave = opened(surveys).wave_id
    assert code_of(surveys.stage_estimates, wave, ESTIMATES) == "wave_open"
    surveys.close_wave(wave, 0, COUNTS)
    assert surveys.stage_estimates(wave, ESTIMATES) == ESTIMATES
    assert surveys.stage_estimates(wave, OTHER) == ESTIMATES


def test_what_follows_what(surveys):
    wave = opened(surveys).wave_id
    steps = {
        "hold": lambda: surveys.hold_wave(wave, ["history"]),
        "record": lambda: surveys.record_wave_publication(wave, SINK, "out", ESTIMATES.digest),
        "publish": lambda: surveys.publish_wave(wave, [SINK]),
        "seal": lambda: surveys.seal_wave(wave, STATEMENT),
    }
    for step in steps.values():
        assert code_of(step) == "illegal_step"
    surveys.close_wave(wave, 0, COUNTS)
    for step in steps.values():
        assert code_of(step) == "illegal_step"  # nothing is estimated yet
    surveys.stage_estimates(wave, ESTIMATES)
    assert code_of(steps["seal"]) == "illegal_step"
    assert code_of(steps["publish"]) == "sinks_missing"
    for step in ("record", "publish", "record", "publish", "seal", "seal", "publish", "record"):
        steps[step]()
    assert code_of(steps["hold"]) == "illegal_step"
    record = surveys.wave(wave)
    assert (record.state, dict(record.publications)) == (WaveState.SEALED, {SINK: "out"})
    assert record.statement == STATEMENT == surveys.seal_wave(wave, OTHER)
    assert code_of(surveys.record_wave_publication, wave, "late", "out", COUNTS.digest) == "illegal_step"


def test_a_sink_has_one_copy_of_what_is_staged(surveys):
    wave = wave_brought_to(surveys, WaveState.CLOSED)
    assert code_of(surveys.record_wave_publication, wave, SINK, "out", OTHER.digest) == "other_copy"
    surveys.record_wave_publication(wave, SINK, "out", COUNTS.digest)
    for target, digest in (("elsewhere", COUNTS.digest), ("out", ESTIMATES.digest)):
        assert code_of(surveys.record_wave_publication, wave, SINK, target, digest) == "other_copy"


def test_a_held_wave_is_published_by_decision_only(surveys):
    wave = wave_brought_to(surveys, WaveState.HELD)
    surveys.hold_wave(wave, ["history"])
    assert not surveys.wave(wave).cleared
    assert code_of(publish, surveys, wave) == "wave_held"
    assert code_of(surveys.clear_wave, wave, " ") == "reason_missing"
    surveys.clear_wave(wave, "the gate was wrong")
    assert surveys.wave(wave).cleared
    publish(surveys, wave)
    assert code_of(surveys.clear_wave, wave, "again") == "illegal_step"


def test_keys_are_each_waves_own_and_of_two_kinds(surveys, place):
    first, second = (opened(surveys, wave).wave_id for wave in ("w1", "w2"))
    keys = {ask(wave) for ask in (surveys.wave_key, surveys.report_key) for wave in (first, second)}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}
    again = Ledger.open(place.url, MASTER_KEY)
    assert {again.wave_key(first), again.report_key(first)} <= keys
    two = place.sql("SELECT wrapped FROM wave_keys WHERE wave = 2")[0][0]
    place.sql("UPDATE wave_keys SET wrapped = ? WHERE wave = 1", two)
    with pytest.raises(SetupRefused, match="key of survey wave us_persons/work_status/w1"):
        surveys.wave_key(first)


def test_a_wave_binds_the_ledger_to_its_master_key(surveys, place):
    opened(surveys)
    with pytest.raises(SetupRefused) as refused:
        Ledger.open(place.url, bytes(32))
    assert refused.value.code == "wrong_master_key"


def test_no_value_of_a_wave_prints_its_plan(surveys):
    assert "plan-1" not in repr(opened(surveys)) + repr(surveys.survey_account(PEOPLE, SURVEY))


def test_a_closed_waves_key_is_on_disk_no_more_and_an_open_ones_is(file_ledger, path, monkeypatch):
    """No page keeps a copy, whatever the order: any 16 bytes from the middle of a wrapped key are one."""
    ledger, place, rng = file_ledger, SqlitePlace(path), random.Random(1)
    quick = [each for each in sqlite._PRAGMAS if not each.startswith("synchronous")]
    monkeypatch.setattr(sqlite, "_PRAGMAS", (*quick, "synchronous=OFF"))
    limit_survey(ledger, "1000")
    keys, waiting = {}, []
    for number in range(40):
        plan = rng.randbytes(rng.choice((50, 900, 5000)))
        waiting.append(opened(ledger, f"w{number}", plan_bytes=plan).wave_id)
        keys[waiting[-1]] = place.sql("SELECT wrapped FROM wave_keys ORDER BY wave DESC")[0][0]
        if number % 3:
            ledger.close_wave(waiting.pop(rng.randrange(len(waiting))), 0, COUNTS)
    disk = b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))
    assert {wave for wave, wrapped in keys.items() if wrapped[20:36] in disk} == set(waiting)


def test_a_wave_and_a_release_of_one_name_do_not_meet(ledger):
    limit_survey(ledger, population="nyc_planes", survey="flights")
    wave = opened(ledger, "2013-01-01", population="nyc_planes", survey="flights").wave_id
    claim = reserve(ledger, release_id=ReleaseId("nyc_planes", "flights", "2013-01-01"))
    assert ledger.wave_key(wave) != ledger.release_key(claim)
    ledger.close_wave(wave, 0, COUNTS)
    assert len(ledger.release_key(claim)) == 32


def test_an_edit_of_any_column_or_a_deletion_of_any_row_is_found(surveys, place):
    wave = wave_brought_to(surveys, WaveState.HELD)
    surveys.clear_wave(wave, "the gate was wrong")
    publish(surveys, wave)
    surveys.seal_wave(wave, STATEMENT)
    for table in APPENDED:
        for change in (f"UPDATE {table} SET at = ''", f"DELETE FROM {table}"):
            with pytest.raises(Exception, match="append-only"):
                place.sql(change)
        without_guard(place, table)
    assert surveys.verify().findings == ()
    # One column of each table at a time; of keys the database itself refuses an edit.
    columns = [
        [each for each in table.columns if not (each.primary_key or each.foreign_keys)]
        for table in SURVEY_TABLES
    ]
    for edits in ([each for each in row if each is not None] for row in zip_longest(*columns)):
        before = [_edit(place, column) for column in edits]
        findings = surveys.verify().findings
        assert len(findings) == len(edits), edits
        assert {each.split()[1] for each in findings} == {column.table.name for column in edits}
        for column, value in zip(edits, before, strict=True):
            _edit(place, column, value)
    assert surveys.verify().findings == ()
    for table in reversed(SURVEY_TABLES):
        delete(place, table.name, _oldest(place, table))
        found = [each for each in surveys.verify().findings if each.startswith(f"row {table.name} ")]
        assert len(found) == 1, table
        assert "was deleted" in found[0]


def _edit(place, column, *values):
    """What stood there before."""
    table, here = column.table.name, _oldest(place, column.table)
    ((before,),) = place.sql(f"SELECT {column.name} FROM {table} WHERE {here}")
    edited = {int: 77, bytes: b"edited"}.get(column.type.python_type, "edited")
    place.sql(f"UPDATE {table} SET {column.name} = ? WHERE {here}", *(values or (edited,)))
    return before


def _oldest(place, table):
    """A condition that holds for one row."""
    keys = ", ".join(column.name for column in table.primary_key)
    row = place.sql(f"SELECT {keys} FROM {table.name} ORDER BY {keys}")[0]
    return " AND ".join(f"{c.name} = '{value}'" for c, value in zip(table.primary_key, row, strict=True))


def test_a_limit_under_what_was_spent_and_a_gap_between_batches_are_found(surveys):
    """With links of their own: whoever holds the master key can write these."""
    wave_brought_to(surveys, WaveState.OPEN)
    accounts, batches = store.survey_accounts, store.wave_batches

    def spoil(connection):
        update(connection, accounts, accounts.c.survey == SURVEY, limit_epsilon="1/2")

    surveys._write(spoil)
    assert surveys.verify().findings == (
        f'row survey_accounts ["{PEOPLE}", "{SURVEY}"] has a limit under what its waves have spent',
    )
    limit_survey(surveys, "2")
    assert surveys.verify().findings == ()

    def gap(connection):
        insert(connection, batches, wave=1, number=4, fence=1, path="p", digest="d", reports=1, at="now")

    surveys._write(gap)
    assert surveys.verify().findings == ("row waves [1] has batches whose numbers leave a gap",)


def test_every_step_leaves_one_link(surveys):
    before = surveys.head().number
    wave = opened(surveys).wave_id
    add_batch(surveys, wave)
    surveys.close_wave(wave, 1, COUNTS)
    surveys.wave(wave_of())
    assert surveys.head().number == before + 4


def test_a_claim_of_a_ledger_that_forgot_it_is_refused(surveys):
    wave = opened(surveys).wave_id
    with pytest.raises(LedgerRefused, match="restored from a backup"):
        surveys.commit_batch(BatchClaim(wave, 1, 1), batch_of(BatchClaim(wave, 1, 1)))
