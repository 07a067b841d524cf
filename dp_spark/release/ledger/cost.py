"""What an account sets aside before its first release, and that this stays within its lifetime limit.

Schedules and pools are chosen before anything is published. From then on nothing but slots are taken and
costs are charged, so what was proved once stays true. Total: the exact composition of all slots, beside the
pair that all pools together keep. Schedules and pools are used side by side, what each does next depending
on what the other showed: interactive mechanisms compose concurrently as non-interactive ones do [Vadhan,
Zhang 2023 for f-DP; Haney et al. 2023 for costs that are chosen on the way].

A schedule that is added after the first release may have been chosen because of what was seen. Composition
of what is fixed in advance does not hold for it (math.md section 3 has the counter-example), so it is one
charge to a pool, at its own price: `late_cost`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_UP
from fractions import Fraction
from functools import cache, partial
from itertools import product

from dp_spark.errors import BudgetRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import Slot, beside_pair, slots_delta, slots_epsilon, worst_cases
from dp_spark.noise.neighbours import case_slots
from dp_spark.release.ledger.adhoc import Cost, Pool
from dp_spark.release.ledger.exact import show
from dp_spark.release.ledger.schedule import ReleaseNoise, Schedule, release_zcdp
from dp_spark.release.spec import PoolKind

_MOST_CASES = 64
_MOST_SPLITS = 16


def scheduled_delta(schedules: Sequence[Schedule], epsilon: Fraction) -> Fraction:
    """An upper bound of delta at `epsilon` >= 0 of all slots of all schedules, by two accountants.

    For every pair of neighbours: which cells two units share may differ from schedule to schedule, so all
    combinations of the cases of each are priced; with more schedules under `replace` in wider blocks.
    """
    if not schedules:
        return Fraction(0)
    return Fraction(slots_delta(_cases(schedules), float_below(epsilon)))


def scheduled_epsilon(schedules: Sequence[Schedule], delta: Fraction) -> float:
    """The epsilon of all slots at `delta`, for people: what 365 nights come to; infinity if there is none."""
    return slots_epsilon(_cases(schedules), float_below(delta)) if schedules else 0.0


def pools_pair(pools: Iterable[Pool]) -> tuple[Fraction, Fraction]:
    """What all pools together keep: the exact sums, since each keeps its own whatever the others do."""
    pools = tuple(pools)
    return (
        sum((pool.guarantee.epsilon for pool in pools), Fraction(0)),
        sum((pool.guarantee.delta for pool in pools), Fraction(0)),
    )


def total_delta(schedules: Sequence[Schedule], pools: Sequence[Pool], epsilon: Fraction) -> Fraction:
    """An upper bound of delta at `epsilon` of the whole account."""
    profile = cache(partial(scheduled_delta, schedules))
    return beside_pair(profile, pools_pair(pools), epsilon)


def require_within_limit(
    population: str, limit: PrivacyGuarantee, schedules: Sequence[Schedule], pools: Sequence[Pool]
) -> None:
    """Check that schedules and pools together stay within the limit.

    Raises:
        BudgetRefused: they do not. Says what they come to, and what of the last schedule would fit.
    """
    found = total_delta(schedules, pools, limit.epsilon)
    if found <= limit.delta:
        return
    pair = pools_pair(pools)
    asked = [f"{each.slots} slots of {each.name}" for each in schedules]
    asked += [f"a pool of {_shown(pool.guarantee)}" for pool in pools]
    raise BudgetRefused(
        "schedule_over_limit",
        f"{' and '.join(asked)} come to delta = {show(_rounded(found), rounding=ROUND_UP)} at "
        f"epsilon = {show(limit.epsilon)}; population {population} may lose {_shown(limit)} in all",
        way_out=_what_fits(limit, schedules, pools)
        + f"; or make the pools smaller (now epsilon = {show(pair[0])}, delta = {show(pair[1])})",
    )


def slots_that_fit(limit: PrivacyGuarantee, schedules: Sequence[Schedule], pools: Sequence[Pool]) -> int:
    """How many slots of the last schedule fit beside everything else, at most as many as it has; 0: none."""
    *others, last = schedules

    def fit(slots: int) -> bool:
        try:
            asked = [*others, replace(last, slots=slots)] if slots else others
            return total_delta(asked, pools, limit.epsilon) <= limit.delta
        except (ValueError, ArithmeticError):  # a loss grid too fine for this many
            return False

    low, high = 0, last.slots + 1
    if not fit(0):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


def room(
    limit: PrivacyGuarantee, schedules: Sequence[Schedule], pools: Sequence[Pool]
) -> PrivacyGuarantee | None:
    """A pair that one more schedule may cost so that the whole stays within the limit; None if there is none.

    What the pools keep is subtracted, exactly; beside other schedules, half of the delta that is left is
    theirs, and their epsilon at it is subtracted. A sufficient pair: `require_within_limit` decides.
    """
    epsilon, delta = pools_pair(pools)
    epsilon, delta = limit.epsilon - epsilon, limit.delta - delta
    if schedules and delta > 0:
        delta /= 2
        theirs = scheduled_epsilon(schedules, delta)
        if not math.isfinite(theirs):
            return None
        epsilon -= Fraction(theirs)
    return PrivacyGuarantee(epsilon, delta) if epsilon > 0 and delta > 0 else None


def late_cost(schedule: Schedule, pool: Pool, together: PrivacyGuarantee) -> Cost:
    """What a whole schedule, whose slots keep `together`, costs a pool that was there before.

    Its slots are fixed among themselves, so it is priced by its own exact composition, and charged once,
    as one mechanism whose parameters were chosen on the way [Haney et al. 2023]: `together` in a pool of
    sums; in one of zCDP so many times its rho and its cut.

    Raises:
        BudgetRefused: the slots do not keep `together`; says what they come to.
    """
    if scheduled_delta([schedule], together.epsilon) > together.delta:
        epsilon = scheduled_epsilon([schedule], together.delta)
        found = f"epsilon = {epsilon:.6g}" if math.isfinite(epsilon) else "no epsilon"
        raise BudgetRefused(
            "schedule_over_pair",
            f"{schedule.slots} slots of {schedule.name} do not keep {_shown(together)}: at this delta they "
            f"have {found}",
            way_out="give a larger epsilon or delta, or a smaller horizon"
            + ("" if math.isfinite(epsilon) else "; the cut tails of their noise cost more than this delta"),
        )
    if pool.kind is PoolKind.SUMS:
        return Cost(together.epsilon, together.delta)
    found_zcdp = release_zcdp(schedule.noise, schedule.slots)
    return Cost(found_zcdp.rho, found_zcdp.delta)


def float_below(value: Fraction) -> float:
    """The largest float that is not above."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _merged(schedules: Iterable[Schedule]) -> dict[str, tuple[ReleaseNoise, int]]:
    """Each noise with all slots that have it: their cases are those of one longer schedule."""
    merged: dict[str, tuple[ReleaseNoise, int]] = {}
    for schedule in schedules:
        digest = schedule.noise.digest
        merged[digest] = schedule.noise, schedule.slots + merged.get(digest, (None, 0))[1]
    return merged


