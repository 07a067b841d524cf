"""Accounts that are divided: slots, pools, late schedules, periods of units and windows, on each database."""

from dataclasses import astuple, replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from ledger_support import MASTER_KEY, POPULATION, TAILNUM, fund, guarantee, meanwhile, reserve
from schedule_support import noise, table

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyUnit
from dp_spark.noise import Gaussian
from dp_spark.release.ledger import (
    Decision,
    Enrolment,
    Ledger,
    Receipt,
    ReleaseId,
    ReleaseState,
    Schedule,
    store,
    warning_of,
)
from dp_spark.release.ledger.adhoc import Cost
from dp_spark.release.spec import PeriodSpec, PoolKind

NIGHT = noise(table(Gaussian(), 40, 340))
LOUDER, QUIETER = noise(table(Gaussian(), 50, 430)), noise(table(Gaussian(), 30, 260))
DAILY = PeriodSpec(column="date", every="day")
PERSON_DAY = PrivacyUnit(("tailnum",), Every.DAY)
WHY = "decided by the board"


def release(name, key="2013-01-01", revision=0, population=POPULATION):
    return ReleaseId(population, name, key, revision)


def enrol(ledger, slots=3, name="nightly", population=POPULATION, **changes):
    schedule = Schedule(name, NIGHT, slots)
    ledger.enrol(population, Enrolment(schedule, "spec-1", b"plan-1", **changes), reason=WHY)


def night(ledger, key="2013-01-01", draws=NIGHT, **changes):
    return reserve(ledger, release_id=release("nightly", key), noise=draws, **changes)


def code(action, *args, **kwargs):
    with pytest.raises((BudgetRefused, LedgerRefused)) as refused:
        action(*args, **kwargs)
    return refused.value.code


@pytest.fixture
def shared(empty_ledger):
    """An account of (1, 1e-6) with a pool of (1/2, 1e-7) and a schedule of three nights."""
    fund(empty_ledger, 1, "1e-6")
    empty_ledger.set_pools(POPULATION, {PoolKind.SUMS: guarantee("1/2", "1e-7")}, reason=WHY)
    enrol(empty_ledger)
    return empty_ledger


def test_a_night_takes_a_slot_and_nothing_of_the_pool(shared):
    for day in range(3):
        assert night(shared, f"day-{day}").charged_now
    account = shared.budget(POPULATION)
    assert account.spent.epsilon == 0
    assert account.standing.taken == {"nightly": 3}
    assert code(night, shared, "day-3") == "schedule_full"
    assert not night(shared, "day-2").charged_now, "a known release is resumed for nothing"
    assert astuple(account.scheduled) == (Fraction(1, 2), Fraction("9e-7"))


def test_less_noise_than_was_enrolled_is_refused_and_more_takes_the_slot(shared):
    assert code(night, shared, draws=QUIETER) == "slot_too_small"
    assert night(shared, draws=LOUDER).charged_now


def test_everything_else_is_paid_by_the_pool_as_it_promises(shared):
    reserve(shared, charge=guarantee("0.3", "1e-8"))
    assert code(reserve, shared, "2013-01-02", charge=guarantee("0.3", "1e-8")) == "pool_exhausted"
    reserve(shared, "2013-01-02", charge=guarantee("0.2", "1e-8"))
    account = shared.budget(POPULATION)
    assert astuple(account.spent) == (Fraction(1, 2), Fraction("2e-8"))
    assert account.left.epsilon == 0
    assert night(shared).charged_now, "the pool's end is not the schedule's"


def test_a_revision_of_a_night_is_paid_by_the_pool_and_so_is_a_night_that_asks_for_it(shared):
    night(shared)
    again = release("nightly", revision=1)
    reserve(shared, release_id=again, noise=NIGHT, revision_reason="late rows")
    assert shared.budget(POPULATION).spent.epsilon == Fraction("0.1")
    night(shared, "2013-01-02", pool=PoolKind.SUMS)
    account = shared.budget(POPULATION)
    assert account.spent.epsilon == Fraction("0.2")
    assert account.standing.taken == {"nightly": 1}
    assert shared.find(again).receipt == Receipt(
        pool=PoolKind.SUMS, cost=Cost(Fraction("0.1"), Fraction(0)), labels=("",)
    )


