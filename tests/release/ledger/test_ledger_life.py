from datetime import UTC, datetime

import pytest
from ledger_support import LINE, POPULATION, SINK, brought_to, guarantee, publish, reserve

from dp_spark.errors import LedgerRefused, SetupRefused
from dp_spark.release.ledger import Ledger, ReleaseId, ReleaseState, StoredFile
from dp_spark.release.ledger.states import successors

FLIGHTS = ReleaseId(POPULATION, "flights", "2013-01-01")
STEPS = {
    ReleaseState.READING: lambda ledger, claim: ledger.start_reading(claim),
    ReleaseState.HELD: lambda ledger, claim: ledger.hold(claim, ["history"]),
    ReleaseState.PUBLISHED: lambda ledger, claim: ledger.publish(claim, []),
    ReleaseState.SEALED: lambda ledger, claim: ledger.seal(claim, statement_path="s", statement_digest="s"),
}


def state(ledger):
    return ledger.find(FLIGHTS).state


@pytest.mark.parametrize("to", STEPS)
@pytest.mark.parametrize("start", LINE)
def test_a_step_is_taken_exactly_where_it_is_legal(ledger, start, to):
    claim = brought_to(ledger, start)
    if to in successors(start):
        STEPS[to](ledger, claim)
        assert state(ledger) is to
    else:
        with pytest.raises(LedgerRefused) as refused:
            STEPS[to](ledger, claim)
        assert refused.value.code == "illegal_step"
        assert state(ledger) is start


@pytest.mark.parametrize("start", LINE)
def test_a_release_is_staged_once_and_only_after_reading(ledger, start):
    claim = brought_to(ledger, start)
    if start is ReleaseState.RESERVED:
        with pytest.raises(LedgerRefused, match="cannot become staged"):
            ledger.stage(claim, "digest-2", "staging/2")
    else:
        outcome = ledger.stage(claim, "digest-2", "staging/2")
        fresh = start is ReleaseState.READING
        assert outcome.artefact.path == ("staging/2" if fresh else "staging/1")
        assert outcome.discard == (None if fresh else "staging/2")
        assert state(ledger) is (ReleaseState.STAGED if fresh else start)


@pytest.mark.parametrize("start", LINE)
def test_reserving_again_resumes_without_a_charge(ledger, start):
    first = brought_to(ledger, start)
    again = reserve(ledger, plan_bytes=b"plan of a newer library", tables={}, charge=guarantee("0.9"))
    assert again.state is start
    assert (again.plan_bytes, again.tables) == (b"plan-1", {"counts": b"table-1"})
    assert (first.charged_now, again.charged_now) == (True, False)
    assert ledger.budget(POPULATION).spent.epsilon == guarantee("0.1").epsilon
    assert again.fence == first.fence + (start is not ReleaseState.SEALED)


def test_a_resumed_attempt_sees_artefact_and_statement(ledger):
    brought_to(ledger, ReleaseState.SEALED)
    claim = reserve(ledger)
    assert claim.artefact == StoredFile("staging/1", "digest-1")
    assert claim.statement == StoredFile("s.html", "s")


@pytest.mark.parametrize("start", LINE)
def test_another_spec_under_the_same_id_is_refused(ledger, start):
    brought_to(ledger, start)
    with pytest.raises(LedgerRefused) as refused:
        reserve(ledger, spec_digest="spec-2")
    assert refused.value.code == "other_spec"


def test_a_superseded_attempt_can_do_nothing_but_stage(ledger):
    zombie = reserve(ledger)
    newest = reserve(ledger)
    steps = {**STEPS, "key": lambda ledger, claim: ledger.release_key(claim)}
    for step in (*steps.values(), lambda ledger, claim: ledger.record_publication(claim, SINK, "t", "d")):
        with pytest.raises(LedgerRefused) as refused:
            step(ledger, zombie)
        assert refused.value.code == "superseded"
    ledger.start_reading(newest)


def test_a_zombie_cannot_stage_over_the_winner(ledger):
    zombie = brought_to(ledger, ReleaseState.READING)
    newest = reserve(ledger)
    won = ledger.stage(newest, "digest-new", "staging/new")
    lost = ledger.stage(zombie, "digest-old", "staging/old")
    assert (won.won, won.discard) == (True, None)
    assert (lost.won, lost.discard) == (False, "staging/old")
    assert lost.artefact == won.artefact == ledger.find(FLIGHTS).artefact


def test_an_older_attempt_that_stages_first_wins_and_the_newest_publishes_it(ledger):
    older = brought_to(ledger, ReleaseState.READING)
    newest = reserve(ledger)
    ledger.start_reading(newest)
    assert ledger.stage(older, "digest-1", "staging/1").won
    assert ledger.stage(newest, "digest-2", "staging/2").artefact.path == "staging/1"
    with pytest.raises(LedgerRefused):
        publish(ledger, older)
    publish(ledger, newest)
    assert state(ledger) is ReleaseState.PUBLISHED


def test_a_winner_that_stages_again_is_told_that_it_won(ledger):
    claim = brought_to(ledger, ReleaseState.STAGED)
    outcome = ledger.stage(claim, "digest-1", "staging/1")
    assert (outcome.won, outcome.discard) == (True, None)


