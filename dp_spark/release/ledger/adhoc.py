"""The ad hoc pool: releases that nobody knew of before the account's first one, admitted by a filter.

What is asked next may depend on everything that was published, so only a filter for adaptive choices will
do: the sums of what each release costs against a limit that was fixed with the pool. A pool has one kind for
good. "Whichever of two sums is smaller" is no filter: which of the two bounds will hold in the end may be
chosen after looking. Who wants both makes two pools; what they allow adds up.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_UP
from fractions import Fraction

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import Gaussian, largest_rho, privacy_epsilon, zcdp_delta, zcdp_epsilon
from dp_spark.release.ledger.exact import show
from dp_spark.release.ledger.schedule import ReleaseNoise, release_zcdp
from dp_spark.release.spec import PoolKind

CUT_SHARE = Fraction(1, 2)
_LONGEST = 2**3000  # denominators beyond are rounded up: a sum must stay a text of moderate length


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pool adds up: `loss` is epsilon in a pool of sums, rho in one of zCDP."""

    loss: Fraction
    delta: Fraction

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.loss + other.loss, self.delta + other.delta)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.loss - other.loss, self.delta - other.delta)

    def times(self, count: int) -> "Cost":
        """So often."""
        return Cost(self.loss * count, self.delta * count)

    def fits(self, limit: "Cost") -> bool:
        """Whether neither number is above that of `limit`."""
        return self.loss <= limit.loss and self.delta <= limit.delta


