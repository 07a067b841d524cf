"""Which releases may take a slot, what slots are as text, what they cost as zCDP."""

from fractions import Fraction

import pytest
from schedule_support import noise, schedule, table

from dp_spark.errors import LedgerRefused, SpecRefused
from dp_spark.guarantee import Neighbours
from dp_spark.noise import Gaussian, Laplace, Part, discrete_gaussian_rho
from dp_spark.release.ledger.schedule import Draw, ReleaseNoise, Schedule, may_take, release_zcdp

SMALL, LARGE = table(Gaussian(), "3", 24), table(Gaussian(), "4", 34)
LAPLACE = table(Laplace(), "3", 60)


def test_the_same_plan_takes_a_slot_and_so_does_less_of_it():
    slot = schedule(noise(SMALL, LAPLACE, cells=3), 10)
    assert may_take(noise(SMALL, LAPLACE, cells=3), slot)
    assert may_take(noise(LAPLACE, SMALL, cells=3), slot)
    assert may_take(noise(LAPLACE, cells=3), slot)
    assert may_take(noise(SMALL, cells=2), slot)


def test_more_noise_takes_a_slot_and_less_does_not():
    assert may_take(noise(LARGE), schedule(noise(SMALL), 1))
    assert not may_take(noise(SMALL), schedule(noise(LARGE), 1))


@pytest.mark.parametrize(
    "release",
    [
        noise(SMALL, cells=4),
        noise(SMALL, SMALL, cells=3),
        noise(LAPLACE, cells=3),
        noise(SMALL, cells=3, neighbours=Neighbours.REPLACE),
        noise(SMALL, cells=3, overlap=1),
        ReleaseNoise(Neighbours.ADD_REMOVE, (Draw(SMALL, Part(2, 3)),)),
    ],
    ids=["a cell more", "a total more", "another law", "other neighbours", "an overlap", "a larger shift"],
)
def test_whatever_is_not_shown_to_cost_less_is_refused(release):
    assert not may_take(release, schedule(noise(SMALL, cells=3), 5))


def test_totals_are_matched_so_that_each_has_a_slot_of_its_own():
    """The small one fits either; taken first it would leave the other without."""
    slot = schedule(noise(SMALL, LARGE), 1)
    assert may_take(noise(LARGE, SMALL), slot)
    assert not may_take(noise(SMALL, SMALL), slot)
    three = schedule(noise(SMALL, table(Gaussian(), "3.5", 29), LARGE), 1)
    assert may_take(noise(table(Gaussian(), "5", 45), SMALL, LARGE), three)


def test_cells_that_both_units_have_are_compared_too():
    def replaced(overlap):
        return noise(SMALL, cells=2, overlap=overlap, neighbours=Neighbours.REPLACE)

    assert may_take(replaced(1), schedule(replaced(2), 1))
    assert may_take(replaced(0), schedule(replaced(1), 1))
    assert not may_take(replaced(2), schedule(replaced(1), 1))
    assert not may_take(replaced(1), schedule(replaced(0), 1))


def test_the_digest_tells_noise_apart_and_forgets_order_and_weight():
    base = noise(SMALL, LAPLACE, cells=2)
    weighted = ReleaseNoise(
        base.neighbours, tuple(Draw(each, Part(1, 2, weight=7.0)) for each in base.tables)
    )
    assert base.digest == noise(LAPLACE, SMALL, cells=2).digest == weighted.digest
    others = [
        noise(SMALL, LAPLACE, cells=3),
        noise(SMALL, cells=2),
        noise(SMALL, LAPLACE, cells=2, overlap=1),
        noise(SMALL, LAPLACE, cells=2, neighbours=Neighbours.REPLACE),
        noise(LARGE, LAPLACE, cells=2),
    ]
    assert len({base.digest, *(each.digest for each in others)}) == 6


def test_a_schedule_is_read_back_from_its_text():
    made = schedule(noise(SMALL, LAPLACE, cells=2, overlap=1, neighbours=Neighbours.REPLACE), 365)
    tables = {each.digest: each for each in made.noise.tables}
    read = Schedule.from_text(made.to_text(), tables)
    assert (read.to_text(), read.slots, read.noise.digest) == (made.to_text(), 365, made.noise.digest)
    with pytest.raises(ValueError, match="missing"):
        Schedule.from_text(made.to_text(), {})
    with pytest.raises(ValueError, match="canonical"):
        Schedule.from_text(made.to_text().replace(":365", ": 365"), tables)


def test_a_schedule_without_slots_or_name_is_refused():
    with pytest.raises(LedgerRefused, match="0 slots"):
        schedule(noise(SMALL), 0)
    with pytest.raises(SpecRefused, match="schedule"):
        schedule(noise(SMALL), 1, "a/b")


def test_zcdp_of_a_release_is_that_of_all_its_cells():
    found = release_zcdp(noise(SMALL, LARGE, cells=3), times=5)
    exact = 15 * (discrete_gaussian_rho(1, 3) + discrete_gaussian_rho(1, 4))
    assert exact * Fraction(999, 1000) < found.rho < exact * Fraction(1002, 1000)
    outer = sum(
        2.0**-64 * float(each.weights[-1, 0]) + 2.0**-128 * float(each.weights[-1, 1])
        for each in (SMALL, LARGE)
    )
    assert float(found.delta) == pytest.approx(15 * outer, rel=1e-6, abs=0)


def test_zcdp_under_replace_takes_the_worst_number_of_cells_in_common():
    """Squares of what moves, with 0, 1, 2 cells in common: 4 at 2, 1 at d and 2 at 2, 2 at d."""
    drawn = table(Gaussian(), "6", 50, 2)
    for overlap, squares in ((1, 16), (3, 18), (4, 32)):
        found = release_zcdp(noise(drawn, cells=2, overlap=overlap, neighbours=Neighbours.REPLACE))
        assert float(found.rho) == pytest.approx(squares / 72, rel=1e-3)
