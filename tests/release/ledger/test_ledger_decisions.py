"""What people decide about releases, and what becomes of attempts that are under way."""

import pytest
from ledger_support import LINE, POPULATION, SINK, brought_to, guarantee, publish, reserve

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.release.ledger import Decision, ReleaseId, ReleaseState

FLIGHTS = ReleaseId(POPULATION, "flights", "2013-01-01")
ALLOWED = {
    Decision.ABORT: {ReleaseState.RESERVED},
    Decision.ABANDON: {ReleaseState.HELD, ReleaseState.READING},
    Decision.PUBLISH: {ReleaseState.HELD},
    Decision.BURN: set(ReleaseState) - {ReleaseState.ABORTED, ReleaseState.BURNED},
}
WHY = "decided by the board"


def code_of(call):
    with pytest.raises((LedgerRefused, BudgetRefused)) as refused:
        call()
    return refused.value.code


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("start", ReleaseState)
def test_a_decision_is_taken_exactly_where_it_is_legal(ledger, place, start, decision):
    brought_to(ledger, start)
    before = place.sql("SELECT count(*) FROM decisions")
    if start in ALLOWED[decision]:
        ledger.decide(FLIGHTS, decision, WHY)
        after = ReleaseState.HELD if decision is Decision.PUBLISH else ReleaseState(decision.value)
        assert ledger.find(FLIGHTS).state is after
        assert place.sql("SELECT decision, reason FROM decisions ORDER BY id DESC LIMIT 1") == [
            (decision.value, WHY)
        ]
    else:
        assert code_of(lambda: ledger.decide(FLIGHTS, decision, WHY)) == "illegal_step"
        assert ledger.find(FLIGHTS).state is start
        assert place.sql("SELECT count(*) FROM decisions") == before


@pytest.mark.parametrize("state", ReleaseState)
def test_only_an_aborted_release_has_its_charge_back(ledger, state):
    brought_to(ledger, state)
    spent = 0 if state is ReleaseState.ABORTED else guarantee("0.1").epsilon
    assert ledger.budget(POPULATION).spent.epsilon == spent


@pytest.mark.parametrize("state", [ReleaseState.ABORTED, ReleaseState.ABANDONED, ReleaseState.BURNED])
def test_an_ended_release_is_not_gone_on_with_and_has_no_key(ledger, place, state):
    brought_to(ledger, state)
    assert code_of(lambda: reserve(ledger)) == "release_ended"
    assert code_of(lambda: ledger.resume(FLIGHTS)) == "release_ended"
    assert set(place.sql("SELECT wrapped FROM release_keys")) == {(bytes(60),)}


@pytest.mark.parametrize("start", [ReleaseState.RESERVED, ReleaseState.READING, ReleaseState.STAGED])
def test_an_attempt_under_way_when_its_release_is_ended_can_do_nothing(ledger, start):
    zombie = brought_to(ledger, start)
    ledger.decide(FLIGHTS, Decision.ABORT if start is ReleaseState.RESERVED else Decision.BURN, WHY)
    for step in (
        lambda: ledger.start_reading(zombie),
        lambda: ledger.release_key(zombie),
        lambda: ledger.hold(zombie, ["history"]),
        lambda: ledger.record_publication(zombie, SINK, "out", "digest-1"),
        lambda: ledger.publish(zombie, []),
    ):
        assert code_of(step) == "superseded"
    if start is not ReleaseState.STAGED:
        assert code_of(lambda: ledger.stage(zombie, "d", "p")) == "illegal_step"


def test_a_zombie_of_a_released_hold_cannot_publish_after_its_abandonment(ledger):
    zombie = brought_to(ledger, ReleaseState.HELD)
    ledger.decide(FLIGHTS, Decision.PUBLISH, WHY)
    ledger.decide(FLIGHTS, Decision.ABANDON, "on second thoughts")
    assert code_of(lambda: publish(ledger, zombie)) == "superseded"
    assert ledger.find(FLIGHTS).publications == ()


def test_a_burned_release_stops_its_population_and_no_other(ledger):
    from ledger_support import fund

    fund(ledger, 1, population="elsewhere")
    under_way = brought_to(ledger, ReleaseState.STAGED, "2013-01-02")
    brought_to(ledger, ReleaseState.SEALED, "2013-01-03")
    brought_to(ledger, ReleaseState.BURNED)
    assert code_of(lambda: reserve(ledger, "2013-01-04")) == "population_burned"
    assert code_of(lambda: ledger.resume(under_way.release_id)) == "population_burned"
    assert code_of(lambda: publish(ledger, under_way)) == "superseded"
    assert reserve(ledger, "2013-01-03").state is ReleaseState.SEALED  # what is out is out
    assert reserve(ledger, release_id=ReleaseId("elsewhere", "flights", "d")).charged_now


@pytest.mark.parametrize("decision", Decision)
def test_a_decision_needs_a_reason_and_a_release(ledger, decision):
    assert code_of(lambda: ledger.decide(FLIGHTS, decision, WHY)) == "unknown_release"
    brought_to(ledger, ReleaseState.HELD)
    assert code_of(lambda: ledger.decide(FLIGHTS, decision, " ")) == "reason_missing"


def test_a_held_release_is_cleared_by_decision_only(ledger):
    brought_to(ledger, ReleaseState.HELD)
    assert not ledger.resume(FLIGHTS).cleared
    ledger.decide(FLIGHTS, Decision.PUBLISH, WHY)
    claim = reserve(ledger)
    assert claim.cleared
    publish(ledger, claim)


# Revisions.


def revised(ledger, reason):
    release_id = ledger.revision_for(FLIGHTS, reason)
    return reserve(ledger, release_id=release_id, revision_reason=reason)


def test_a_reason_names_one_revision_with_one_charge(ledger):
    brought_to(ledger, ReleaseState.SEALED)
    first, again = revised(ledger, "late rows"), revised(ledger, "late rows")
    assert [str(claim.release_id)[-2:] for claim in (first, again)] == ["/1", "/1"]
    assert [claim.charged_now for claim in (first, again)] == [True, False]
    assert ledger.budget(POPULATION).spent.epsilon == guarantee("0.2").epsilon
    assert ledger.current_revision(FLIGHTS) == first.release_id


@pytest.mark.parametrize("state", LINE[:-1])
def test_nothing_is_revised_that_is_not_ended(ledger, state):
    brought_to(ledger, state)
    assert code_of(lambda: revised(ledger, "late rows")) == "revision_open"


@pytest.mark.parametrize("state", [ReleaseState.ABORTED, ReleaseState.ABANDONED])
def test_a_revision_that_came_to_nothing_stands_for_nothing(ledger, state):
    brought_to(ledger, state)
    assert ledger.current_revision(FLIGHTS) == FLIGHTS
    assert revised(ledger, "once more").release_id.revision == 1
    ledger.decide(ReleaseId(POPULATION, "flights", "2013-01-01", 1), Decision.ABORT, WHY)
    assert revised(ledger, "once more").release_id.revision == 2


def test_two_reasons_at_once_do_not_share_a_revision(ledger):
    brought_to(ledger, ReleaseState.SEALED)
    chosen = ledger.revision_for(FLIGHTS, "late rows")
    revised(ledger, "an erasure")
    assert code_of(lambda: reserve(ledger, release_id=chosen, revision_reason="late rows")) == "revision_open"


def test_a_revision_needs_a_reason_and_something_to_revise(ledger):
    assert code_of(lambda: ledger.revision_for(FLIGHTS, "late rows")) == "no_revision"
    reserve(ledger)
    assert code_of(lambda: ledger.revision_for(FLIGHTS, " ")) == "no_revision"
