"""The tables that a spec reads and writes, and places of which one would overwrite another."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from dp_spark.release.problems import Place, Problem, Wrong, path_text, shown
from dp_spark.release.reading import whole_number, word_of
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import (
    ConnectionName,
    InputFormat,
    Location,
    Shape,
    SinkKind,
    StoredTable,
    Version,
)

_WHERE = ("path", "connection", "table")
_LONGEST_KEPT = 36_600  # days


class _Place(Part, frozen=True):
    """Where a table is: the keys that its kind needs, and no other."""

    kind_key: ClassVar[str]
    needs: ClassVar[Mapping[StrEnum, tuple[str, ...]]]

    path: Location | None = Field(None, examples=["data/flights"])
    table: StoredTable | None = Field(None, examples=["public.flights"])
    connection: ConnectionName | None = Field(None, examples=["warehouse"])

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if problems := list(self._place_problems()):
            raise Wrong(*problems)
        return self

    def _place_problems(self) -> Iterator[Problem]:
        kind = getattr(self, self.kind_key)
        needed = self.needs[kind]
        for key in _WHERE:
            written = getattr(self, key)
            if key in needed and written is None:
                example = (type(self).model_fields[key].examples or [""])[0]
                yield Problem(f"missing key {key!r}", f"add `{key}: {example}`", at=(key,))
            if key not in needed and written is not None:
                why = f"is no key of {self.kind_key}: {kind}"
                yield Problem(why, "remove it", ", ".join(needed), shown(written), (key,))

    @property
    def place(self) -> str:
        """Where it is, in one line: a path, else KIND:[CONNECTION/]TABLE."""
        if self.path is not None:
            return self.path
        at = f"{self.connection}/" if self.connection else ""
        return f"{getattr(self, self.kind_key)}:{at}{self.table}"

    @property
    def named(self) -> str:
        """Kind and place, as people read it: `parquet out/flights`, `sql warehouse/public.flights`."""
        kind = getattr(self, self.kind_key)
        return f"{kind} {self.path}" if self.path is not None else self.place.replace(":", " ", 1)


class InputSpec(_Place, frozen=True):
    """Where the rows are.

    Attributes:
        version: of a Delta or Iceberg table; without it, the newest when the release is reserved.
        kept_days: days after the end of a period for which its raw rows are kept; nobody is warned without.
    """

    kind_key = "format"
    needs = {
        InputFormat.PARQUET: ("path",),
        InputFormat.CSV: ("path",),
        InputFormat.DELTA: ("path",),
        InputFormat.TABLE: ("table",),
        InputFormat.ICEBERG: ("connection", "table"),
        InputFormat.JDBC: ("connection", "table"),
    }

    format: Annotated[InputFormat, BeforeValidator(word_of(InputFormat))] = Field(examples=["parquet"])
    version: Version | None = None
    kept_days: Annotated[int, BeforeValidator(whole_number(1, _LONGEST_KEPT))] | None = None

    def _place_problems(self) -> Iterator[Problem]:
        yield from super()._place_problems()
        if self.version is not None and self.format not in (InputFormat.DELTA, InputFormat.ICEBERG):
            why = f"is no key of format: {self.format}, which has no versions"
            yield Problem(why, "remove it", "delta | iceberg", shown(self.version), ("version",))


class FrameInput(Part, frozen=True):
    """The rows are those of the frame that a run is given: what a spec without `input` has."""

    @property
    def format(self) -> None:
        """A frame has none."""
        return None


def read_input(value: object) -> InputSpec | FrameInput:
    """What `input` says, or the frame itself."""
    return value if isinstance(value, FrameInput) else InputSpec.model_validate(value)


class SinkSpec(_Place, frozen=True):
    """One place where the tables are published."""

    kind_key = "sink"
    needs = {
        SinkKind.PARQUET: ("path",),
        SinkKind.DELTA: ("path",),
        SinkKind.TABLE: ("table",),
        SinkKind.ICEBERG: ("connection", "table"),
        SinkKind.SQL: ("connection", "table"),
    }

    path: Location | None = Field(None, examples=["out/flights_by_origin"])
    sink: Annotated[SinkKind, BeforeValidator(word_of(SinkKind))] = Field(examples=["parquet"])
    shape: Annotated[Shape, BeforeValidator(word_of(Shape))] | None = None

    @property
    def name(self) -> str:
        """How the ledger names it."""
        return self.place if self.path is None else f"{self.sink}:{self.path}"

    def beside(self, suffix: str) -> "SinkSpec":
        """The sink of one of several tables of a release: PATH/suffix, or TABLE_suffix."""
        changed: dict[str, Any] = (
            {"table": f"{self.table}_{suffix}"}
            if self.path is None
            else {"path": f"{self.path.rstrip('/')}/{suffix}"}
        )
        return self.model_copy(update=changed)


def path_problems(source: InputSpec | FrameInput, publish: Sequence[SinkSpec]) -> Iterator[Problem]:
    """Paths of which one would overwrite, or be read as part of, another; tables that are named twice."""
    places: list[tuple[Place, str]] = []
    if isinstance(source, InputSpec) and source.path is not None:
        places.append((("input", "path"), source.path))
    places += [(("publish", i, "path"), sink.path) for i, sink in enumerate(publish) if sink.path is not None]
    for (first, one), (second, other) in combinations(places, 2):
        a, b = _normal(one), _normal(other)
        if a.is_relative_to(b) or b.is_relative_to(a):
            why = f"is the same directory as {path_text(first)} = {shown(one)}, or one lies within the other"
            yield Problem(why, "write to a directory of its own", "separate paths", shown(other), second)
    yield from _table_problems(source, publish)


def _normal(path: str) -> PurePosixPath:
    """The path without what goes without saying: a local one has no scheme, and one of S3 has one name."""
    text = re.sub(r"^file:(?://(?:localhost)?)?(?=/)", "", path, flags=re.IGNORECASE)
    return PurePosixPath(posixpath.normpath(re.sub(r"^s3[an]:", "s3:", text, flags=re.IGNORECASE)))


def _names(place: InputSpec | SinkSpec) -> set[tuple[str | None, str]]:
    """What the table may be called, in its connection or, without one, in Spark's catalog.

    A name without a schema may be PostgreSQL's or DuckDB's own; what stands beside a table belongs to it.
    """
    name = (place.table or "").casefold()
    kind = place.sink if isinstance(place, SinkSpec) else place.format
    if kind in (SinkKind.SQL, InputFormat.JDBC):
        name = re.sub("(?<=[^.])(_releases|_latest)$", "", name)
        schemas = ("public.", "main.") if "." not in name else ("",)
        return {(place.connection, schema + name) for schema in schemas}
    return {(place.connection, name.removeprefix("spark_catalog.").removeprefix("default."))}


def _table_problems(source: InputSpec | FrameInput, publish: Sequence[SinkSpec]) -> Iterator[Problem]:
    taken: dict[tuple[str | None, str], Place] = {}
    if isinstance(source, InputSpec) and source.table is not None:
        taken |= dict.fromkeys(_names(source), ("input", "table"))
    for i, sink in enumerate(publish):
        if sink.table is None:
            continue
        at: Place = ("publish", i, "table")
        names = _names(sink)
        if first := next((taken[name] for name in sorted(names, key=str) if name in taken), None):
            why = f"is the table of {path_text(first)}"
            yield Problem(why, "write to a table of its own", "separate tables", shown(sink.table), at)
        taken |= dict.fromkeys(names - taken.keys(), at)
