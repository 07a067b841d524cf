"""Whether a period may be read at all: it is over, and what tells of its completeness is there."""

import re
from datetime import datetime
from pathlib import Path

from pyarrow import fs

from dp_spark.errors import InputRefused
from dp_spark.release.period import PeriodWindow
from dp_spark.release.spec import ReleaseSpec

_HADOOP_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # as Spark and as Arrow call one store


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


def _exists(path: str) -> bool:
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/.*)", path)
    scheme, colon, rest = path.partition("://")
    if local or not colon:
        return Path(local[1] if local else path).exists()
    system, place = fs.FileSystem.from_uri(f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{rest}")
    return system.get_file_info(place).type is not fs.FileType.NotFound