def _cases(schedules: Iterable[Schedule]) -> list[list[Slot]]:
    merged = list(_merged(schedules).values())
    uncertain = sum(len(worst_cases(noise.parts, times)) > 1 for noise, times in merged)
    splits = _MOST_SPLITS if uncertain < 2 else max(1, int(_MOST_CASES ** (1 / uncertain) + 1e-9) - 1)
    each = [
        [case_slots(case, noise.tables) for case in worst_cases(noise.parts, times, splits)]
        for noise, times in merged
    ]
    return [[slot for slots in combined for slot in slots] for combined in product(*each)]


def _what_fits(limit: PrivacyGuarantee, schedules: Sequence[Schedule], pools: Sequence[Pool]) -> str:
    if not schedules:
        return "nothing fits"
    fits, last = slots_that_fit(limit, schedules, pools), schedules[-1]
    if fits:
        return f"{fits} slots of {last.name} fit"
    return f"no slot of {last.name} fits: plan it for the budget over its horizon (`guarantee: from_budget`)"


def _rounded(delta: Fraction) -> Fraction:
    """Three digits, rounded up, for people."""
    text = f"{float(delta):.2e}"
    return Fraction(text) if Fraction(text) >= delta else Fraction(text) * Fraction(1001, 1000)


def _shown(amount: PrivacyGuarantee) -> str:
    return f"epsilon = {show(amount.epsilon)} and delta = {show(amount.delta)}"
