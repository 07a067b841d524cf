"""What a restored ledger has forgotten is charged again, once, and never gives noise."""

import pytest
from ledger_support import (
    LINE,
    NIGHT,
    NIGHTLY,
    POPULATION,
    brought_to,
    guarantee,
    reservation,
    reserve,
    share,
)

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.release.ledger import ReleaseId, ReleaseState

FLIGHTS = ReleaseId(POPULATION, "flights", "2013-01-01")
WHY = "restored: published on 2 January"


def code_of(call):
    with pytest.raises((LedgerRefused, BudgetRefused)) as refused:
        call()
    return refused.value.code


def test_it_is_charged_once_without_a_key_and_no_run_goes_on_with_it(ledger, place):
    ledger.charge_forgotten(reservation(), WHY)
    assert code_of(lambda: ledger.charge_forgotten(reservation(), WHY)) == "release_known"
    assert code_of(lambda: reserve(ledger)) == "release_ended"
    assert ledger.budget(POPULATION).spent.epsilon == guarantee("0.1").epsilon
    assert ledger.find(FLIGHTS).state is ReleaseState.ABANDONED
    assert place.sql("SELECT wrapped FROM release_keys") == [(bytes(60),)]
    assert place.sql("SELECT decision, reason FROM decisions") == [("abandoned", WHY)]
    assert not ledger.verify().findings


@pytest.mark.parametrize("state", LINE)
def test_what_the_ledger_knows_is_not_charged_again_and_stays_as_it_is(ledger, state):
    brought_to(ledger, state)
    assert code_of(lambda: ledger.charge_forgotten(reservation(), WHY)) == "release_known"
    assert ledger.find(FLIGHTS).state is state
    assert ledger.budget(POPULATION).spent.epsilon == guarantee("0.1").epsilon


@pytest.mark.parametrize(
    ("changes", "reason", "code"),
    [({"charge": guarantee(2)}, WHY, "budget_exhausted"), ({}, " ", "reason_missing")],
)
def test_what_is_refused_leaves_no_trace(ledger, place, changes, reason, code):
    assert code_of(lambda: ledger.charge_forgotten(reservation(**changes), reason)) == code
    assert ledger.find(FLIGHTS) is None
    assert ledger.budget(POPULATION).spent.epsilon == 0
    assert place.sql("SELECT count(*) FROM release_keys") == [(0,)]


def test_of_a_divided_account_it_takes_the_slot_that_it_took(empty_ledger):
    share(empty_ledger, sums=1, slots=2)
    night = ReleaseId(POPULATION, NIGHTLY, "2013-01-01")
    empty_ledger.charge_forgotten(reservation(release_id=night, noise=NIGHT), WHY)
    account = empty_ledger.budget(POPULATION)
    assert (dict(account.standing.taken), account.spent.epsilon) == ({NIGHTLY: 1}, 0)
    assert not empty_ledger.verify().findings
