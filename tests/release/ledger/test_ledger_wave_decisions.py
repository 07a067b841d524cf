"""What ends a wave by decision: who may follow it, what is left of its key, and who wins against a run."""

import pytest
from ledger_support import MASTER_KEY
from ledger_worker import started
from survey_support import (
    COUNTS,
    ESTIMATES,
    PEOPLE,
    SINK,
    STATEMENT,
    SURVEY,
    add_batch,
    batch_of,
    limit_survey,
    opened,
    wave_brought_to,
)
from survey_worker import at_once, night

from dp_spark.errors import LedgerRefused, Refusal
from dp_spark.release.ledger import Ledger, WaveEnd, WaveState

WHO = "the board, 1 March"
BEFORE = [each for each in WaveState if each not in (WaveState.ABANDONED, WaveState.BURNED)]


@pytest.fixture
def surveys(empty_ledger):
    limit_survey(empty_ledger, "9")
    return empty_ledger


def code_of(action, *args):
    with pytest.raises(Refusal) as refused:
        action(*args)
    return refused.value.code


def keys(place):
    return {bytes(row[0]) for row in place.sql("SELECT wrapped FROM wave_keys")}


@pytest.mark.parametrize("state", BEFORE)
def test_an_open_or_held_wave_is_abandoned_and_no_other(surveys, place, state):
    wave = wave_brought_to(surveys, state)
    charged = surveys.survey_account(PEOPLE, SURVEY).spent
    if state in (WaveState.OPEN, WaveState.HELD):
        surveys.end_wave(wave, WaveEnd.ABANDON, WHO)
        assert surveys.wave(wave).state is WaveState.ABANDONED
        assert keys(place) == {bytes(60)}
    else:
        assert code_of(surveys.end_wave, wave, WaveEnd.ABANDON, WHO) == "illegal_step"
        assert surveys.wave(wave).state is state
    account = surveys.survey_account(PEOPLE, SURVEY)
    assert (account.spent, account.burned) == (charged, ())
    assert opened(surveys, "next").opened_now


@pytest.mark.parametrize("state", [*BEFORE, WaveState.ABANDONED])
def test_whatever_its_state_a_burned_wave_stops_its_survey_and_no_other(surveys, place, state):
    wave = wave_brought_to(surveys, WaveState.OPEN if state is WaveState.ABANDONED else state)
    if state is WaveState.ABANDONED:
        surveys.end_wave(wave, WaveEnd.ABANDON, WHO)
    published = dict(surveys.wave(wave).publications)
    surveys.end_wave(wave, WaveEnd.BURN, WHO)
    record = surveys.wave(wave)
    assert (record.state, dict(record.publications)) == (WaveState.BURNED, published)
    assert keys(place) == {bytes(60)}
    assert surveys.survey_account(PEOPLE, SURVEY).burned == (wave,)
    assert code_of(opened, surveys, "next") == "survey_burned"
    limit_survey(surveys, survey="income")
    assert opened(surveys, "next", survey="income").opened_now
    assert surveys.verify().findings == ()


@pytest.mark.parametrize("end", WaveEnd)
@pytest.mark.parametrize("state", [WaveState.OPEN, WaveState.HELD])
def test_nothing_follows_the_end_of_a_wave(surveys, end, state):
    wave = wave_brought_to(surveys, state)
    claim = surveys.begin_batch(wave) if state is WaveState.OPEN else None
    surveys.end_wave(wave, end, WHO)
    steps = [
        lambda: opened(surveys),
        lambda: surveys.begin_batch(wave),
        lambda: surveys.wave_key(wave),
        lambda: surveys.close_wave(wave, 2, COUNTS),
        lambda: surveys.stage_estimates(wave, ESTIMATES),
        lambda: surveys.hold_wave(wave, ["history"]),
        lambda: surveys.clear_wave(wave, WHO),
        lambda: surveys.record_wave_publication(wave, SINK, "out", COUNTS.digest),
        lambda: surveys.publish_wave(wave, [SINK]),
        lambda: surveys.seal_wave(wave, STATEMENT),
    ]
    if claim is not None:
        steps.append(lambda: surveys.commit_batch(claim, batch_of(claim)))
    assert {code_of(step) for step in steps} == {f"wave_{end}"}
    assert surveys.wave(wave).state == end.value


