"""Progress of a run on standard error: a line for each step with its seconds, and a spinner on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from dp_spark.pipeline import Observer, Step


@contextmanager
def progress(console: Console, title: str) -> Iterator[Observer]:
    """An observer that shows what a run is doing, until the block ends."""
    with console.status(title) as status:
        running: tuple[Step, float] | None = None

        def observe(step: Step) -> None:
            nonlocal running
            now = time.monotonic()
            if running is not None and running[0] is not step:
                console.print(f"  {running[0]:<45}{now - running[1]:6.1f} s", highlight=False)
            if running is None or running[0] is not step:
                running = (step, now)
            status.update(f"{title}: {step}")

        console.print(title, highlight=False)
        yield observe
