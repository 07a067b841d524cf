"""What the contract test asks of every kind of sink, and the editions that it publishes.

A kind of sink joins by a module `sink_NAME.py` with a class that follows `SinkWorld`, and by one line in
`test_every_sink.py`. Its instances are pickled: publishers that are killed or race are other processes.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa
import pytest

from dp_spark.errors import PublishRefused
from dp_spark.publish import Edition, Part, Sink, artefact_digest

DAY, GROUPS = date(2013, 1, 5), 7
COMMENT = "flights: a private release"


class Boundary(NamedTuple):
    """A moment of publishing at which a process can be killed.

    `placed` says whether the first edition of a part is there afterwards.
    """

    name: str
    placed: bool


class SinkWorld(Protocol):
    """One published table of one kind, in a place of its own, which whoever unpickles it reaches.

    Readers below look as a user of the sink would, with another library than the sink where there is one.
    """

    boundaries: ClassVar[Sequence[Boundary]]
    # Whether processes beside this one can publish to it.
    has_processes: ClassVar[bool]
    # What a reader may get while a revision is placed, and has to read again then.
    lost: ClassVar[tuple[type[Exception], ...]]
    # Whether a reader during a revision sees old or new, and never anything else.
    is_atomic: ClassVar[bool]

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        """A world without a table; `place` is a directory of its own, `request` gives fixtures."""
        ...

    def open(self) -> Sink:
        """The sink, as `open_sink` gives it."""
        ...

    def table(self) -> pa.Table:
        """The whole table; columns and rows in any order."""
        ...

    def labels(self, part: Part) -> Mapping[str, str]:
        """What is kept beside the rows of a part; empty where nothing is."""
        ...

    def comments(self) -> Mapping[str, str]:
        """Comments of columns that have one, and of the table, by the name ""; empty if it keeps none."""
        ...

    def state(self) -> object:
        """Anything that is another one when something was written."""
        ...

    def add_strangers(self, table: pa.Table) -> None:
        """Put rows there as somebody without dp_spark does; the first ones make the table."""
        ...

    def down(self) -> AbstractContextManager[None]:
        """Nobody reaches the sink meanwhile."""
        ...

    def die_at(self, boundary: str) -> None:
        """Change this process so that it kills itself when its next publishing reaches the boundary."""
        ...


# --- editions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column beside those that every edition has: a type, and a value for a number."""

    type: pa.DataType
    value: Callable[[int], Any]


COUNTS = Column(pa.int64(), int)
# Every type that a released table has.
EVERY_TYPE: Mapping[str, Column] = {
    "flights": COUNTS,
    "mean_delay": Column(pa.decimal128(18, 3), lambda number: Decimal(number - 103) / 8),
    "share": Column(pa.float64(), lambda number: (number - 103) / 7),
    "grouping": Column(pa.int32(), lambda number: number % 3),
    "small": Column(pa.bool_(), lambda number: number % 2 == 0),
    "carrier": Column(pa.string(), lambda number: HOSTILE[number % len(HOSTILE)]),
}
HOSTILE = (
    "plain",
    'it\'s "quoted"',
    "tab\tline\nreturn\r",
    "back\\slash \\N \\.",
    "",
    "é 漢 \U0001f6eb",
    "%s {0} $1 ?; --",
)