def test_what_is_aborted_is_given_back_exactly(shared):
    before = shared.budget(POPULATION).standing
    claims = [night(shared), reserve(shared, charge=guarantee("0.3", "1e-8"))]
    for claim in claims:
        shared.decide(claim.release_id, Decision.ABORT, WHY)
    account = shared.budget(POPULATION)
    assert account.standing.taken == {"nightly": 0}
    assert astuple(account.spent) == (0, 0)
    assert account.standing.holds(before)
    assert shared.verify().findings == ()


def test_a_night_that_was_aborted_has_its_slot_when_it_is_released_after_all(shared):
    aborted = night(shared)
    shared.decide(aborted.release_id, Decision.ABORT, WHY)
    again, third = (release("nightly", revision=revision) for revision in (1, 2))
    reserve(shared, release_id=again, noise=NIGHT, revision_reason="ready now")
    reserve(shared, release_id=third, noise=NIGHT, revision_reason="late rows")
    account = shared.budget(POPULATION)
    assert account.standing.taken == {"nightly": 1}
    assert account.spent.epsilon == Fraction("0.1"), "of the third, which a pool pays"
    assert shared.verify().findings == ()


def test_a_pool_of_zcdp_admits_what_sums_do_not(empty_ledger):
    """Sixteen nights at a price of 0.2 each: their sum is 3.2, their rho about 5e-3."""
    fund(empty_ledger, 1, "1e-6")
    empty_ledger.set_pools(POPULATION, {PoolKind.ZCDP: guarantee(1, "1e-6")}, reason=WHY)
    for day in range(16):
        reserve(empty_ledger, f"day-{day}", noise=NIGHT, charge=guarantee("0.2", "1e-8"))
    account = empty_ledger.budget(POPULATION)
    assert 0 < account.spent.epsilon < 1
    assert account.more_of(empty_ledger.find(release("flights", "day-0")).took) > 1
    assert empty_ledger.verify().findings == ()


def test_pure_epsilon_beyond_a_pool_of_zcdp_is_refused_and_told_that_nothing_fits(ledger):
    """No Gaussian noise keeps an epsilon at a delta of 0."""
    ledger.set_pools(POPULATION, {PoolKind.ZCDP: guarantee("0.1", "1e-7")}, reason=WHY)
    with pytest.raises(BudgetRefused, match="nothing fits at this delta") as refused:
        reserve(ledger, noise=QUIETER, charge=guarantee("0.2", 0))
    assert refused.value.code == "pool_exhausted"


def test_of_two_pools_one_is_named(empty_ledger):
    fund(empty_ledger, 1, "1e-6")
    half = guarantee("1/2", "5e-7")
    empty_ledger.set_pools(POPULATION, {PoolKind.SUMS: half, PoolKind.ZCDP: half}, reason=WHY)
    assert code(reserve, empty_ledger, noise=NIGHT) == "no_pool"
    reserve(empty_ledger, noise=NIGHT, pool=PoolKind.ZCDP)
    reserve(empty_ledger, "2013-01-02", noise=NIGHT, pool=PoolKind.SUMS)
    assert set(empty_ledger.budget(POPULATION).standing.spent) == set(PoolKind)


def test_pools_and_schedules_are_fixed_by_the_first_release(shared):
    night(shared)
    pools = {PoolKind.SUMS: guarantee("1/4", "1e-7")}
    assert code(shared.set_pools, POPULATION, pools, reason=WHY) == "terms_fixed"
    assert code(enrol, shared, name="weekly") == "schedule_late"


