"""Which period a DAG run is about: the key that was typed, that of its partition, or the last that is over.

No template of `ds` can say it: a run of a partition, of an asset or by hand has none.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dp_spark_dags.refusals import KeyRefused

PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ONE_DAY = timedelta(days=1)
_ANOTHER = "trigger another run with the first day of a period that is over; nothing was charged"


def key_of_run(dag_run: Any, params: Mapping[str, Any], every: str | None, timezone: str) -> str:
    """The key of a run: YYYY-MM-DD, the first day of a period that is over.

    In this order: the parameter `key`; the run's partition, of a schedule brought to the first day of its
    period; the last period that is over at the end of the run's data interval.

    Raises:
        KeyRefused: there is no key (`no_key`), two contradict each other or it is no first day (`bad_key`),
            or its period is not over (`period_not_over`). No retry would help.
    """
    typed, partition = params.get("key"), dag_run.partition_key
    if typed and partition and typed != partition:
        raise _bad(f"the run has two keys: parameter {_short(typed)} and partition {_short(partition)}")
    by_hand = str(getattr(dag_run.run_type, "value", dag_run.run_type)) == "manual"
    zone = ZoneInfo(timezone)
    if typed or partition:
        day = _date(typed or partition)
        first = first_day(day, every)
        if first != day and (typed or by_hand):
            raise _bad(f"key {day} is not the first day of a {every}, which is {first}")
    elif dag_run.data_interval_end is not None and not by_hand:
        first = last_over(dag_run.data_interval_end.astimezone(zone).date(), every)
    else:
        raise KeyRefused(
            "no_key",
            "the run has no key: no parameter `key`, no partition and no interval of a schedule",
            way_out="trigger another run with the parameter `key`, the first day of a period; "
            "nothing was charged",
        )
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
        KeyRefused: it is still going on or to come (`period_not_over`).
    """
    if first > last_over(today, every):
        raise KeyRefused(
            "period_not_over",
            f"key {first}: that {every or 'day'} is not over",
            way_out="clear the task when it is over, or trigger another run with the key of an earlier one; "
            "nothing was charged",
        )


def _date(key: object) -> date:
    if not isinstance(key, str) or not re.match(PATTERN, key):
        raise _bad(f"key {_short(key)} is not a date YYYY-MM-DD")
    try:
        return date.fromisoformat(key)
    except ValueError:
        raise _bad(f"key {_short(key)} is not a day of the calendar") from None


def _bad(message: str) -> KeyRefused:
    return KeyRefused("bad_key", message, way_out=_ANOTHER)


def _short(key: object) -> str:
    return repr(str(key)[:40])