def test_a_burned_wave_gives_nothing_out_that_it_was_sealed_with(surveys):
    wave = wave_brought_to(surveys, WaveState.SEALED)
    surveys.end_wave(wave, WaveEnd.BURN, WHO)
    steps = (
        lambda: surveys.close_wave(wave, 2, COUNTS),
        lambda: surveys.stage_estimates(wave, ESTIMATES),
        lambda: surveys.publish_wave(wave, [SINK]),
        lambda: surveys.seal_wave(wave, STATEMENT),
    )
    assert {code_of(step) for step in steps} == {"wave_burned"}


def test_a_decision_has_a_reason_and_is_recorded_once(surveys):
    wave = opened(surveys).wave_id
    assert code_of(surveys.end_wave, wave, WaveEnd.ABANDON, " ") == "reason_missing"
    for reason in (WHO, "again, after a kill"):
        surveys.end_wave(wave, WaveEnd.ABANDON, reason)
    for reason in ("the key was mailed", "again"):
        surveys.end_wave(wave, WaveEnd.BURN, reason)
    assert code_of(surveys.end_wave, wave, WaveEnd.ABANDON, WHO) == "illegal_step"
    told = [(each.what, each.reason) for each in surveys.history(PEOPLE)][2:]
    assert told == [
        ("decision: abandoned", WHO),
        ("wave abandoned", ""),
        ("decision: burned", "the key was mailed"),
        ("wave burned", ""),
    ]


def test_what_a_sink_has_is_not_abandoned_and_stands_in_the_history(surveys):
    wave = wave_brought_to(surveys, WaveState.HELD)
    surveys.clear_wave(wave, WHO)
    surveys.record_wave_publication(wave, SINK, "/srv/out/work", ESTIMATES.digest)
    assert code_of(surveys.end_wave, wave, WaveEnd.ABANDON, WHO) == "wave_partly_published"
    assert surveys.wave(wave).state is WaveState.HELD
    last = surveys.history(PEOPLE)[-1]
    assert (last.what, last.about, last.reason, last.by) == ("copy", str(wave), "/srv/out/work", SINK)
    surveys.end_wave(wave, WaveEnd.BURN, WHO)


def nights_at_once(url, wave, start):
    """Nights that each reach more people, until the wave is over; how many there were."""
    ledger, nights = Ledger.open(url, MASTER_KEY), 0
    at_once(start)
    try:
        while True:
            nights += 1
            night(ledger, wave, 10 * nights)
    except LedgerRefused as refused:
        return nights if refused.code == "wave_abandoned" else -1


def close_or_end_at_once(url, wave, start, end):
    """Whether it came first: 1 where it did, 0 where it was refused."""
    ledger = Ledger.open(url, MASTER_KEY)
    at_once(start)
    try:
        if end:
            ledger.end_wave(wave, WaveEnd.ABANDON, WHO)
        else:
            ledger.close_wave(wave, len(ledger.wave(wave).batches), COUNTS)
    except LedgerRefused:
        return 0
    return 1


def test_no_batch_comes_after_the_end_of_a_wave(surveys, place, tmp_path):
    wave, start = opened(surveys).wave_id, tmp_path / "start"
    racers = [started(nights_at_once, place.url, wave, start) for _ in range(3)]
    start.touch()
    add_batch(surveys, wave)
    surveys.end_wave(wave, WaveEnd.ABANDON, WHO)
    batches = surveys.wave(wave).batches
    assert min(each.told() for each in racers) > 0
    assert surveys.wave(wave).batches == batches
    assert surveys.verify().findings == ()


@pytest.mark.parametrize("race", range(3))
def test_a_wave_is_closed_or_abandoned_and_never_both(surveys, place, tmp_path, race):
    wave, start = wave_brought_to(surveys, WaveState.OPEN), tmp_path / "start"
    racers = [started(close_or_end_at_once, place.url, wave, start, end) for end in (True, False)]
    start.touch()
    ended, closed = (each.told() for each in racers)
    assert (ended, closed) in {(1, 0), (0, 1)}
    record = surveys.wave(wave)
    assert (record.state, record.counts) == (
        (WaveState.ABANDONED, None) if ended else (WaveState.CLOSED, COUNTS)
    )
