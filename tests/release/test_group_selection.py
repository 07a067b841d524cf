"""Selection of private groups: optimal at its own price, certified together with what it stands beside."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.noise import Part, calibrate_jointly, family_named, worst_delta
from dp_spark.queries import Bounds
from dp_spark.release.selection import GroupSelection, as_fixed, selecting_part, selecting_table

BOUNDS = Bounds(max_groups=3, max_rows_per_group=4)
GUARANTEE = PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))


def selection(
    *, min_units: int = 1, neighbours: Neighbours = Neighbours.ADD_REMOVE, horizon: int = 1
) -> GroupSelection:
    part = selecting_part(BOUNDS, neighbours)
    overlap = 3 if neighbours is Neighbours.REPLACE else None
    table = selecting_table(part, [Part(4, 3, overlap=overlap)], GUARANTEE, horizon)
    return GroupSelection(table, part, min_units, shared=False)


def optimal(epsilon: float, delta: float, units: int) -> list[float]:
    """The greatest probabilities of release for 0, 1, 2, ... units: Desfontaines and others, theorem 1."""
    found = [0.0]
    for _ in range(units):
        last = found[-1]
        found.append(min(math.exp(epsilon) * last + delta, 1 - math.exp(-epsilon) * (1 - last - delta), 1.0))
    return found


@pytest.mark.parametrize("horizon", [1, 30])
def test_no_selection_of_its_price_releases_more(horizon: int) -> None:
    chosen = selection(horizon=horizon)
    epsilon, delta = float(chosen.table.step), chosen.probability(1)
    units = 2 * chosen.table.support + 5
    found = [chosen.probability(each) for each in range(units + 1)]
    assert found == pytest.approx(optimal(epsilon, delta, units), rel=1e-9, abs=1e-25)
    assert found[0] == 0


def test_a_group_below_the_least_number_of_units_is_never_released() -> None:
    one, ten = selection(), selection(min_units=10)
    assert [ten.probability(units) for units in range(10)] == [0.0] * 10
    assert [ten.probability(9 + n) for n in range(60)] == [one.probability(n) for n in range(60)]


def test_units_for_is_the_least_number_that_reaches_the_probability() -> None:
    for chosen in (selection(), selection(min_units=7)):
        for probability in (1e-9, 0.5, 0.99, 1.0):
            units = chosen.units_for(probability)
            assert chosen.probability(units) >= probability > chosen.probability(units - 1)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_totals_are_calibrated_beside_the_selection(family: str, neighbours: Neighbours) -> None:
    """Together they keep the guarantee and come close to it; the totals alone would leave a share of it."""
    chosen = selection(neighbours=neighbours)
    overlap = 3 if neighbours is Neighbours.REPLACE else None
    parts = [Part(4, 3, overlap=overlap), Part(1, 3, overlap=overlap and 0)]
    tables = calibrate_jointly(family_named(family), parts, GUARANTEE, fixed=as_fixed(chosen))
    together = worst_delta([*tables, chosen.table], [*parts, chosen.part], GUARANTEE.epsilon)
    assert 0.99e-6 < together <= 1e-6
    alone = calibrate_jointly(family_named(family), parts, GUARANTEE)
    assert worst_delta([*alone, chosen.table], [*parts, chosen.part], GUARANTEE.epsilon) > 1.5e-6


def worst_of_selection(probability: list[Fraction], epsilon: float) -> Fraction:
    """Delta at `epsilon` of a selection that sees one unit more or less, whichever way it tells."""
    growth = Fraction(math.exp(epsilon) * (1 - 1e-12))
    return max(
        excess
        for fewer, more in pairwise(probability)
        for a, b in ((fewer, more), (more, fewer))
        for excess in (a - growth * b, (1 - a) - growth * (1 - b))
    )


def test_a_threshold_one_lower_would_give_one_unit_away() -> None:
    """Exactly: at the threshold the delta is that of the table; one lower, a unit alone passes too often."""
    chosen, none = selection(), Fraction(0)
    epsilon, support = float(chosen.table.step), chosen.table.support
    units = range(1, 2 * support + 3)
    found = [none, *(chosen.table.tail(chosen.threshold - n) for n in units)]
    assert worst_of_selection(found, epsilon) <= chosen.table.privacy_delta(Fraction(epsilon) * 3)
    lower = [none, *(chosen.table.tail(chosen.threshold - 1 - n) for n in units)]
    assert worst_of_selection(lower, epsilon) > 1.5 * chosen.probability(1)
