"""What is wrong in what an operator wrote, and the refusal that names all of it with the way out."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from dp_spark.errors import SpecRefused

MAX_SHOWN = 60
MAX_TOLD = 50
_PLAIN_KEY = re.compile(r"[\w-]{1,64}")

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in what an operator wrote.

    Attributes:
        why: what is wrong, in a few words.
        way_out: what to write instead.
        allowed: the allowed range, or empty.
        written: the value as `shown` renders it, or empty where none was written.
        at: keys and list positions that lead to the value.
    """

    why: str
    way_out: str
    allowed: str = ""
    written: str = ""
    at: Place = ()

    def under(self, *parents: str | int) -> "Problem":
        """The same problem, seen from further up."""
        return replace(self, at=(*parents, *self.at))

    def told(self) -> str:
        """The problem in one line, without its way out."""
        subject = " = ".join(filter(None, (path_text(self.at), self.written)))
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        return f"{subject}: {self.why}{allowed}" if subject else f"{self.why}{allowed}"


class Wrong(ValueError):
    """Raised while a value is read; whoever knows the whole collects the problems and refuses."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems


def wrong(value: object, why: str, *, allowed: str = "", way_out: str) -> Wrong:
    """A value that is wrong in one way."""
    return Wrong(Problem(why, way_out, allowed, shown(value)))


def summary(source: str, problems: Sequence[Problem]) -> tuple[str, str]:
    """Message and way out of a refusal that names every problem."""
    if len(problems) == 1:
        return f"{source}: {problems[0].told()}", problems[0].way_out
    lines = [f"  - {problem.told()}; {problem.way_out}" for problem in problems[:MAX_TOLD]]
    number = f"{len(problems)}" if len(problems) <= MAX_TOLD else f"more than {MAX_TOLD}"
    return "\n".join([f"{source}: {number} problems", *lines]), "mend each line as it says"


def refused(code: str, source: str, problems: Sequence[Problem]) -> SpecRefused:
    """The refusal of a spec that has these problems."""
    message, way_out = summary(source, problems)
    return SpecRefused(code, message, way_out=way_out)


def shown(value: object) -> str:
    """The value as Python writes it, cut to a length that fits a line."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def shown_key(key: Sequence[str | None]) -> str:
    """The texts of one group, or of one cell of several columns, as a list in a spec writes them."""
    return shown(key[0] if len(key) == 1 else list(key))


def path_text(at: Place) -> str:
    """A place as the operator looks for it: `queries[1].lower`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_key_text(step)}" for step in at)
    return "".join(steps).removeprefix(".")


def _key_text(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else shown(key)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    folded = {option.casefold(): option for option in known}
    close = get_close_matches(word[:100].casefold(), folded, n=1)
    return folded[close[0]] if close else None


def unknown_key(key: str, known: Sequence[str], written: str = "") -> Problem:
    """The problem of a key that nobody reads, with the nearest known one."""
    guess = nearest(key, known)
    hint = f": did you mean {guess!r}?" if guess else ""
    return Problem(
        f"unknown key {shown(key)}{hint}",
        f"write {guess} instead, or remove the key" if guess else "remove the key",
        allowed="the keys " + ", ".join(known),
        written=written,
        at=(key,),
    )
