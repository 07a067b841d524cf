"""What schedules and pools come to: a year of nights, totals against dp-accounting, limits, what fits."""

import math
from fractions import Fraction

import pytest
from schedule_support import BRANCHES, FIRST, adaptive_delta, gaussian_night, noise, pair, schedule, table

from dp_spark.errors import BudgetRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.noise import Gaussian, Laplace, wide
from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import table_law
from dp_spark.noise.losses import Repeated
from dp_spark.release.ledger.adhoc import Cost, open_pool
from dp_spark.release.ledger.cost import (
    float_below,
    late_cost,
    require_within_limit,
    room,
    scheduled_delta,
    scheduled_epsilon,
    slots_that_fit,
    total_delta,
)
from dp_spark.release.spec import PoolKind

GRID = 2e-6
NIGHT = noise(table(Gaussian(), "40", 340))
LAPLACE = noise(table(Laplace(), "30", 900))
POOL = open_pool(PoolKind.SUMS, pair("1/2", "3e-7"))


def test_a_year_of_gaussian_nights_shows_what_the_design_says():
    year = [schedule(noise(gaussian_night()), 365)]
    assert scheduled_epsilon(year, Fraction("1e-6")) == pytest.approx(27.09, rel=2e-4)


def test_schedules_of_one_noise_are_one_schedule_and_names_do_not_matter():
    apart = [schedule(NIGHT, 5, "a"), schedule(NIGHT, 7, "b")]
    together = [schedule(NIGHT, 12, "c")]
    assert scheduled_delta(apart, Fraction(1, 5)) == scheduled_delta(together, Fraction(1, 5))


def pmf_of(release):
    from dp_accounting.pld import privacy_loss_distribution

    half = wide.to_floats(release.tables[0].weights)
    masses = [*half[:0:-1], *half]
    kept, moved = masses, [0.0, *masses[:-1]]
    upper = {n: math.log(p) for n, p in enumerate(kept) if p > 0}
    lower = {n: math.log(p) for n, p in enumerate(moved) if p > 0}
    return privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=GRID
    )


@pytest.mark.parametrize("epsilon", ["0.4", "1", "2"])
def test_the_total_is_what_dp_accounting_composes_from_the_tables_and_the_pools(epsilon):
    from dp_accounting.pld import common, privacy_loss_distribution

    schedules = [schedule(NIGHT, 40), schedule(LAPLACE, 9, "weekly")]
    other = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(0.5, 3e-7), value_discretization_interval=GRID
    )
    theirs = pmf_of(NIGHT).self_compose(40).compose(pmf_of(LAPLACE).self_compose(9)).compose(other)
    ours = total_delta(schedules, [POOL], Fraction(epsilon))
    assert float(ours) == pytest.approx(theirs.get_delta_for_epsilon(float(epsilon)), rel=5e-3, abs=0)


def test_pools_add_up_and_no_schedule_costs_nothing():
    zcdp = open_pool(PoolKind.ZCDP, pair("1/4", "2e-7"))
    assert total_delta([], [POOL, zcdp], Fraction(3, 4)) == Fraction("5e-7")
    assert total_delta([], [POOL, zcdp], Fraction(74, 100)) > Fraction("1e-3")
    assert total_delta([], [], Fraction(1)) == 0


def replaced(name, cells, sensitivity=2, overlap=3):
    drawn = table(Gaussian(), 6, 50, sensitivity)
    release = noise(drawn, cells=cells, overlap=overlap, neighbours=Neighbours.REPLACE)
    return schedule(release, 4, name)


def test_each_schedule_may_have_other_cells_in_common():
    """The worst of two schedules under `replace`: all cells in common in one, none in the other."""
    one, two = replaced("a", 1), replaced("b", 1, 4, 5)
    deltas = {}
    for first in range(5):
        for second in range(5):
            laws = [
                (one.noise.tables[0], 3, first),
                (one.noise.tables[0], 2, 2 * (4 - first)),
                (two.noise.tables[0], 5, second),
                (two.noise.tables[0], 4, 2 * (4 - second)),
            ]
            parts = [Repeated(table_law(drawn, shift), times) for drawn, shift, times in laws if times]
            deltas[first, second] = fft_delta(parts, 5.0).lower
    assert max(deltas, key=deltas.__getitem__) == (4, 0)
    found = float(scheduled_delta([one, two], Fraction(5)))
    assert found == pytest.approx(max(deltas.values()), rel=1e-3)


