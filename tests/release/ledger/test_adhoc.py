"""Filters of ad hoc pools: exact sums, refusals, and the adversary that a composed loss does not stop."""

from fractions import Fraction

import pytest
from schedule_support import BRANCHES, FIRST, adaptive_delta, noise, pair, table

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.noise import Gaussian, Laplace, Slot, composed_delta, composed_epsilon, zcdp_delta
from dp_spark.release.ledger.adhoc import (
    NOTHING,
    Cost,
    charged,
    cost_in,
    largest_epsilon,
    left_in,
    lost_at,
    open_pool,
    releases_that_fit,
)
from dp_spark.release.spec import PoolKind

BUDGET = pair(1)
SUMS, ZCDP = open_pool(PoolKind.SUMS, BUDGET), open_pool(PoolKind.ZCDP, BUDGET)
GAUSSIAN = noise(FIRST)


def spend(pool, costs):
    spent = NOTHING
    for cost in costs:
        spent = charged(pool, spent, cost, "release p/r/k/0", pair("0.1", "1e-7"))
    return spent


def admits(pool, spent, cost):
    try:
        charged(pool, spent, cost, "release p/r/k/0", pair("0.1", "1e-7"))
    except BudgetRefused:
        return False
    return True


def test_ten_times_a_tenth_is_one_and_then_nothing_positive_fits():
    spent = spend(SUMS, [Cost(Fraction("0.1"), Fraction("1e-7"))] * 10)
    assert spent == Cost(Fraction(1), Fraction("1e-6"))
    for tiny in (Fraction(5e-324), Fraction(1, 10**900), Fraction(1, 10**2000)):
        assert not admits(SUMS, spent, Cost(tiny, Fraction(0)))
        assert not admits(SUMS, spent, Cost(Fraction(0), tiny))


def test_a_pool_of_zcdp_is_exhausted_as_exactly():
    spent = spend(ZCDP, [Cost(ZCDP.limit.loss / 7, Fraction(0))] * 7)
    assert spent.loss == ZCDP.limit.loss
    assert not admits(ZCDP, spent, Cost(Fraction(5e-324), Fraction(0)))


def test_a_refund_gives_back_what_was_charged():
    costs = [Cost(Fraction(1, 3), Fraction(1, 10**9)), Cost(Fraction(1, 7), Fraction(1, 10**8))]
    assert spend(SUMS, costs) - costs[0] == costs[1]


def test_sums_of_endless_denominators_are_rounded_up_and_stay_short():
    spent = NOTHING
    exact = Fraction(0)
    primes = [n for n in range(3, 20_000, 2) if all(n % p for p in range(3, int(n**0.5) + 1, 2))]
    for prime in primes:
        cost = Cost(Fraction(1, prime**2 * 10**4), Fraction(0))
        spent, exact = charged(SUMS, spent, cost, "r", BUDGET), exact + cost.loss
    assert exact <= spent.loss < exact + Fraction(1, 2**2000)
    assert len(str(spent.loss)) < 4000


def test_the_limit_of_a_pool_of_zcdp_keeps_its_pair():
    assert zcdp_delta(ZCDP.limit.loss, BUDGET.epsilon) + ZCDP.limit.delta <= BUDGET.delta
    assert lost_at(ZCDP, ZCDP.limit, BUDGET.epsilon) <= BUDGET.delta
    other = open_pool(PoolKind.ZCDP, BUDGET, Fraction(9, 10))
    assert other.limit.loss < ZCDP.limit.loss
    assert other.limit.delta > ZCDP.limit.delta


@pytest.mark.parametrize("share", [0, 1, 2])
def test_a_share_of_the_cut_that_is_none_is_refused(share):
    with pytest.raises(LedgerRefused, match="between 0 and 1"):
        open_pool(PoolKind.ZCDP, BUDGET, Fraction(share))


def test_small_gaussian_releases_fit_more_often_in_a_pool_of_zcdp():
    """What it is for: 1/100 of std, promised at a fair share of delta, adds up to less."""
    small = table(Gaussian(), 100, 900)
    promised = pair(Fraction(composed_epsilon([Slot(small)], 1e-8)), "1e-8")
    fits = [releases_that_fit(pool, NOTHING, cost_in(pool, noise(small), promised)) for pool in (SUMS, ZCDP)]
    assert fits[1] > 10 * fits[0] > 0


def least_scale(pool, spent, family, scales):
    """The least of some scales with which a release of the family is still admitted."""
    for scale in scales:
        drawn = table(
            family, scale, int(16 * Fraction(scale)) if family == Gaussian() else int(40 * Fraction(scale))
        )
        promised = pair(Fraction(composed_epsilon([Slot(drawn)], 5e-7)), "5e-7")
        if admits(pool, spent, cost_in(pool, noise(drawn), promised)):
            return drawn
    raise AssertionError("none is admitted")


def test_a_filter_of_composed_losses_admits_what_reaches_nearly_three_times_the_budget():
    """The fault: each branch alone composes to the budget, and the choice after looking does not."""
    for branch in BRANCHES:
        assert composed_delta([Slot(FIRST), Slot(branch)], 1.0) <= 1.005e-6
    assert adaptive_delta(FIRST, BRANCHES, 1.0) > 2.5e-6


