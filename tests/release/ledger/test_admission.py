"""What a reservation decides, what it stores, and that it does not grow with what came before."""

from dataclasses import replace
from fractions import Fraction

import pytest
from schedule_support import noise, pair, schedule, table

from dp_spark.errors import BudgetRefused
from dp_spark.guarantee import Every, PrivacyUnit
from dp_spark.noise import Gaussian
from dp_spark.release.ledger.adhoc import Cost, open_pool
from dp_spark.release.ledger.admission import (
    Asked,
    Receipt,
    Standing,
    Terms,
    require_in_window,
    reserved,
    slots_per_period,
)
from dp_spark.release.spec import PoolKind

NIGHT, MORE = noise(table(Gaussian(), "40", 340)), noise(table(Gaussian(), "50", 430))
POOLS = {kind: open_pool(kind, pair(1)) for kind in PoolKind}
TERMS = Terms({"nightly": schedule(NIGHT, 3)}, POOLS)
PROMISED = pair("1/10", "1e-8")
NIGHTLY = Asked("release p/nightly/k/0", NIGHT, PROMISED, schedule="nightly")
ADHOC = Asked("release p/other/k/0", NIGHT, PROMISED)


NOBODY = Standing()


def code(asked, standing=NOBODY, terms=TERMS):
    with pytest.raises(BudgetRefused) as refused:
        reserved(terms, standing, asked)
    return refused.value.code, str(refused.value)


def test_slots_are_taken_until_there_are_none():
    standing = Standing()
    for taken in (1, 2, 3):
        standing, receipt = reserved(TERMS, standing, NIGHTLY)
        assert standing == Standing({"nightly": taken})
        assert receipt == Receipt(schedule="nightly")
    assert code(NIGHTLY, standing)[0] == "schedule_full"
    assert reserved(TERMS, standing.minus(receipt.took), NIGHTLY)[0] == standing


def test_less_of_the_plan_takes_a_slot_and_more_of_it_does_not():
    assert reserved(TERMS, Standing(), replace(NIGHTLY, noise=MORE))[0].taken == {"nightly": 1}
    terms = Terms({"nightly": schedule(MORE, 3)}, POOLS)
    name, text = code(NIGHTLY, terms=terms)
    assert name == "slot_too_small"
    assert "3 of 3 slots are left" in text


def test_what_has_no_slot_is_told_what_there_is():
    assert "the schedules: nightly" in code(replace(NIGHTLY, schedule="weekly"))[1]
    assert code(replace(NIGHTLY, schedule="weekly"))[0] == "no_schedule"
    assert code(replace(ADHOC, pool=PoolKind.ZCDP), terms=Terms())[0] == "no_pool"


def test_a_pool_is_charged_exactly_and_given_back_exactly():
    one, receipt = reserved(TERMS, Standing(), replace(ADHOC, pool=PoolKind.SUMS))
    assert one.spent == {PoolKind.SUMS: Cost(Fraction(1, 10), Fraction("1e-8"))}
    two, other = reserved(TERMS, one, replace(ADHOC, pool=PoolKind.ZCDP))
    assert other.cost.loss == two.spent[PoolKind.ZCDP].loss > 0
    assert two.minus(receipt.took).spent[PoolKind.SUMS] == Cost(Fraction(0), Fraction(0))
    nothing = two.minus(receipt.took).minus(other.took)
    assert nothing.spent[PoolKind.ZCDP] == Cost(Fraction(0), Fraction(0))
    assert one.minus(Receipt().took) == one
    assert two == one.plus(other.took)
    assert two.holds(one)
    assert not one.holds(two)


def test_the_only_pool_pays_and_one_of_several_is_named():
    terms = Terms({}, {PoolKind.ZCDP: POOLS[PoolKind.ZCDP]})
    assert reserved(terms, Standing(), ADHOC)[1].pool is PoolKind.ZCDP
    assert code(ADHOC)[0] == "no_pool"
    assert "sums and zcdp" in code(ADHOC)[1]


def test_a_full_schedule_does_not_fall_back_on_the_pool():
    """Which budget pays is chosen before, or a release could wait to see which one is cheaper."""
    full = Standing({"nightly": 3})
    assert code(NIGHTLY, full)[0] == "schedule_full"
    assert reserved(TERMS, full, replace(ADHOC, pool=PoolKind.SUMS))[0].taken == {"nightly": 3}


def test_standing_and_receipt_are_read_back_from_their_texts():
    standing, receipt = reserved(TERMS, Standing({"nightly": 2}), replace(ADHOC, pool=PoolKind.ZCDP))
    assert Standing.from_text(standing.to_text()) == standing
    assert Receipt.from_text(receipt.to_text()) == receipt
    assert Receipt.from_text(Receipt(schedule="nightly").to_text()) == Receipt(schedule="nightly")
    assert Standing.from_text(Standing().to_text()) == Standing()


def test_what_is_stored_stays_short_however_many_charges_there_were():
    """From the stored text to the stored text; the charges have 100 different denominators."""
    wide_pools = {kind: open_pool(kind, pair(80, "1/10")) for kind in PoolKind}
    terms = Terms({"nightly": schedule(NIGHT, 20_000)}, wide_pools)
    standing = Standing()
    for n in range(10_000):
        asked = replace(
            ADHOC,
            pool=PoolKind.SUMS,
            promised=pair(Fraction(1, 1000 + n % 100), Fraction(1, 10**8 + n % 100)),
        )
        standing, _ = reserved(terms, standing, asked)
    text = standing.to_text()
    assert Standing.from_text(text) == standing
    assert len(text) < 10_000


def test_a_window_only_tightens():
    spent = require_in_window("2013-01", pair("1/5", "1e-7"), Cost(Fraction(0), Fraction(0)), "r", PROMISED)
    spent = require_in_window("2013-01", pair("1/5", "1e-7"), spent, "r", PROMISED)
    assert spent.loss == Fraction(1, 5)
    with pytest.raises(BudgetRefused, match="2013-01 has epsilon = 0 and"):
        require_in_window("2013-01", pair("1/5", "1e-7"), spent, "r", PROMISED)


def test_a_person_day_meets_one_slot_of_each_schedule():
    assert slots_per_period(PrivacyUnit(("id",))) is None
    terms = replace(TERMS, slots_per_period=slots_per_period(PrivacyUnit(("id",), Every.DAY)))
    assert [each.slots for each in terms.met()] == [1]
    monday, _ = reserved(terms, Standing(), NIGHTLY)
    assert code(NIGHTLY, monday, terms)[0] == "schedule_full"
    assert reserved(terms, Standing(), NIGHTLY)[0] == monday, "another day has a standing of its own"
