"""Progress of a run on standard error: what it is doing now, and the seconds of each part."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console


class Step(Protocol):
    """What a run is about to do: a text, and the part of the run that it belongs to."""

    @property
    def part(self) -> str:
        """A word."""


@contextmanager
def progress(
    console: Console, title: str, *, idle: str = "sealed before"
) -> Iterator[Callable[[Step], None]]:
    """An observer that shows a run: a spinner on a terminal, elsewhere each part as it ends.

    A run that had nothing to do shows `idle`; one that was refused before it did anything shows nothing.
    """
    parts = _Parts(console, title)
    with console.status(title) as status:

        def observe(step: Step) -> None:
            status.update(f"{title}: {step}")
            parts.enter(step.part)

        try:
            yield observe
        except BaseException:
            parts.end("")
            raise
        parts.end(idle)


class _Parts:
    """The parts of one run with their seconds; several steps may make one part."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._live = not console.is_terminal  # a spinner and a line that grows would overwrite each other
        self._done: list[str] = []
        self._part, self._since = "", time.monotonic()

    def enter(self, part: str) -> None:
        """Note that `part` begins, unless it is going on."""
        if part == self._part:
            return
        now = time.monotonic()
        if self._part:
            self._done.append(f"{self._part} {now - self._since:.1f} s")
            self._show(self._done[-1])
        self._part, self._since = part, now

    def end(self, idle: str) -> None:
        """Show what is still to be shown; `idle`, if it says something, where nothing was done."""
        self.enter("")
        if told := ", ".join(self._done) or idle:
            ended = "" if self._live and self._done else f"{self._title}: {told}"
            self._console.print(ended, highlight=False, markup=False)

    def _show(self, text: str) -> None:
        if self._live:
            lead = f"{self._title}: " if len(self._done) == 1 else ", "
            self._console.print(lead + text, end="", highlight=False, markup=False, soft_wrap=True)