@pytest.mark.parametrize(("pool", "fit"), [(SUMS, 1), (ZCDP, 0)], ids=["sums", "zcdp"])
def test_our_filters_leave_of_these_branches_no_choice_that_hurts(pool, fit):
    """Sums admit the truncated Laplace noise of epsilon 0.2, which is within the budget; zCDP none."""
    promised = pair(Fraction(composed_epsilon([Slot(FIRST)], 1e-9)), "1e-9")
    spent = charged(pool, NOTHING, cost_in(pool, GAUSSIAN, promised), "first", promised)
    wanted = [pair(Fraction(composed_epsilon([Slot(each)], 9.9e-7)), "9.9e-7") for each in BRANCHES]
    admitted = [
        branch
        for branch, promise in zip(BRANCHES, wanted, strict=True)
        if admits(pool, spent, cost_in(pool, noise(branch), promise))
    ]
    assert len(admitted) == fit
    assert not admitted or adaptive_delta(FIRST, admitted, 1.0) <= 1e-6


@pytest.mark.parametrize("pool", [SUMS, ZCDP], ids=["sums", "zcdp"])
def test_the_worst_choice_among_all_that_our_filters_admit_stays_within_the_budget(pool):
    promised = pair(Fraction(composed_epsilon([Slot(FIRST)], 5e-7)), "5e-7")
    spent = charged(pool, NOTHING, cost_in(pool, GAUSSIAN, promised), "first", promised)
    scales = [str(round(0.5 * 1.05**k, 3)) for k in range(140)]
    admitted = [least_scale(pool, spent, family, scales) for family in (Gaussian(), Laplace())]
    truth = adaptive_delta(FIRST, admitted, 1.0)
    assert 1e-10 < truth <= 1e-6


def test_the_smaller_of_two_sums_is_no_filter():
    """The fault that a pool without a kind would make: a choice among two bounds, made after looking.

    Both branches fit by one of the bounds, and together they reach more than either bound says.
    """
    spent_rho = cost_in(ZCDP, GAUSSIAN, BUDGET)
    by_rho = least_scale(
        ZCDP,
        charged(ZCDP, NOTHING, spent_rho, "first", BUDGET),
        Gaussian(),
        [str(round(4 * 1.02**k, 3)) for k in range(80)],
    )
    promised = pair(Fraction(composed_epsilon([Slot(FIRST)], 5e-7)), "5e-7")
    spent_sum = charged(SUMS, NOTHING, cost_in(SUMS, GAUSSIAN, promised), "first", promised)
    by_sum = least_scale(SUMS, spent_sum, Laplace(), [str(round(1 * 1.02**k, 3)) for k in range(120)])
    assert not admits(
        ZCDP, charged(ZCDP, NOTHING, spent_rho, "first", BUDGET), cost_in(ZCDP, noise(by_sum), BUDGET)
    )
    alone = [adaptive_delta(FIRST, [branch], 1.0) for branch in (by_rho, by_sum)]
    assert adaptive_delta(FIRST, [by_rho, by_sum], 1.0) > 1.05 * max(alone)


@pytest.mark.parametrize("pool", [SUMS, ZCDP], ids=["sums", "zcdp"])
def test_a_refusal_says_what_was_asked_what_is_left_and_what_fits(pool):
    half = Cost(pool.limit.loss / 2, pool.limit.delta / 4)
    spent = spend(pool, [half])
    with pytest.raises(BudgetRefused) as refused:
        charged(pool, spent, half.times(2), "release p/r/2013-01-02/0", pair(1, "1e-7"))
    text = str(refused.value)
    assert refused.value.code == "pool_exhausted"
    assert "release p/r/2013-01-02/0 asks the ad hoc pool for" in text
    assert ("epsilon = 0.5" if pool is SUMS else "with Gaussian noise, about") in text


def test_what_is_said_to_fit_fits_and_a_little_more_does_not():
    spent = spend(SUMS, [Cost(Fraction("0.3"), Fraction("4e-7"))])
    most = largest_epsilon(SUMS, spent, Fraction("1e-7"))
    assert admits(SUMS, spent, Cost(most, Fraction("1e-7")))
    assert not admits(SUMS, spent, Cost(most + Fraction(1, 10**30), Fraction("1e-7")))
    assert largest_epsilon(SUMS, spent, Fraction("7e-7")) == 0
    count = releases_that_fit(SUMS, spent, Cost(Fraction("0.1"), Fraction("1e-7")))
    assert count == 6
    assert left_in(SUMS, Cost(Fraction(2), Fraction(0))) == NOTHING


def test_the_gaussian_release_that_is_said_to_fit_a_pool_of_zcdp_has_all_that_is_left_of_rho():
    spent = Cost(ZCDP.limit.loss / 2, Fraction(0))
    epsilon = largest_epsilon(ZCDP, spent, Fraction("1e-7"))
    std = 1 / (2 * float(left_in(ZCDP, spent).loss)) ** 0.5
    drawn = table(Gaussian(), Fraction(std), int(10 * std))
    assert composed_epsilon([Slot(drawn)], 1e-7) == pytest.approx(float(epsilon), rel=2e-3)
