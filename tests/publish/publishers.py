"""Publishers that tests start, kill and race; each is the whole work of one process."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa

from dp_spark.errors import PublishRefused
from dp_spark.publish import Edition, ParquetSink, Part, arrow_schema, artefact_digest, durable, parquet
from dp_spark.release.plan import ColumnRole, ColumnType, OutputColumn

DAY, GROUPS, DAYS, REVISIONS = date(2013, 1, 5), 7, 30, 40
SCHEMA = arrow_schema(
    [
        OutputColumn("period_start", ColumnType.DATE, ColumnRole.PERIOD, "first day"),
        OutputColumn("origin", ColumnType.STRING, ColumnRole.GROUP, "public group"),
        OutputColumn("flights", ColumnType.BIGINT, ColumnRole.VALUE, "count, private"),
        OutputColumn("release_id", ColumnType.STRING, ColumnRole.RELEASE, "release"),
    ]
)


def release_of(day: date, revision: int = 0) -> str:
    return f"nyc_planes/flights/{day}/{revision}"


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


def edition(
    day: date = DAY, first: int = 100, release: str | None = None, table: pa.Table | None = None
) -> Edition:
    rows = artefact(day, first) if table is None else table
    return Edition(
        table=rows,
        part=Part.of_period(day),
        release_id=release or release_of(day),
        digest=artefact_digest(rows),
        facts={"epsilon": "1"},
        comment="flights of a test",
    )


def publish(root: Path | str, day: date = DAY, first: int = 100, release: str | None = None) -> Path:
    return Path(ParquetSink(root).publish(edition(day, first, release)))


def revise(root: Path, first: int, revision: int) -> None:
    publish(root, first=first, release=release_of(DAY, revision))


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


def die_before_the_exchange(root: Path) -> None:
    parquet.exchange = lambda first, second: _die()
    revise(root, 200, 1)


def die_after_the_exchange(root: Path) -> None:
    exchange = parquet.exchange
    parquet.exchange = lambda first, second: (exchange(first, second), _die())
    revise(root, 200, 1)


def die_between_two_renames(root: Path) -> None:
    parquet.exchange = lambda first, second: False
    rename = os.rename
    os.rename = lambda source, target: (rename(source, target), _die())
    revise(root, 200, 1)


def revise_in_a_race(root: Path, parity: int, start: Barrier) -> None:
    """Every second revision, in order; another publisher has those between."""
    start.wait()
    for revision in range(parity, REVISIONS, 2):
        with suppress(PublishRefused):  # a later one stands
            revise(root, revision, revision)


def revise_often(root: Path, pause: float) -> None:
    for revision in range(1, REVISIONS):
        time.sleep(pause)
        revise(root, revision, revision)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
