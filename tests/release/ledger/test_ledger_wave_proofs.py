"""Nobody is charged or asked twice, whatever is killed and whoever comes at once: real processes, real kills.

The short forms run by default; the long ones by `make test-whole`.
"""

import os

import pytest
from ledger_support import MASTER_KEY
from ledger_worker import die_at, forked, started
from survey_support import PEOPLE, SURVEY, batch_of, limit_survey, opened
from survey_worker import ASKED, close_at_once, live_wave, night, night_at_once, open_at_once

from dp_spark.release.ledger import Ledger, WaveState, store

RACERS = 8


@pytest.fixture
def surveys(empty_ledger):
    limit_survey(empty_ledger, "1000")
    return empty_ledger


def require_sound(ledger, place, reports=ASKED):
    """Every wave is paid once, numbered without a gap, closed once at most, and has one report a person."""
    account = ledger.survey_account(PEOPLE, SURVEY)
    assert account.spent == len(account.waves)
    events = place.sql(
        "SELECT name, from_state, to_state, e.fence FROM wave_events e "
        "JOIN waves ON waves.id = e.wave ORDER BY e.id"
    )
    for record in account.waves:
        assert [batch.number for batch in record.batches] == list(range(1, len(record.batches) + 1))
        assert len({batch.path for batch in record.batches}) == len(record.batches)
        assert record.reports == reports
        mine = [event[1:] for event in events if event[0] == record.wave_id.wave]
        assert [before for before, _, _ in mine].count(None) == 1
        closes = [after for before, after, _ in mine if before == "open" and after == "closed"]
        assert len(closes) == (record.state is not WaveState.OPEN)
        begun = [fence for before, after, fence in mine if before == after == "open"]
        assert begun == list(range(1, len(begun) + 1))
    assert ledger.verify().findings == ()


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.whole)])
def test_killed_before_every_statement_a_wave_goes_on_as_if_it_had_not_been(surveys, place, tmp_path, stride):
    """One wave after another, opened, asked and closed by a run that is killed some statements later."""
    for statement in range(0, 400, stride):
        observed = tmp_path / f"w{statement}"

        def run(statement=statement, observed=observed):
            die_at(statement)
            live_wave(surveys, f"w{statement}", observed)

        finished = not os.WIFSIGNALED(forked(run))
        live_wave(surveys, f"w{statement}", observed)
        stands = surveys.survey_account(PEOPLE, SURVEY).waves[-1]
        assert stands.state is WaveState.CLOSED
        assert set(observed.read_text().split("\n")) == {stands.counts.digest, ""}
        if finished:
            break
    else:
        raise AssertionError("there was always one more statement")
    assert statement > 30
    require_sound(surveys, place)
    assert set(map(bytes, (row[0] for row in place.sql("SELECT wrapped FROM wave_keys")))) == {bytes(60)}


def test_of_eight_openers_at_once_one_charges(surveys, place, tmp_path):
    start = tmp_path / "start"
    openers = [started(open_at_once, place.url, "w", start) for _ in range(RACERS)]
    start.touch()
    assert sum(each.told() for each in openers) == 1
    assert surveys.survey_account(PEOPLE, SURVEY).spent == 1
    require_sound(surveys, place, reports=0)


def test_of_eight_waves_at_once_as_many_are_charged_as_fit(surveys, place, tmp_path):
    limit_survey(surveys, "3")
    start = tmp_path / "start"
    openers = [started(_admitted, place.url, f"w{each}", start) for each in range(RACERS)]
    start.touch()
    assert sum(each.told() for each in openers) == 3
    require_sound(surveys, place, reports=0)


def _admitted(url, wave, start):
    from dp_spark.errors import BudgetRefused

    try:
        return open_at_once(url, wave, start)
    except BudgetRefused:
        return 0


def test_of_eight_committers_at_once_nobody_gives_anybody_a_second_report(surveys, place, tmp_path):
    """Each reaches other numbers of the same people, the furthest all 80."""
    wave, start = opened(surveys).wave_id, tmp_path / "start"
    racers = [started(night_at_once, place.url, wave, ASKED * each, start) for each in range(1, RACERS + 1)]
    start.touch()
    assert max(each.told() for each in racers) == ASKED * RACERS
    require_sound(surveys, place, reports=ASKED * RACERS)
    assert len(surveys.wave(wave).batches) == RACERS


def test_of_eight_that_close_at_once_one_wins(surveys, place, tmp_path):
    wave, start = opened(surveys).wave_id, tmp_path / "start"
    night(surveys, wave)
    racers = [started(close_at_once, place.url, wave, start) for _ in range(RACERS)]
    start.touch()
    assert sum(each.told() for each in racers) == 1
    require_sound(surveys, place)


def test_a_run_that_reads_the_batches_before_it_begins_asks_twice_and_is_noticed(surveys, place):
    """Why `begin_batch` comes first; and that the proofs above would see it."""
    wave = opened(surveys).wave_id
    early = surveys.wave(wave)
    night(surveys, wave)
    claim = surveys.begin_batch(wave)
    assert surveys.commit_batch(claim, batch_of(claim, reports=ASKED - early.reports))
    with pytest.raises(AssertionError, match="20 == 10"):
        require_sound(surveys, place)


def test_another_hand_goes_on_where_the_first_was_killed(surveys, place):
    def run():
        claim = surveys.begin_batch(opened(surveys).wave_id)
        assert claim.fence == 1
        os.kill(os.getpid(), 9)

    assert os.WIFSIGNALED(forked(run))
    second = Ledger.open(place.url, MASTER_KEY)
    live_wave(second, "2024q1")
    require_sound(second, place)
    assert place.sql(f"SELECT fence FROM {store.wave_batches.name}") == [(2,)]
