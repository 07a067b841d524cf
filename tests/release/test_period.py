"""Which dates and instants a key stands for."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from dp_spark.errors import SpecRefused
from dp_spark.release.period import period_window
from dp_spark.release.spec import PeriodSpec


def period(every: str, timezone: str = "UTC") -> PeriodSpec:
    return PeriodSpec(column="date", every=every, timezone=timezone)


@pytest.mark.parametrize(
    ("every", "key", "end"),
    [
        ("day", "2013-01-05", date(2013, 1, 6)),
        ("day", "2012-02-28", date(2012, 2, 29)),
        ("day", "1900-01-01", date(1900, 1, 2)),
        ("day", "9999-12-30", date(9999, 12, 31)),
        ("week", "2012-12-31", date(2013, 1, 7)),
        ("month", "2013-12-01", date(2014, 1, 1)),
        ("month", "2012-02-01", date(2012, 3, 1)),
        ("month", "2013-01-01", date(2013, 2, 1)),
    ],
)
def test_a_window_goes_from_its_key_to_the_next(every, key, end):
    window = period_window(period(every), key)
    assert (window.start, window.end) == (date.fromisoformat(key), end)


def test_without_a_period_the_key_is_the_as_of_date():
    window = period_window(None, "2013-01-05")
    assert (window.start, window.end, window.timezone) == (date(2013, 1, 5), date(2013, 1, 6), "UTC")


@pytest.mark.parametrize(
    ("every", "key", "right"),
    [
        ("week", "2013-01-05", "2012-12-31"),
        ("week", "2013-01-06", "2012-12-31"),
        ("month", "2013-01-05", "2013-01-01"),
        ("month", "2013-01-31", "2013-01-01"),
    ],
)
def test_a_key_within_a_period_is_refused_with_the_right_key(every, key, right):
    with pytest.raises(SpecRefused) as caught:
        period_window(period(every), key)
    assert caught.value.code == "key_not_first_day"
    assert key in caught.value.message
    assert right in caught.value.way_out


@pytest.mark.parametrize(
    "key",
    [
        "", "2013-1-5", "20130105", "2013-01-05 ", " 2013-01-05", "2013-01-05\n", "2013-02-29", "2013-13-01",
        "2013-00-01", "\uff12013-01-05", "2013/01/05", "2013-W01-1", "2013-01-05T00:00", "0001-01-01",
        "1899-12-31", "9999-12-31", "10000-01-01", "-2013-01-05", "latest", "x" * 1000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("every", ["day", None])
def test_a_key_that_is_no_date_is_refused(key, every):
    with pytest.raises(SpecRefused, match="allowed: YYYY-MM-DD, years 1900 to 9999") as caught:
        period_window(period(every) if every else None, key)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(("every", "key"), [("week", "9999-12-27"), ("month", "9999-12-01")])
def test_a_period_that_ends_after_the_calendar_is_refused(every, key):
    with pytest.raises(SpecRefused, match="after the year 9999"):
        period_window(period(every), key)


def test_instants_are_local_midnights():
    first, after = period_window(period("day", "America/New_York"), "2013-03-10").utc_micros
    assert first == datetime(2013, 3, 10, 5, tzinfo=UTC).timestamp() * 10**6
    assert after - first == 23 * 3600 * 10**6  # clocks went forward


@pytest.mark.parametrize(
    ("timezone", "first"),
    [
        ("America/Sao_Paulo", "2018-11-01"),  # a midnight that the clock skips
        ("America/Havana", "2013-11-01"),  # a midnight that it shows twice
        ("Pacific/Apia", "2011-12-25"),  # a whole day that it skips
        ("Africa/Monrovia", "1972-01-01"),  # an offset with seconds
        ("Asia/Kolkata", "1900-01-01"),
        ("America/New_York", "9999-12-20"),
    ],
)
def test_successive_windows_neither_overlap_nor_leave_a_gap(timezone, first):
    days = [date.fromisoformat(first) + timedelta(days=i) for i in range(10)]
    instants = [period_window(period("day", timezone), day.isoformat()).utc_micros for day in days]
    for (start, end), (next_start, _) in pairwise(instants):
        assert start <= end == next_start


def test_a_skipped_midnight_is_the_jump_and_a_repeated_one_the_first():
    sao_paulo = period_window(period("day", "America/Sao_Paulo"), "2018-11-04").utc_micros[0]
    assert sao_paulo == datetime(2018, 11, 4, 3, tzinfo=UTC).timestamp() * 10**6
    havana = period_window(period("day", "America/Havana"), "2013-11-03").utc_micros[0]
    assert havana == datetime(2013, 11, 3, 4, tzinfo=UTC).timestamp() * 10**6
