"""What tests of sinks in databases share: editions, and a look at what stands there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
from publishers import DAY, artefact, release_of

from dp_spark.publish import Edition, Part, Sink, artefact_digest

FACTS = {"epsilon": "1/3", "delta": "1/1000000", "plan": "p" * 64}
COMMENT = "flights: 100% private, by 'dp_spark'"


@dataclass(frozen=True)
class Database:
    """A database of its own, for one test.

    Attributes:
        sink: opens the sink of a table.
        query: the rows of a query, by whoever may read everything.
        column_query: gives name, nullability and comment of the columns of a table, in their order.
    """

    sink: Callable[..., Sink]
    query: Callable[[str], list[tuple[Any, ...]]]
    column_query: str

    @property
    def is_postgres(self) -> bool:
        return "pg_" in self.column_query

    def columns(self, table: str) -> dict[str, tuple[bool, str | None]]:
        rows = self.query(self.column_query.format(table=table))
        return {name: (nullable, comment) for name, nullable, comment in rows}

    def all(self, table: str = "flights") -> list[tuple[Any, ...]]:
        return sorted(self.query(f"SELECT * FROM {table}"), key=repr)


def edition(
    day: date = DAY,
    first: int = 100,
    revision: int = 0,
    table: pa.Table | None = None,
    facts: Mapping[str, str] = FACTS,
) -> Edition:
    table = artefact(day, first) if table is None else table
    release = f"{release_of(day)[:-1]}{revision}"
    return Edition(table, Part.of_period(day), release, artefact_digest(table), facts, COMMENT)


def with_column(table: pa.Table, name: str, values: "pa.Array[Any]") -> pa.Table:
    return table.append_column(pa.field(name, values.type, False, {b"comment": b"50% of 'it' :x"}), values)
