"""What the commands share of reading their arguments and of printing tables."""

import argparse
import statistics
from collections.abc import Sequence


def arguments(description: str | None, *, runs: int | None = 3) -> argparse.ArgumentParser:
    """A parser that prints a module's text as it stands; `runs` None where each thing runs once."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=layout)
    if runs is not None:
        parser.add_argument("--runs", type=int, default=runs, help="of each, after one warm-up")
        parser.add_argument("--memory", default="4g", help="of Spark's JVM")
    return parser


def line(*cells: object) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    """The first two lines of a Markdown table."""
    return f"{line(*cells)}\n{line(*['---'] * len(cells))}"


def median_and_range(numbers: Sequence[float], digits: int = 1) -> str:
    """As "2.1 (2.0 to 2.4)"."""
    shown = (f"{number:.{digits}f}" for number in (statistics.median(numbers), min(numbers), max(numbers)))
    return "{} ({} to {})".format(*shown)


def megabytes(number: float) -> str:
    """Bytes as megabytes, or "-" for none."""
    return f"{number / 2**20:,.0f} MB" if number else "-"
