"""Cron lines that give each period one run, also in the nights when clocks jump."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import CronPartitionTimetable

from dp_spark_dags.specs import SpecFacts

USUAL_CRONS = {"day": "30 4 * * *", "week": "30 4 * * 1", "month": "30 4 1 * *"}
_DAYS_AHEAD = 800  # two springs, wherever that is


def partitions_of(cron: str, facts: SpecFacts) -> Any:
    """The timetable of a cron line whose runs have the period before them as their partition.

    Raises:
        ValueError: the line names no single minute and hour, or one that a clock of the time zone skips.
    """
    _require_one_time(cron, facts)
    before = 0 if facts.every is None else -1
    return CronPartitionTimetable(cron, timezone=facts.timezone, run_offset=before, key_format="%Y-%m-%d")


def _require_one_time(cron: str, facts: SpecFacts) -> None:
    """Airflow counts a tick that a clock skips as none, and gives the night before it no run (3.3.2)."""
    fields = cron.split()
    if len(fields) != 5 or not (fields[0].isdigit() and fields[1].isdigit()):
        raise ValueError(
            f"{facts.name}: schedule {cron!r} names no single minute and hour, and a period has one run; "
            "write such as '30 4 * * *'"
        )
    try:
        at = time(int(fields[1]), int(fields[0]))
    except ValueError:
        raise ValueError(f"{facts.name}: schedule {cron!r} names no time of day") from None
    if (day := _skipped(at, ZoneInfo(facts.timezone))) is not None:
        raise ValueError(
            f"{facts.name}: schedule {cron!r}: clocks in {facts.timezone} skip {at:%H:%M} on {day}, and a "
            "period would have no run; choose another hour, such as 4"
        )


def _skipped(at: time, zone: ZoneInfo) -> date | None:
    """The next day on which a clock does not show a time."""
    today = datetime.now(UTC).date()
    for ahead in range(_DAYS_AHEAD):
        moment = datetime.combine(today + timedelta(ahead), at, zone)
        if moment.astimezone(UTC).astimezone(zone).time() != at:
            return moment.date()
    return None
