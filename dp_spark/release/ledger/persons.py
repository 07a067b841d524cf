"""Units of one period: parallel composition over periods, and what that means for a person.

A release of one period reads only that period's rows, so a person-day meets only the releases that read its
day. How time is cut is fixed before data is seen: by the column and the time zone that the account names.
Then periods compose in parallel: each has sums of its own, against the same limit. A person with rows in N
periods is N units, one in each: for them the costs of N periods compose.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction

from dp_spark.errors import LedgerRefused
from dp_spark.guarantee import Every, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger.adhoc import Pool
from dp_spark.release.ledger.cost import pools_pair, scheduled_epsilon
from dp_spark.release.ledger.schedule import Schedule
from dp_spark.release.period import period_window
from dp_spark.release.spec import PeriodSpec

WHOLE = ""  # the one label of an account whose units meet every release


@dataclass(frozen=True, slots=True)
class Partition:
    """How an account cuts time into the periods of its units; fixed when the account is opened."""

    column: str
    timezone: str
    per: Every


@dataclass(frozen=True, slots=True)
class PersonCost:
    """What a person with rows in so many periods loses at most, as pairs of the same delta.

    Attributes:
        periods: how many.
        added: the sums of what each period may cost.
        composed_epsilon: by the exact composition of all slots, the pools added; infinity if it has none.
    """

    periods: int
    added: tuple[Fraction, Fraction]
    composed_epsilon: float


def labels(unit: PrivacyUnit, period: PeriodSpec | None, key: str) -> tuple[str, ...]:
    """The periods of units that a release with this key reads: one standing each, all charged alike.

    `("",)` where a unit meets every release; else the first days of the unit's periods.

    Raises:
        LedgerRefused: the units are those of periods, and the release does not cut time into whole ones.
        SpecRefused: the key is not the first day of a period.
    """
    if unit.per is None:
        return (WHOLE,)
    if period is None or unit.per not in {Every.DAY, period.every}:
        raise LedgerRefused(
            "other_partition",
            f"the account counts units per {unit.per}; the release reads "
            f"{'all periods at once' if period is None else f'each {period.every}'}",
            way_out=f"release every {unit.per}, or use another population",
        )
    window = period_window(period, key)
    if unit.per is period.every:
        return (key,)
    days = (window.end - window.start).days
    return tuple((window.start + timedelta(days=day)).isoformat() for day in range(days))


def require_same_partition(partition: Partition, unit: PrivacyUnit, period: PeriodSpec | None) -> None:
    """Check that a release cuts time as its account does; else periods would not be disjoint.

    Raises:
        LedgerRefused: another column, time zone or length.
    """
    found = (
        None if period is None or unit.per is None else Partition(period.column, period.timezone, unit.per)
    )
    if found != partition:
        raise LedgerRefused(
            "other_partition",
            f"the account counts units per {partition.per} of {partition.column} in {partition.timezone}; "
            f"the release has {'no period' if found is None else found}",
            way_out="periods that are cut in another way overlap: use another population",
        )


def person_cost(
    schedules: Sequence[Schedule], pools: Sequence[Pool], periods: int, at: PrivacyGuarantee
) -> PersonCost:
    """What `periods` periods come to for one person, each of which may cost `at` at most.

    `schedules` as one unit meets them. Each period's releases see one unit of the person, so the mechanisms
    of N periods compose; this is no group privacy inside one release. A release that reads several periods
    of one person at once, such as a week of person-days, is not covered: there epsilon counts for each.
    """
    epsilon, delta = pools_pair(pools)
    rest = periods * (at.delta - delta)
    composed = math.inf
    if rest > 0:
        over_all = [replace(each, slots=each.slots * periods) for each in schedules]
        composed = scheduled_epsilon(over_all, rest) + float(periods * epsilon)
    return PersonCost(periods, (periods * at.epsilon, periods * at.delta), composed)
