"""The facts of a release on a console."""

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dp_spark.report import phrases
from dp_spark.report.facts import ReleaseFacts
from dp_spark.report.figures import exact, figures

_INDENT = 2
_BULLET = "-"
_ROOMY = 100  # columns from which the widest table has room between its numbers


def print_facts(console: Console, facts: ReleaseFacts) -> None:
    """Print plan or statement; readable from 80 columns on, without lines and colours where piped."""
    console.print(Text(phrases.title(facts), style="bold"))
    _section(console, "The promise", _pairs(phrases.promise(facts)))
    notes = _pairs((*phrases.compared(facts), *phrases.depending(facts)))
    _section(console, "What each answer will be worth", _answers(console, facts), notes)
    if any(query.references for query in facts.queries):
        heading = "Answers whose noise depends on the size of the group"
        _section(console, heading, _references(console, facts))
    told = Text(f"{phrases.together(facts)} {phrases.decision(facts)}")
    _section(console, "How the guarantee is shared", told, _shares(console, facts))
    priced = _pairs((phrases.total_name(total), phrases.moves(total)) for total in facts.totals)
    _section(console, "What neighbours differ in, in value", priced)
    _section(console, "The noise of each total, in value", _noise(console, facts))
    _section(console, "Cost", _pairs(phrases.ledger(facts.cost) if facts.cost else phrases.price(facts)))
    if facts.sealed:
        _section(console, "The release", _pairs(phrases.outcome(facts.sealed)))
    _section(console, "What this protects", _bullets(facts.protects))
    _section(console, "What it does not cover", _bullets(facts.limits))


def facts_text(facts: ReleaseFacts, *, width: int = _ROOMY) -> str:
    """What `print_facts` prints on a console without colours of so many columns."""
    stream = io.StringIO()
    print_facts(Console(file=stream, width=width, highlight=False, force_terminal=False), facts)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def _section(console: Console, heading: str, *content: Table | Text) -> None:
    console.print()
    console.print(Text(heading, style="bold cyan"))
    for each in content:
        console.print(Padding(each, (0, 0, 0, _INDENT), expand=False))


def _answers(console: Console, facts: ReleaseFacts) -> Table:
    table = _table(console, "query", "kind", numbers=("std", _half_width_head(facts), "std is 10 % from"))
    for query in facts.queries:
        depends = query.std is None
        table.add_row(
            _text(query.name),
            _text(query.kind),
            phrases.BY_SIZE if query.std is None else figures(query.std),
            phrases.BY_SIZE if depends or query.half_width is None else figures(query.half_width),
            _text(phrases.useful(query)),
        )
    return table


def _references(console: Console, facts: ReleaseFacts) -> Table:
    table = _table(console, "answer", numbers=("size of the group", "std", _half_width_head(facts)))
    for query in facts.queries:
        for each in query.references:
            table.add_row(_text(each.answer), figures(each.size), figures(each.std), figures(each.half_width))
    return table


def _shares(console: Console, facts: ReleaseFacts) -> Table:
    table = _table(console, "total", numbers=("epsilon alone",))
    for total in facts.totals:
        table.add_row(_text(phrases.total_name(total)), figures(total.epsilon_alone))
    return table


def _noise(console: Console, facts: ReleaseFacts) -> Table:
    numbers = ("unit moves", "grid", "scale", "std", _half_width_head(facts))
    table = _table(console, "total", "noise", numbers=numbers)
    table.padding = (0, 1, 0, 0) if console.width < _ROOMY else table.padding
    for total in facts.totals:
        table.add_row(
            _text(phrases.total_name(total)),
            _text(total.family),
            exact(total.sensitivity),
            exact(total.grid),
            figures(total.scale),
            figures(total.std),
            figures(total.half_width),
        )
    return table


def _half_width_head(facts: ReleaseFacts) -> str:
    return f"{figures(100 * facts.coverage)} % +-"


def _pairs(pairs: Iterable[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in pairs:
        grid.add_row(_text(name), _text(text))
    return grid


def _bullets(texts: Sequence[str]) -> Table:
    return _pairs((_BULLET, text) for text in texts)


def _table(console: Console, *names: str, numbers: Sequence[str]) -> Table:
    style = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(box=style, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _text(value: str) -> Text:
    """The value as it is: names are not markup."""
    return Text(value)
