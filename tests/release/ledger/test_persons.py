"""Units of one period: which standings a release charges, and what a person pays over many."""

from fractions import Fraction

import pytest
from schedule_support import gaussian_night, noise, pair, schedule

from dp_spark.errors import LedgerRefused
from dp_spark.guarantee import Every, PrivacyUnit
from dp_spark.release.ledger.adhoc import open_pool
from dp_spark.release.ledger.cost import scheduled_epsilon
from dp_spark.release.ledger.persons import Partition, labels, person_cost, require_same_partition
from dp_spark.release.spec import PeriodSpec, PoolKind

PERSON, PERSON_DAY = PrivacyUnit(("id",)), PrivacyUnit(("id",), Every.DAY)


def period(every, **changes):
    return PeriodSpec(**{"column": "date", "every": every, **changes})


@pytest.mark.parametrize(
    ("unit", "every", "key", "found"),
    [
        (PERSON, "day", "2013-01-05", ("",)),
        (PrivacyUnit(()), "day", "2013-01-05", ("",)),
        (PERSON_DAY, "day", "2013-01-05", ("2013-01-05",)),
        (PrivacyUnit(("id",), Every.MONTH), "month", "2013-02-01", ("2013-02-01",)),
        (
            PERSON_DAY,
            "week",
            "2013-12-30",
            tuple(f"2013-12-{d}" for d in (30, 31)) + tuple(f"2014-01-0{d}" for d in range(1, 6)),
        ),
    ],
)
def test_a_release_charges_every_period_of_units_that_it_reads(unit, every, key, found):
    assert labels(unit, period(every), key) == found


def test_months_have_as_many_days_as_the_calendar_says():
    assert len(labels(PERSON_DAY, period("month"), "2012-02-01")) == 29
    assert labels(PERSON, None, "2013-01-05") == ("",)


@pytest.mark.parametrize(
    ("per", "asked"), [("day", None), ("month", None), ("month", "day"), ("week", "month"), ("month", "week")]
)
def test_a_release_that_reads_no_whole_periods_of_units_has_no_labels(per, asked):
    """Its key would be a label of its own beside those of the periods that it shares with others."""
    unit = PrivacyUnit(("id",), Every(per))
    with pytest.raises(LedgerRefused) as refused:
        labels(unit, asked and period(asked), "2013-07-01")
    assert refused.value.code == "other_partition"


def test_time_that_is_cut_in_another_way_is_refused():
    """Or one person-day of the account would meet two days of the release, and be charged for one."""
    account = Partition("date", "UTC", Every.DAY)
    require_same_partition(account, PERSON_DAY, period("week"))
    others = [period("day", column="arrived"), period("day", timezone="America/New_York"), None]
    for other in others:
        with pytest.raises(LedgerRefused, match="per day of date in UTC"):
            require_same_partition(account, PERSON_DAY, other)
    with pytest.raises(LedgerRefused):
        require_same_partition(account, PrivacyUnit(("id",), Every.WEEK), period("week"))


def test_a_person_with_a_year_of_days_pays_the_composition_of_the_year():
    day = [schedule(noise(gaussian_night()), 1)]
    found = person_cost(day, [], 365, pair(1, Fraction("1e-6") / 365))
    assert found.added == (365, Fraction("1e-6"))
    assert found.composed_epsilon == pytest.approx(27.09, rel=2e-4)


def test_pools_of_each_day_add_up_for_a_person():
    day, pool = [schedule(noise(gaussian_night()), 1)], open_pool(PoolKind.SUMS, pair("1/2", "1e-8"))
    found = person_cost(day, [pool], 10, pair(2, "2e-8"))
    alone = scheduled_epsilon([schedule(noise(gaussian_night()), 10)], Fraction("1e-7"))
    assert found.composed_epsilon == pytest.approx(alone + 5, rel=1e-9)
    assert person_cost(day, [pool], 10, pair(2, "1e-8")).composed_epsilon == float("inf")
    assert person_cost([], [pool], 1, pair("1/2", "2e-8")).composed_epsilon == 0.5