def edition(
    day: date = DAY,
    revision: int = 0,
    *,
    first: int = 100,
    columns: Mapping[str, Column] = {"flights": COUNTS},  # never changed
    rows: int = GROUPS,
    release: str = "flights",
    part: Part | None = None,
) -> Edition:
    """An edition of `rows` groups; numbers start at `first`, and a survey's part is a text."""
    part = part or Part.of_period(day)
    release_id = f"nyc_planes/{release}/{part.value}/{revision}"
    is_period = part.column == "period_start"
    held: dict[str, tuple[pa.DataType, list[Any]]] = {
        part.column: (pa.date32() if is_period else pa.string(), [day if is_period else part.value] * rows),
        "origin": (pa.string(), [f"g{each}" for each in range(rows)]),
        **{
            name: (column.type, [column.value(first + each) for each in range(rows)])
            for name, column in columns.items()
        },
        "release_id": (pa.string(), [release_id] * rows),
        "revision": (pa.int32(), [revision] * rows),
    }
    table = pa.table(
        [pa.array(values, kind) for kind, values in held.values()],
        schema=pa.schema(
            pa.field(name, kind, nullable=False, metadata={b"comment": f"what {name} is".encode()})
            for name, (kind, _) in held.items()
        ),
    )
    facts = {"epsilon": "1/2", "delta": "1e-06", "plan": "0" * 64, "revision": str(revision)}
    return Edition(table, part, release_id, artefact_digest(table), facts, COMMENT)


def publish(world: SinkWorld, each: Edition) -> str:
    return world.open().publish(each)


def require_free(world: SinkWorld, each: Edition) -> None:
    world.open().require_free(each.part, each.release_id, each.table.schema)


def rows_of(table: pa.Table, part: Part | None = None) -> list[tuple[Any, ...]]:
    """Rows of a part, or all, as tuples in the order of column names, sorted by group."""
    found = table.select(sorted(table.column_names)).to_pylist()
    own = [row for row in found if part is None or row[part.column] == part.typed(table.schema)]
    return sorted((tuple(row.values()) for row in own), key=repr)


# --- processes ---------------------------------------------------------------------------------------------


def die_in(owner: object, name: str, *, before: bool) -> None:
    """Make a function of a module, or a method of a class, kill this process when it is called."""
    true = getattr(owner, name)

    def dying(*arguments: Any, **named: Any) -> Any:
        if not before:
            true(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dying)


def publish_and_die(world: SinkWorld, each: Edition, boundary: str) -> None:
    world.die_at(boundary)
    publish(world, each)


def publish_timed(world: SinkWorld, each: Edition, said: Path) -> None:
    """Publish, and say how many seconds it took."""
    sink, start = world.open(), time.monotonic()
    sink.publish(each)
    said.write_text(str(time.monotonic() - start))


def publish_and_die_after(world: SinkWorld, each: Edition, seconds: float) -> None:
    sink = world.open()
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    sink.publish(each)


def publish_in_a_race(world: SinkWorld, editions: Sequence[Edition], start: Barrier, said: Path) -> None:
    """Publish editions one after the other, and say each time what came of it."""
    start.wait()
    for each in editions:
        try:
            publish(world, each)
            told = "published"
        except PublishRefused as refused:
            told = refused.code
        with said.open("a") as file:
            file.write(f"{told}\n")


def publish_revisions(world: SinkWorld, editions: Sequence[Edition], pause: float) -> None:
    for each in editions:
        time.sleep(pause)
        publish(world, each)


@contextmanager
def file_instead(path: Path, *, as_directory: bool = False) -> Iterator[None]:
    """An empty file stands at `path` meanwhile, or a directory if a file was there or it is asked for."""
    away = path.with_name(f"{path.name}.away")
    if path.exists():
        path.rename(away)
    as_directory = as_directory or away.is_file()
    path.mkdir() if as_directory else path.touch()
    try:
        yield
    finally:
        path.rmdir() if as_directory else path.unlink()
        if away.exists():
            away.rename(path)


@contextmanager
def loop_instead(path: Path) -> Iterator[None]:
    """A link that leads to itself stands at `path` meanwhile: nobody can tell what is there."""
    away = path.with_name(f"{path.name}.away")
    if path.exists():
        path.rename(away)
    path.symlink_to(path)
    try:
        yield
    finally:
        path.unlink()
        if away.exists():
            away.rename(path)


def days(count: int) -> list[date]:
    return [DAY + timedelta(each) for each in range(count)]