NOTHING = Cost(Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class Pool:
    """A part of an account's limit for ad hoc releases.

    Attributes:
        kind: what it adds up, for good.
        guarantee: what all its releases together keep, whatever is asked: epsilon_a and delta_a.
        limit: what the sums may reach. Stored with the pool: what is computed later must not move it.
    """

    kind: PoolKind
    guarantee: PrivacyGuarantee
    limit: Cost


def open_pool(kind: PoolKind, guarantee: PrivacyGuarantee, cut_share: Fraction = CUT_SHARE) -> Pool:
    """A pool whose releases together keep `guarantee`.

    Sums: if the sums of epsilon and of delta, each known before its release, never pass the limits, all
    together is (epsilon_a, delta_a)-private [Rogers, Roth, Ullman, Vadhan 2016, the filter of basic
    composition].

    zCDP: if the sums of rho and delta never pass rho_a and d, all together is d-approximately rho_a-zCDP
    [Whitehouse, Ramdas, Rogers, Wu 2023], hence (epsilon_a, d + delta')-private for the delta' of
    rho_a at epsilon_a. The share d = `cut_share` delta_a is for cut tails, delta' is the rest.

    Raises:
        LedgerRefused: the share of the cut is no share.
        PlanRefused: epsilon or delta is out of the range in which zCDP can be converted.
    """
    if kind is PoolKind.SUMS:
        return Pool(kind, guarantee, Cost(guarantee.epsilon, guarantee.delta))
    if not 0 < cut_share < 1:
        raise LedgerRefused(
            "cut_share_range",
            f"a share of {cut_share} of delta for cut tails must lie between 0 and 1",
            way_out="write 1/2",
        )
    cut = guarantee.delta * cut_share
    rho = largest_rho(guarantee.epsilon, guarantee.delta - cut)
    return Pool(kind, guarantee, Cost(rho, cut))


def cost_in(pool: Pool, noise: ReleaseNoise, promised: PrivacyGuarantee) -> Cost:
    """What a release costs the pool, from its stored plan alone; `promised` is certified by that plan."""
    if pool.kind is PoolKind.SUMS:
        return Cost(promised.epsilon, promised.delta)
    found = release_zcdp(noise)
    return Cost(found.rho, found.delta)


def charged(pool: Pool, spent: Cost, cost: Cost, asked: str, promised: PrivacyGuarantee) -> Cost:
    """The sums after a release, which the ledger stores in the transaction that reserves it.

    Exact: ten times 0.1 is 1, and after that nothing that is positive fits. Only a sum whose text would grow
    beyond all use is rounded, up, after it was found to fit.

    Raises:
        BudgetRefused: it does not fit; says what was asked, what is left and what would fit.
    """
    after = spent + cost
    if not after.fits(pool.limit):
        raise _refused(pool, spent, cost, asked, promised)
    return Cost(_short(after.loss), _short(after.delta))


def left_in(pool: Pool, spent: Cost) -> Cost:
    """What the limit leaves; nothing in both where either is exhausted."""
    left = pool.limit - spent
    return left if min(left.loss, left.delta) >= 0 else NOTHING


def spent_pair(pool: Pool, spent: Cost) -> tuple[Fraction, Fraction]:
    """The sums as epsilon and delta, for display: those of zCDP as if the pool were closed now."""
    if pool.kind is PoolKind.SUMS or spent == NOTHING:
        return spent.loss, spent.delta
    rest = pool.guarantee.delta - pool.limit.delta
    return zcdp_epsilon(spent.loss, rest), spent.delta + rest


def releases_that_fit(pool: Pool, spent: Cost, cost: Cost) -> int:
    """How many more releases of this cost the pool admits."""
    left = left_in(pool, spent)
    ratios = [
        math.floor(have / need) for have, need in ((left.loss, cost.loss), (left.delta, cost.delta)) if need
    ]
    return min(ratios) if ratios else 0


def largest_epsilon(pool: Pool, spent: Cost, delta: Fraction) -> Fraction:
    """The epsilon of the largest release at `delta` that fits.

    In a pool of zCDP: of Gaussian noise with all that is left of rho, to six digits, rounded down; other
    noise reaches less or more.
    """
    left = left_in(pool, spent)
    if pool.kind is PoolKind.SUMS:
        return left.loss if delta <= left.delta else Fraction(0)
    if left.loss <= 0:
        return Fraction(0)
    found = privacy_epsilon(Gaussian(), math.sqrt(2 * float(left.loss)), delta)
    return Fraction(math.floor(found * 10**6), 10**6) if math.isfinite(found) else Fraction(0)


def lost_at(pool: Pool, spent: Cost, epsilon: Fraction) -> Fraction:
    """The delta at `epsilon` that a pool of zCDP would have if it were closed now: for display, no filter."""
    return min(Fraction(1), zcdp_delta(spent.loss, epsilon) + spent.delta)


def _short(value: Fraction) -> Fraction:
    if value.denominator <= _LONGEST:
        return value
    return Fraction(math.ceil(value * _LONGEST), _LONGEST)


def _refused(pool: Pool, spent: Cost, cost: Cost, asked: str, promised: PrivacyGuarantee) -> BudgetRefused:
    left = left_in(pool, spent)
    epsilon = largest_epsilon(pool, spent, promised.delta)
    fits = (
        f"at delta = {show(promised.delta)} epsilon = {show(epsilon)} fits"
        if epsilon > 0
        else "nothing fits at this delta"
    )
    gaussian = " with Gaussian noise, about" if pool.kind is PoolKind.ZCDP and epsilon > 0 else ""
    return BudgetRefused(
        "pool_exhausted",
        f"{asked} asks the ad hoc pool for {_shown(pool, cost, ROUND_UP)}; it has {_shown(pool, left)} left "
        f"of {_shown(pool, pool.limit)}",
        way_out=f"{fits}{gaussian}; or take a slot of a schedule that was enrolled with the account",
    )


def _shown(pool: Pool, cost: Cost, rounding: str = "ROUND_DOWN") -> str:
    loss = "epsilon" if pool.kind is PoolKind.SUMS else "rho"
    delta = "delta" if pool.kind is PoolKind.SUMS else "delta of cut tails"
    return (
        f"{loss} = {show(cost.loss, rounding=rounding)} and {delta} = {show(cost.delta, rounding=rounding)}"
    )
