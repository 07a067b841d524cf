"""What the reports print on a console is made of: sections, pairs, lists, tables."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

MOST_ROWS = 30  # of a list on a console
_INDENT = 2
_BULLET = "-"


def section(console: Console, heading: str, *content: Table | Text) -> None:
    """A heading with what stands under it."""
    console.print()
    console.print(Text(heading, style="bold cyan"))
    for each in content:
        console.print(Padding(each, (0, 0, 0, _INDENT), expand=False))


def with_more(rows_shown: Table, rows: int) -> Table:
    """The table with a line for those of its rows that are not shown."""
    if rows > MOST_ROWS:
        rows_shown.add_row(more_rows(rows - MOST_ROWS))
    return rows_shown


def more_rows(rows: int) -> str:
    """The line for so many rows that are not shown."""
    return f"and {rows:,} more: --json and --html have all"


def pairs(of: Iterable[tuple[str, str]]) -> Table:
    """Names and texts, a pair a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in of:
        grid.add_row(plain_text(name), plain_text(text))
    return grid


def bullets(texts: Sequence[str]) -> Table:
    """Texts, one under the other."""
    return pairs((_BULLET, text) for text in texts)


def table(console: Console, *names: str, numbers: Sequence[str]) -> Table:
    """An empty table of columns of text, then of numbers."""
    style = box.SIMPLE_HEAD if console.is_terminal else None
    made = Table(box=style, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in names:
        made.add_column(name, overflow="fold")
    for number in numbers:
        made.add_column(number, justify="right", no_wrap=True)
    return made


def plain_text(value: str) -> Text:
    """The value as it is: names are not markup."""
    return Text(value)