def test_a_loser_with_the_winners_path_has_nothing_to_discard(ledger):
    older = brought_to(ledger, ReleaseState.READING)
    newest = reserve(ledger)
    ledger.stage(older, "digest-1", "staging/shared")
    outcome = ledger.stage(newest, "digest-1", "staging/shared")
    assert (outcome.won, outcome.discard) == (False, None)


def test_a_claim_of_a_later_ledger_is_unknown_to_a_restored_one(ledger, place):
    claim = brought_to(ledger, ReleaseState.READING)
    newest = reserve(ledger)
    place.sql("UPDATE releases SET fence = 1")
    for step in (ledger.start_reading, lambda claim: ledger.stage(claim, "d", "p")):
        with pytest.raises(LedgerRefused) as refused:
            step(newest)
        assert refused.value.code == "unknown_claim"
    ledger.start_reading(claim)


def test_a_held_release_names_its_checks_and_a_rerun_may_publish_it(ledger):
    brought_to(ledger, ReleaseState.HELD)
    assert ledger.find(FLIGHTS).failed_checks == ("history",)
    claim = reserve(ledger)
    assert ledger.find(FLIGHTS).failed_checks == ("history",)
    publish(ledger, claim)
    assert ledger.find(FLIGHTS).failed_checks == ()


def test_a_release_is_published_only_when_every_sink_has_it(ledger):
    claim = brought_to(ledger, ReleaseState.STAGED)
    ledger.record_publication(claim, SINK, "out/flights", "digest-1")
    with pytest.raises(LedgerRefused, match="missing: warehouse") as refused:
        ledger.publish(claim, [SINK, "warehouse"])
    assert refused.value.code == "sinks_missing"
    assert state(ledger) is ReleaseState.STAGED


@pytest.mark.parametrize("start", [ReleaseState.STAGED, ReleaseState.PUBLISHED, ReleaseState.SEALED])
def test_recording_a_publication_again_changes_nothing(ledger, start):
    claim = brought_to(ledger, start)
    if start is ReleaseState.STAGED:
        ledger.record_publication(claim, SINK, "out/flights", "digest-1")
    before = ledger.find(FLIGHTS)
    ledger.record_publication(claim, SINK, "out/flights", "digest-1")
    assert ledger.find(FLIGHTS) == before


@pytest.mark.parametrize(
    ("sink", "target", "digest", "code"),
    [
        (SINK, "out/flights", "digest-2", "other_copy"),
        (SINK, "out/elsewhere", "digest-1", "other_copy"),
        ("late_sink", "out/flights", "digest-1", "illegal_step"),
    ],
)
def test_a_publication_that_contradicts_the_ledger_is_refused(ledger, sink, target, digest, code):
    claim = brought_to(ledger, ReleaseState.SEALED)
    with pytest.raises(LedgerRefused) as refused:
        ledger.record_publication(claim, sink, target, digest)
    assert refused.value.code == code


def test_nothing_is_published_before_it_is_staged(ledger):
    claim = brought_to(ledger, ReleaseState.READING)
    with pytest.raises(LedgerRefused):
        ledger.record_publication(claim, SINK, "out/flights", "digest-1")


def test_a_record_holds_the_whole_story(ledger, place):
    brought_to(ledger, ReleaseState.SEALED)
    reserve(ledger, "2013-01-02")
    first, second = ledger.releases(POPULATION)
    assert (first.release_id, second.state) == (FLIGHTS, ReleaseState.RESERVED)
    assert [event.to_state for event in first.events] == LINE
    assert (first.charge, first.plan_bytes) == (guarantee("0.1"), b"plan-1")
    assert [copy.target for copy in first.publications] == ["out/flights"]
    assert first.reserved_at.utcoffset().total_seconds() == 0
    assert ledger.find(ReleaseId(POPULATION, "flights", "never")) is None


def test_equal_tables_are_stored_once(ledger, place):
    reserve(ledger, "day-0", tables={"a": b"same", "b": b"same"})
    reserve(ledger, "day-1", tables={"a": b"same", "c": b"other"})
    assert place.sql("SELECT count(*) FROM noise_tables") == [(2,)]
    assert reserve(ledger, "day-1").tables == {"a": b"same", "c": b"other"}


def test_a_damaged_noise_table_is_refused(ledger, place):
    reserve(ledger)
    place.sql("UPDATE noise_tables SET body = ?", b"0")
    for read in (reserve, lambda ledger: ledger.tables(FLIGHTS)):
        with pytest.raises(SetupRefused) as refused:
            read(ledger)
        assert refused.value.code == "noise_table_damaged"


def test_a_sealed_release_still_tells_its_tables(ledger):
    brought_to(ledger, ReleaseState.SEALED)
    assert ledger.tables(FLIGHTS) == {"counts": b"table-1"}
    assert ledger.tables(ReleaseId(POPULATION, "flights", "never")) == {}


@pytest.mark.parametrize(
    "moment",
    [datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)],
)
def test_no_step_depends_on_the_clock(ledger, place, moment):
    backwards = Ledger.open(place.url, bytes(range(32)), clock=lambda: moment)
    reserve(ledger)
    brought_to(backwards, ReleaseState.SEALED)
    assert state(backwards) is ReleaseState.SEALED
