"""Publishers that tests start, kill and race; each is the whole work of one process."""

import os
import signal
import time
from collections.abc import Callable
from datetime import date, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa

from dp_spark.errors import PublishRefused
from dp_spark.publish import Part, arrow_schema, artefact_digest, durable, publish_parquet
from dp_spark.release.plan import ColumnRole, ColumnType, OutputColumn

DAY, GROUPS, DAYS = date(2013, 1, 5), 7, 30
SCHEMA = arrow_schema(
    [
        OutputColumn("period_start", ColumnType.DATE, ColumnRole.PERIOD, "first day"),
        OutputColumn("origin", ColumnType.STRING, ColumnRole.GROUP, "public group"),
        OutputColumn("flights", ColumnType.BIGINT, ColumnRole.VALUE, "count, private"),
        OutputColumn("release_id", ColumnType.STRING, ColumnRole.RELEASE, "release"),
    ]
)


def release_of(day: date) -> str:
    return f"nyc_planes/flights/{day}/0"


def artefact(day: date = DAY, first: int = 100) -> pa.Table:
    return pa.table(
        {
            "period_start": [day] * GROUPS,
            "origin": [f"g{each}" for each in range(GROUPS)],
            "flights": list(range(first, first + GROUPS)),
            "release_id": [release_of(day)] * GROUPS,
        },
        schema=SCHEMA,
    )


def publish(root: Path | str, day: date = DAY, first: int = 100, release: str | None = None) -> Path:
    table = artefact(day, first)
    release = release or release_of(day)
    return publish_parquet(
        table, root, part=Part.of_period(day), release_id=release, digest=artefact_digest(table)
    )


def publish_daily(root: Path, pause: float) -> None:
    for day in range(DAYS):
        time.sleep(pause)
        publish(root, DAY + timedelta(day))


def publish_in_a_race(root: Path, first: int, start: Barrier, said: Path) -> None:
    start.wait()
    for day in range(DAYS):
        try:
            publish(root, DAY + timedelta(day), first)
            said.open("a").write("published\n")
        except PublishRefused as refused:
            said.open("a").write(f"{refused.code}\n")


def die_while_writing(root: Path) -> None:
    def half(table: pa.Table, file: object) -> None:
        file.write(b"PAR1" + bytes(1000))
        file.flush()
        _die()

    durable._write_parquet = half
    publish(root)


def die_after_writing(root: Path) -> None:
    fsync = os.fsync
    os.fsync = lambda descriptor: (fsync(descriptor), _die())
    publish(root)


def die_before_the_rename(root: Path) -> None:
    os.rename = lambda source, target: _die()
    publish(root)


def die_after_the_rename(root: Path) -> None:
    rename = os.rename
    os.rename = lambda source, target: (rename(source, target), _die())
    publish(root)


DYING: tuple[Callable[[Path], None], ...] = (
    die_while_writing,
    die_after_writing,
    die_before_the_rename,
    die_after_the_rename,
)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
