"""When the rows of a period are complete: paths that have to exist before it is charged for."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from dp_spark.release.problems import wrong
from dp_spark.release.reading import read_list, read_path
from dp_spark.release.spec.part import Part

KEY = "{key}"


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


class ReadySpec(Part, frozen=True):
    """What tells that the rows of a period are complete."""

    exists: Annotated[
        tuple[Annotated[str, BeforeValidator(_read_pattern)], ...], BeforeValidator(_read_patterns)
    ] = Field(examples=["data/flights/date={key}/_SUCCESS"])

    def paths(self, key: str) -> tuple[str, ...]:
        """The paths of the period with this key."""
        return tuple(path.replace(KEY, key) for path in self.exists)
