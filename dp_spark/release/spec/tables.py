"""The tables that a spec reads and writes, and places of which one would overwrite another."""

import posixpath
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BeforeValidator, Field

from dp_spark.release.problems import Place, Problem, path_text, shown
from dp_spark.release.reading import word_of
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.values import InputFormat, Location, SinkKind


class InputSpec(Part, frozen=True):
    """Where the rows are."""

    format: Annotated[InputFormat, BeforeValidator(word_of(InputFormat))] = Field(examples=["parquet"])
    path: Location = Field(examples=["data/flights"])


class FrameInput(Part, frozen=True):
    """The rows are those of the frame that a run is given: what a spec without `input` has."""

    @property
    def format(self) -> None:
        """A frame has none."""
        return None


def read_input(value: object) -> InputSpec | FrameInput:
    """What `input` says, or the frame itself."""
    return value if isinstance(value, FrameInput) else InputSpec.model_validate(value)


class SinkSpec(Part, frozen=True):
    """One place where the tables are published."""

    sink: Annotated[SinkKind, BeforeValidator(word_of(SinkKind))] = Field(examples=["parquet"])
    path: Location = Field(examples=["out/flights_by_origin"])


def path_problems(source: InputSpec | FrameInput, publish: Sequence[SinkSpec]) -> Iterator[Problem]:
    """Paths of which one would overwrite, or be read as part of, another."""
    places: list[tuple[Place, str]] = []
    if isinstance(source, InputSpec):
        places.append((("input", "path"), source.path))
    places += [(("publish", i, "path"), sink.path) for i, sink in enumerate(publish)]
    for (first, one), (second, other) in combinations(places, 2):
        a, b = (PurePosixPath(posixpath.normpath(path)) for path in (one, other))
        if a.is_relative_to(b) or b.is_relative_to(a):
            why = f"is the same directory as {path_text(first)} = {shown(one)}, or one lies within the other"
            yield Problem(why, "write to a directory of its own", "separate paths", shown(other), second)