def test_many_schedules_under_replace_are_covered_in_wide_blocks():
    many = [replaced(f"s{n}", n + 3) for n in range(3)]
    few = scheduled_delta(many[:1], Fraction(5))
    assert few < scheduled_delta(many, Fraction(5)) <= 1


def test_a_limit_is_met_exactly_or_refused_with_what_fits():
    limit, year = pair(1), schedule(NIGHT, 365)
    fits = slots_that_fit(limit, [year], [POOL])
    assert 0 < fits < 365
    require_within_limit("p", limit, [schedule(NIGHT, fits)], [POOL])
    assert total_delta([schedule(NIGHT, fits + 1)], [POOL], limit.epsilon) > limit.delta
    with pytest.raises(BudgetRefused) as refused:
        require_within_limit("nyc", limit, [year], [POOL])
    text = str(refused.value)
    assert f"{fits} slots of nightly fit" in text
    assert "365 slots of nightly and a pool of epsilon = 0.5" in text
    assert "population nyc may lose epsilon = 1 and delta = 0.000001" in text


def test_pools_alone_may_use_the_whole_limit_to_the_last_fraction():
    limit = pair("1/3", "1e-7")
    require_within_limit("p", limit, [], [open_pool(PoolKind.SUMS, limit)])
    more = open_pool(PoolKind.SUMS, pair("1/3", Fraction("1e-7") + Fraction(1, 10**40)))
    with pytest.raises(BudgetRefused, match="nothing fits"):
        require_within_limit("p", limit, [], [more])


def test_no_slot_of_a_release_that_is_planned_for_itself_may_fit():
    with pytest.raises(BudgetRefused, match="no slot of nightly fits"):
        require_within_limit("p", pair("1/5"), [schedule(noise(FIRST), 3)], [])


def test_the_room_for_one_more_schedule_keeps_the_whole_within_the_limit():
    limit, one = pair(3), schedule(NIGHT, 100)
    left = room(limit, [one], [POOL])
    assert left is not None
    assert 0 < left.epsilon < Fraction(5, 2)
    theirs = scheduled_delta([one], limit.epsilon - POOL.guarantee.epsilon - left.epsilon)
    assert theirs + left.delta + POOL.guarantee.delta <= limit.delta
    filler = [schedule(LAPLACE, n, "filler") for n in (1, 5, 10, 20, 40, 80)]
    largest = max(
        (each for each in filler if scheduled_delta([each], left.epsilon) <= left.delta),
        key=lambda each: each.slots,
    )
    require_within_limit("p", limit, [one, largest], [POOL])
    assert room(pair("1/2"), [], [POOL]) is None
    assert room(limit, [], [POOL]) == pair("5/2", "7e-7")


def test_a_schedule_that_comes_late_is_one_charge_at_its_own_price():
    """Its slots compose exactly among themselves, never with what was seen before."""
    late = schedule(NIGHT, 30, "late")
    kept = PrivacyGuarantee(Fraction(scheduled_epsilon([late], Fraction("1e-7"))), Fraction("1e-7"))
    assert late_cost(late, POOL, kept) == Cost(kept.epsilon, kept.delta)
    zcdp = late_cost(late, open_pool(PoolKind.ZCDP, pair(1)), kept)
    assert float(zcdp.loss) == pytest.approx(30 / (2 * 40**2), rel=1e-3)
    with pytest.raises(BudgetRefused, match="at this delta they have epsilon"):
        late_cost(late, POOL, PrivacyGuarantee(kept.epsilon * Fraction(99, 100), kept.delta))
    with pytest.raises(BudgetRefused, match=r"no epsilon.*\n.*cut tails"):
        late_cost(schedule(noise(table(Laplace(), 5, 30)), 2), POOL, kept)


def test_adding_a_schedule_after_looking_by_composition_would_break_the_limit():
    """Why `late_cost` exists: the adversary of the design, its branches enrolled as schedules."""
    limit = pair(1, "1.005e-6")
    for branch in BRANCHES:
        require_within_limit(
            "p", limit, [schedule(noise(FIRST), 1, "a"), schedule(noise(branch), 1, "b")], []
        )
    assert adaptive_delta(FIRST, BRANCHES, 1.0) > 2.5 * limit.delta


def test_a_float_below_is_never_above():
    for value in (Fraction(1, 10), Fraction(1, 3), Fraction(2), Fraction("0.3")):
        found = Fraction(float_below(value))
        assert found <= value < Fraction(math.nextafter(float_below(value), math.inf))
