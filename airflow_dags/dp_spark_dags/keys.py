"""Which period a DAG run is about: the key that was typed, that of its partition, or the last that is over.

No template of `ds` can say it: a run of a partition, of an asset or by hand has none.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk.exceptions import AirflowFailException

PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ONE_DAY = timedelta(days=1)


def key_of_run(dag_run: Any, params: Mapping[str, Any], every: str | None, timezone: str) -> str:
    """The key of a run: YYYY-MM-DD, the first day of a period that is over.

    In this order: the parameter `key`; the run's partition, of a schedule brought to the first day of its
    period; the last period that is over at the end of the run's data interval.

    Raises:
        AirflowFailException: there is no key, two contradict each other, or it cannot be right. No retry
            would help.
    """
    typed, partition = params.get("key"), dag_run.partition_key
    if typed and partition and typed != partition:
        raise AirflowFailException(f"the run has two keys: parameter {typed!r} and partition {partition!r}")
    by_hand = str(getattr(dag_run.run_type, "value", dag_run.run_type)) == "manual"
    zone = ZoneInfo(timezone)
    if typed or partition:
        day = _date(typed or partition)
        first = first_day(day, every)
        if first != day and (typed or by_hand):
            raise AirflowFailException(f"key {day} is not the first day of a {every}, which is {first}")
    elif dag_run.data_interval_end is not None and not by_hand:
        first = last_over(dag_run.data_interval_end.astimezone(zone).date(), every)
    else:
        raise AirflowFailException("the run has no key: give the parameter `key`, the first day of a period")
    require_over(first, every, datetime.now(UTC).astimezone(zone).date())
    return first.isoformat()


def first_day(day: date, every: str | None) -> date:
    """The first day of the period that a day lies in."""
    if every == "week":
        return day - day.weekday() * _ONE_DAY
    return day.replace(day=1) if every == "month" else day


def last_over(day: date, every: str | None) -> date:
    """The first day of the last period that is over when a day begins; without periods the day itself."""
    return day if every is None else first_day(first_day(day, every) - _ONE_DAY, every)


def require_over(first: date, every: str | None, today: date) -> None:
    """Refuse a period that is not over; the job does, too, by its own clock.

    Raises:
        AirflowFailException: it is still going on or to come.
    """
    if first > last_over(today, every):
        raise AirflowFailException(f"key {first}: that {every or 'day'} is not over; nothing was charged")


def _date(key: object) -> date:
    if not isinstance(key, str) or not re.match(PATTERN, key):
        raise AirflowFailException(f"key {str(key)[:40]!r} is not a date YYYY-MM-DD")
    try:
        return date.fromisoformat(key)
    except ValueError:
        raise AirflowFailException(f"key {key!r} is not a day of the calendar") from None
