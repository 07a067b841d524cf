"""Whether a period may be read at all: it is over, its rows are said to be complete, and they are new."""

import re
from datetime import datetime, timedelta
from pathlib import Path

from pyarrow import fs

from dp_spark.errors import InputRefused, Refusal
from dp_spark.frames.rows import Rows
from dp_spark.frames.source_age import HADOOP_SCHEMES
from dp_spark.release.period import PeriodWindow
from dp_spark.release.spec import ReleaseSpec

_SKEW = timedelta(hours=1)  # by which clocks may differ: what is further from now would be new for ever


def require_over(spec: ReleaseSpec, window: PeriodWindow, now: datetime) -> None:
    """Refuse a period that is still going on, or still to come, by the clock of its time zone.

    Raises:
        InputRefused: rows of it may still come in; a slot of the budget would be spent on part of them.
    """
    if spec.period is not None and not window.is_over(now):
        raise InputRefused(
            "period_not_over",
            f"the {spec.period.every} that begins on {window.start} is not over: it ends where "
            f"{window.end} begins in {window.timezone}, and rows of it may still come in",
            way_out="run it then; nothing was charged",
        )


def require_ready(spec: ReleaseSpec, key: str) -> None:
    """Refuse a period whose `ready` paths are not all there; asked before its charge and never again.

    Raises:
        InputRefused: one is not there, or its store does not answer; names it.
    """
    for path in () if spec.ready is None else spec.ready.paths(key):
        try:
            if _exists(path):
                continue
            why = "is not there"
        except Exception as failure:  # noqa: BLE001  # a store's text may quote its credentials
            why = f"cannot be asked for ({type(failure).__name__})"
        raise InputRefused(
            "input_not_ready",
            f"ready.exists = {path!r} {why}: the rows of period {key} are not known to be complete",
            way_out="run it again when whoever writes the rows has finished; nothing was charged",
        )


def require_fresh(spec: ReleaseSpec, rows: Rows, now: datetime) -> None:
    """Refuse an input to which nothing was written lately; asked before the charge and never again.

    Raises:
        InputRefused: its newest rows are older than `ready.newer_than`, or nobody can tell how old they are.
        SetupRefused: its connection is unknown, or its reader is not installed.
    """
    if spec.ready is None or spec.ready.most_age is None:
        return
    try:
        written = rows.written_at()
        why = _told(written, now)
    except Refusal:
        raise
    except Exception as failure:  # noqa: BLE001  # a store's text may quote its credentials
        written, why = None, f"it cannot be asked when rows were written ({type(failure).__name__})"
    if written is None or written - now > _SKEW or now - written > spec.ready.most_age:
        raise InputRefused(
            "input_stale",
            f"ready.newer_than = {spec.ready.newer_than!r}, and of the input {why}",
            way_out="run it again when whoever writes the rows has written; nothing was charged",
        )


def _told(written: datetime | None, now: datetime) -> str:
    if written is None:
        return "it has no rows"
    if written - now > _SKEW:
        return f"the newest rows say that they are written {_age(written - now)} from now: mend that time"
    return f"its newest rows are {_age(now - written)} old"


def _age(passed: timedelta) -> str:
    hours = passed // timedelta(hours=1)
    return f"{hours} hours" if hours < 2 * 24 else f"{hours // 24} days"


def _exists(path: str) -> bool:
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/.*)", path)
    scheme, colon, rest = path.partition("://")
    if local or not colon:
        return Path(local[1] if local else path).exists()
    system, place = fs.FileSystem.from_uri(f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}")
    return system.get_file_info(place).type is not fs.FileType.NotFound