def test_a_late_schedule_is_paid_by_a_pool_once(shared):
    night(shared)
    enrol(shared, 2, "late", together=guarantee("0.3", "1e-8"))
    paid = shared.budget(POPULATION).spent
    assert astuple(paid) == (Fraction("0.3"), Fraction("1e-8"))
    for day in range(2):
        reserve(shared, release_id=release("late", f"day-{day}"), noise=NIGHT)
    assert shared.budget(POPULATION).spent == paid
    assert code(reserve, shared, release_id=release("late", "day-2"), noise=NIGHT) == "schedule_full"
    assert shared.verify().findings == ()
    assert code(enrol, shared, 400, "longer", together=guarantee("0.2", "1e-8")) == "schedule_over_pair"
    assert code(enrol, shared, 1, "again", together=guarantee("0.201", "1e-8")) == "pool_exhausted"


def test_what_does_not_fit_beside_the_rest_is_refused_and_says_what_fits(shared):
    with pytest.raises(BudgetRefused, match=r"\d+ slots of longer fit") as refused:
        enrol(shared, 100_000, "longer")
    assert refused.value.code == "schedule_over_limit"
    assert code(enrol, shared, 1, "nightly") == "schedule_known"
    too_much = {PoolKind.SUMS: guarantee(1, "1e-6")}
    assert code(shared.set_pools, POPULATION, too_much, reason=WHY) == "schedule_over_limit"
    assert code(fund, shared, "1/4", "1e-6") == "schedule_over_limit"
    assert shared.budget(POPULATION).limit.epsilon == 1


def test_a_schedule_for_other_neighbours_is_refused_since_no_release_could_take_it(shared):
    other = Schedule("other", replace(NIGHT, neighbours=Neighbours.REPLACE), 3)
    asked = Enrolment(other, "spec-1", b"plan-1")
    assert code(shared.enrol, POPULATION, asked, reason=WHY) == "other_protection"


def test_a_limit_may_be_raised_over_what_is_set_aside(shared):
    night(shared)
    fund(shared, 2, "1e-6")
    account = shared.budget(POPULATION)
    assert account.limit.epsilon == 2
    assert account.ad_hoc.epsilon == Fraction(1, 2), "what is set aside stays as it was"


@pytest.mark.parametrize("reason", ["", " \n"])
def test_no_decision_without_a_reason(ledger, reason):
    pools = {PoolKind.SUMS: guarantee("1/2", "1e-7")}
    assert code(ledger.set_pools, POPULATION, pools, reason=reason) == "reason_missing"
    month = guarantee("1/2", "1e-7")
    assert code(ledger.set_window, POPULATION, Every.MONTH, month, reason=reason) == "reason_missing"
    asked = Enrolment(Schedule("n", NIGHT, 1), "spec-1", b"plan-1")
    ledger.set_pools(POPULATION, pools, reason=WHY)
    assert code(ledger.enrol, POPULATION, asked, reason=reason) == "reason_missing"


def test_whoever_charges_meanwhile_makes_a_decision_start_again(ledger, monkeypatch):
    from dp_spark.release.ledger import dividing

    def slow(*args, **kwargs):
        reserve(ledger)
        return proved(*args, **kwargs)

    proved = dividing.require_within_limit
    monkeypatch.setattr(dividing, "require_within_limit", slow)
    pools = {PoolKind.SUMS: guarantee("1/2", "1e-7")}
    assert code(ledger.set_pools, POPULATION, pools, reason=WHY) == "account_changed"
    assert ledger.budget(POPULATION).pools is None


def test_a_limit_is_not_lowered_under_what_somebody_sets_aside_meanwhile(ledger):
    half = {PoolKind.SUMS: guarantee("1/2", "1e-7")}
    slow = meanwhile(ledger, lambda: ledger.set_pools(POPULATION, half, reason=WHY))
    assert code(fund, slow, "1/4", "1e-6") == "account_changed"
    slow = meanwhile(ledger, lambda: enrol(ledger))
    assert code(fund, slow, "1/2", "1e-7") == "account_changed"
    assert ledger.budget(POPULATION).limit == guarantee(1, "1e-6")


