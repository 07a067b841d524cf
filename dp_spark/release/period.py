"""Periods: which dates and which instants the key of a release stands for."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dp_spark.errors import SpecRefused
from dp_spark.release.problems import shown
from dp_spark.release.spec import Every, PeriodSpec

_KEY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST_YEAR = 1900
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PeriodWindow:
    """The days from `start` up to, not including, `end`, as a clock in `timezone` counts them."""

    start: date
    end: date
    timezone: str

    @property
    def utc_micros(self) -> tuple[int, int]:
        """First instant of `start` and of `end`, in microseconds since 1970-01-01 UTC.

        A midnight that the clock skips is the instant of the jump; one that it shows twice is the first.
        So the windows of successive keys neither overlap nor leave a gap.
        """
        return self._midnight(self.start), self._midnight(self.end)

    def is_over(self, now: datetime) -> bool:
        """Whether the window has ended at `now`, a moment of any time zone."""
        return self.utc_micros[1] <= (now - _EPOCH) // timedelta(microseconds=1)

    def _midnight(self, day: date) -> int:
        offset = datetime.combine(day, time(), ZoneInfo(self.timezone)).utcoffset() or timedelta(0)
        since_epoch = datetime.combine(day, time(), UTC) - _EPOCH
        return (since_epoch - offset) // timedelta(microseconds=1)


def period_window(period: PeriodSpec | None, key: str) -> PeriodWindow:
    """The window of the release with this key; without a period, the as-of date itself.

    Raises:
        SpecRefused: the key is no date, or not the first day of a period.
    """
    every = Every.DAY if period is None else period.every
    day = _date(key, every)
    start = _start(day, every)
    if start != day:
        raise SpecRefused(
            "key_not_first_day",
            f"key {key!r} is not the first day of a {every} (allowed: "
            f"{'Mondays' if every is Every.WEEK else 'the first of a month'})",
            way_out=f"the {every} of that day has the key {start.isoformat()}",
        )
    try:
        end = _next(day, every)
    except (OverflowError, ValueError):
        raise _refused(key, every, f"has a {every} that ends after the year 9999") from None
    return PeriodWindow(day, end, "UTC" if period is None else period.timezone)


def period_before(period: PeriodSpec, key: str) -> str:
    """The key of the period before that of `key`."""
    day = _date(key, period.every)
    return _start(day - timedelta(days=1), period.every).isoformat()


def _date(key: str, every: Every) -> date:
    if not _KEY.fullmatch(key):
        raise _refused(key, every, "is not a date YYYY-MM-DD")
    try:
        day = date.fromisoformat(key)
    except ValueError:
        raise _refused(key, every, "is not a day of the calendar") from None
    if day.year < _FIRST_YEAR:
        raise _refused(key, every, f"is before {_FIRST_YEAR}")
    return day


def _start(day: date, every: Every) -> date:
    match every:
        case Every.DAY:
            return day
        case Every.WEEK:
            return day - timedelta(days=day.weekday())
        case Every.MONTH:
            return day.replace(day=1)


def _next(start: date, every: Every) -> date:
    match every:
        case Every.DAY:
            return start + timedelta(days=1)
        case Every.WEEK:
            return start + timedelta(days=7)
        case Every.MONTH:
            return (start + timedelta(days=31)).replace(day=1)


def _refused(key: str, every: Every, why: str) -> SpecRefused:
    return SpecRefused(
        "key_not_a_date",
        f"key {shown(key)} {why} (allowed: YYYY-MM-DD, years {_FIRST_YEAR} to 9999)",
        way_out=f"give the first day of the {every}, for instance {_start(date(2013, 1, 9), every)}",
    )
