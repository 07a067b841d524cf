"""When the rows of a period are complete: what has to exist, and how new, before it is charged for."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from dp_spark.release.problems import Problem, Wrong, shown, wrong
from dp_spark.release.reading import read_list, read_path, read_text
from dp_spark.release.spec.part import Part
from dp_spark.release.spec.tables import FrameInput, InputSpec
from dp_spark.release.spec.values import InputFormat

KEY = "{key}"
_AGE = re.compile(r"([1-9][0-9]{0,4})([hd])")
_HOURS = {"h": 1, "d": 24}


def _read_pattern(value: object) -> str:
    """A path in which `{key}` may stand for the period's key, and nothing else in braces."""
    path = read_path(value)
    if re.search(r"[{}]", path.replace(KEY, "")):
        raise wrong(
            path,
            f"has braces that are not {KEY}",
            allowed=f"a path or URL; {KEY} stands for the key of the period",
            way_out=f"write for instance data/flights/date={KEY}/_SUCCESS",
        )
    return path


def _read_patterns(value: object) -> object:
    return [value] if isinstance(value, str) or hasattr(value, "__fspath__") else read_list(value)


def _read_age(value: object) -> str:
    """An age in whole hours or days, as it is written."""
    text = read_text(value)
    if not _AGE.fullmatch(text):
        raise wrong(text, "is no age", allowed="1h to 99999h, 1d to 99999d", way_out="write for instance 36h")
    return text


class ReadySpec(Part, frozen=True):
    """What tells that the rows of a period are complete.

    Attributes:
        exists: paths that are there then.
        newer_than: how old the newest rows of the input may be; the rows of a period are not told apart.
    """

    exists: (
        Annotated[tuple[Annotated[str, BeforeValidator(_read_pattern)], ...], BeforeValidator(_read_patterns)]
        | None
    ) = Field(None, examples=["data/flights/date={key}/_SUCCESS"])
    newer_than: Annotated[str, BeforeValidator(_read_age)] | None = None

    @model_validator(mode="after")
    def _check_asks(self) -> Self:
        if self.exists is None and self.newer_than is None:
            raise Wrong(Problem("asks for nothing", "write exists: PATH, or newer_than: 36h, or both"))
        return self

    def paths(self, key: str) -> tuple[str, ...]:
        """The paths of the period with this key."""
        return tuple(path.replace(KEY, key) for path in self.exists or ())

    @property
    def most_age(self) -> timedelta | None:
        """How old the newest rows may be; None where they may have any age."""
        if self.newer_than is None:
            return None
        number, unit = self.newer_than[:-1], self.newer_than[-1]
        return timedelta(hours=int(number) * _HOURS[unit])


def ready_problems(ready: ReadySpec | None, source: InputSpec | FrameInput) -> Iterator[Problem]:
    """An age that nobody can tell."""
    if ready is None or ready.newer_than is None:
        return
    at, written = ("ready", "newer_than"), shown(ready.newer_than)
    if isinstance(source, FrameInput):
        why = "needs an input: a frame does not say when its rows were written"
        yield Problem(why, "remove it, or write input", "with input", written, at)
    elif source.format in (InputFormat.TABLE, InputFormat.JDBC):
        why = f"does not go with input.format = {source.format}, which does not say when rows were written"
        way_out = "remove it, and let whoever writes the rows leave a mark for ready.exists"
        yield Problem(why, way_out, "parquet | csv | delta | iceberg", written, at)
