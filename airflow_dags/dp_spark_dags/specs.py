"""What a DAG has to know of a spec: its name, its population, its periods and whose midnight ends them.

Everything else is read, and refused where it is wrong, by the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml

_LONGEST = 1 << 20  # bytes, of a spec
_LENGTHS = (None, "day", "week", "month")


@dataclass(frozen=True, slots=True)
class SpecFacts:
    """A release or a survey, as a scheduler sees it.

    Attributes:
        path: absolute, of the spec.
        kind: `release` or `survey`.
        every: `day`, `week` or `month`; None of a survey, and of a release of the whole input.
        timezone: of the midnights between periods.
    """

    path: Path
    kind: str
    name: str
    population: str
    every: str | None
    timezone: str

    @property
    def asset(self) -> str:
        """The name of what it publishes: two specs of one name may have two populations."""
        return f"{self.population}/{self.name}"


def read_spec(path: Path | str) -> SpecFacts:
    """The facts of a spec.

    Raises:
        ValueError: it is no spec of a release or survey; says what it lacks.
        OSError: it cannot be read.
    """
    file = Path(path).absolute()
    if any(mark in str(file) for mark in ("{{", "{%", "{#")):  # arguments of jobs are templates
        raise ValueError(f"{file}: its path would be read as a template; name it otherwise")
    written = _mapping(_tree(file), file, "the spec")
    kind = next((kind for kind in ("release", "survey") if kind in written), None)
    if kind is None:
        raise ValueError(f"{file}: neither a release nor a survey; a spec begins with `release: NAME`")
    period = _mapping(written.get("period") or {}, file, "period")
    budget = _mapping(written.get("budget"), file, "budget")
    every, timezone = period.get("every"), period.get("timezone", "UTC")
    if every not in _LENGTHS or not isinstance(timezone, str):
        raise ValueError(f"{file}: period.every is day, week or month, and period.timezone a name")
    try:
        ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"{file}: period.timezone = {timezone!r} is no time zone") from None
    return SpecFacts(
        file, kind, _name(written[kind], file), _name(budget.get("population"), file), every, timezone
    )


def is_release(path: Path) -> bool:
    """Whether a YAML file is the spec of a release; other files may lie beside it."""
    tree = _tree(path)
    return isinstance(tree, dict) and "release" in tree


def _tree(file: Path) -> object:
    with file.open("rb") as stream:
        content = stream.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ValueError(f"{file}: longer than {_LONGEST:,} bytes")
    try:
        # Every scalar is text to this loader, as it is to dp_spark; it makes no objects.
        return yaml.load(content, Loader=yaml.BaseLoader)  # noqa: S506
    except yaml.YAMLError as failure:
        raise ValueError(f"{file}: is no YAML ({type(failure).__name__})") from None


def _mapping(value: object, file: Path, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{file}: {what} is missing, or no mapping")
    return value


def _name(value: object, file: Path) -> str:
    """A name that can be that of a DAG and of an asset."""
    if (
        not isinstance(value, str)
        or not value.replace("_", "").replace("-", "").isalnum()
        or len(value) > 100
    ):
        raise ValueError(f"{file}: a name is made of letters, digits, _ and -")
    return value