def test_an_account_that_somebody_opens_meanwhile_is_not_opened_again(empty_ledger):
    def opened():
        fund(empty_ledger, 1, "1e-6")
        empty_ledger.set_pools(POPULATION, {PoolKind.SUMS: guarantee(1, "1e-6")}, reason=WHY)

    assert code(fund, meanwhile(empty_ledger, opened), "1/4", "1e-6") == "account_changed"
    assert empty_ledger.budget(POPULATION).limit.epsilon == 1


def test_a_limit_moves_though_somebody_charges_meanwhile(ledger):
    fund(meanwhile(ledger, lambda: reserve(ledger)), 2, "1e-6")
    account = ledger.budget(POPULATION)
    assert (account.limit.epsilon, account.spent.epsilon) == (2, Fraction("0.1"))


def test_the_history_tells_what_was_set_aside(shared):
    shared.set_window(POPULATION, Every.MONTH, guarantee(1, "1e-6"), reason="quarterly review")
    told = [(entry.what, entry.about, entry.reason) for entry in shared.history(POPULATION)]
    assert told[1:] == [
        ("pools", "sums epsilon = 0.5, delta = 0.0000001", WHY),
        ("schedule", "nightly: 3 slots", WHY),
        ("window", "each month epsilon = 1, delta = 0.000001", "quarterly review"),
    ]


def test_few_slots_left_are_a_warning(shared):
    assert warning_of(shared.budget(POPULATION)) is None
    for day in range(3):
        night(shared, f"day-{day}")
    assert warning_of(shared.budget(POPULATION)).share == 0


@pytest.fixture
def days(empty_ledger):
    """An account of person-days: (1, 1e-6) for each of them."""
    empty_ledger.set_budget(
        "days", guarantee(1, "1e-6"), unit=PERSON_DAY, neighbours=Neighbours.ADD_REMOVE, reason=WHY
    )
    return empty_ledger


def of_day(ledger, key, name="flights", **changes):
    asked = {"unit": PERSON_DAY, "period": DAILY, "charge": guarantee("0.6", "1e-7")} | changes
    return reserve(ledger, release_id=release(name, key, population="days"), **asked)


def test_disjoint_days_compose_in_parallel(days):
    for day in range(1, 8):
        assert of_day(days, f"2013-01-{day:02}").charged_now
    assert code(of_day, days, "2013-01-03", "again") == "budget_exhausted"
    assert days.budget("days").spent.epsilon == Fraction("0.6"), "of the fullest day"
    assert days.verify().findings == ()


def test_a_week_is_paid_by_each_of_its_days(days):
    week = PeriodSpec(column="date", every="week")
    of_day(days, "2013-01-07", "weekly", period=week, charge=guarantee("0.3", "1e-8"))
    for day in range(7, 14):
        of_day(days, f"2013-01-{day:02}", charge=guarantee("0.7", "1e-8"))
        assert (
            code(of_day, days, f"2013-01-{day:02}", "more", charge=guarantee("0.1", 0)) == "budget_exhausted"
        )
    of_day(days, "2013-01-14", charge=guarantee(1, "1e-6"))


def test_an_aborted_week_is_given_back_to_each_of_its_days(days):
    week = PeriodSpec(column="date", every="week")
    claim = of_day(days, "2013-01-07", "weekly", period=week)
    days.decide(claim.release_id, Decision.ABORT, WHY)
    for day in range(7, 14):
        of_day(days, f"2013-01-{day:02}", charge=guarantee(1, "1e-6"))


def test_a_release_that_reads_all_days_at_once_is_refused(days):
    """It would cost each day, also those that come: no sum of a day would hold it."""
    of_day(days, "2013-01-01")
    assert code(of_day, days, "2013-01-02", period=None) == "other_partition"


@pytest.mark.parametrize("changes", [{"column": "arrived"}, {"timezone": "America/New_York"}])
def test_who_cuts_time_otherwise_is_refused(days, changes):
    of_day(days, "2013-01-01")
    other = PeriodSpec(**({"column": "date", "every": "day"} | changes))
    assert code(of_day, days, "2013-01-02", period=other) == "other_partition"
    assert of_day(days, "2013-01-02").charged_now


def test_a_schedule_of_person_days_has_a_slot_each_day(days):
    days.set_pools("days", {PoolKind.SUMS: guarantee("1/2", "1e-7")}, reason=WHY)
    enrol(days, 365, population="days")
    for key in ("2013-01-01", "2013-01-02"):
        of_day(days, key, "nightly", noise=NIGHT)
    revised = release("nightly", "2013-01-01", 1, "days")
    asked = {"unit": PERSON_DAY, "period": DAILY, "charge": guarantee("0.6", 0), "noise": NIGHT}
    assert code(reserve, days, release_id=revised, revision_reason="late", **asked) == "pool_exhausted"
    assert code(enrol, days, 5, "late", population="days", together=guarantee("0.1", 0)) == "schedule_late"


def test_a_window_admits_what_it_holds_and_opens_again(place):
    now = [datetime(2026, 1, 30, tzinfo=UTC)]
    ledger = Ledger.open(place.url, MASTER_KEY, clock=lambda: now[0])
    fund(ledger, 10, "1e-6")
    ledger.set_window(POPULATION, Every.MONTH, guarantee("0.2", "1e-7"), reason=WHY)
    reserve(ledger, "day-0")
    aborted = reserve(ledger, "day-1")
    assert code(reserve, ledger, "day-2") == "window_exhausted"
    ledger.decide(aborted.release_id, Decision.ABORT, WHY)
    reserve(ledger, "day-2")
    now[0] = datetime(2026, 2, 1, tzinfo=UTC)
    reserve(ledger, "day-3")
    now[0] = datetime(2025, 12, 31, tzinfo=UTC)
    reserve(ledger, "day-4")
    assert code(reserve, ledger, "day-5") == "window_exhausted", "the clock went back, the window did not"
    assert ledger.budget(POPULATION).spent.epsilon == Fraction("0.4")


def test_a_window_is_asked_of_slots_too(shared):
    shared.set_window(POPULATION, Every.DAY, guarantee("0.1", "1e-7"), reason=WHY)
    night(shared)
    assert code(night, shared, "2013-01-02") == "window_exhausted"
    assert shared.budget(POPULATION).standing.taken == {"nightly": 1}


def test_a_sum_with_ten_thousand_charges_behind_it_is_exact(empty_ledger, place):
    """The 10,000 are copies of one row of each table; the sum is what they come to."""
    fund(empty_ledger, 20_000, "1e-3")
    reserve(empty_ledger, "day-0", source="/data/flights", charge=guarantee("1/3", "1e-8"))
    columns = [column.name for column in store.releases.columns if column.name not in {"id", "period_key"}]
    names = ", ".join(columns)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) "
    chosen = f"SELECT {names}, 'copy-' || i FROM releases, n"
    place.sql(
        f"INSERT INTO releases ({names}, period_key) {numbers}{chosen}"
        if "postgres" in place.url
        else f"{numbers}INSERT INTO releases ({names}, period_key) {chosen}"
    )
    standing = empty_ledger.budget(POPULATION).standing
    cost = standing.spent[PoolKind.SUMS].times(10_000)
    place.sql("UPDATE standings SET standing = ?", type(standing)(spent={PoolKind.SUMS: cost}).to_text())
    empty_ledger.set_window(POPULATION, Every.MONTH, guarantee(10_000, "1e-3"), reason=WHY)
    for day in range(1, 6):
        reserve(empty_ledger, f"day-{day}", source="/data/flights", charge=guarantee("1/7", "1e-9"))
    assert empty_ledger.budget(POPULATION).spent.epsilon == Fraction(10_000, 3) + Fraction(5, 7)


def test_a_seal_of_a_night_moves_no_sum(shared):
    claim = night(shared)
    before = shared.budget(POPULATION).standing
    shared.start_reading(claim)
    shared.stage(claim, "digest-1", "staging/1")
    assert shared.find(claim.release_id).state is ReleaseState.STAGED
    assert shared.budget(POPULATION).standing == before
    assert shared.budget(POPULATION).unit == TAILNUM
