"""The facts of a release on a console."""

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dp_spark.report import group_words, phrases
from dp_spark.report.facts import ReleaseFacts
from dp_spark.report.figures import exact, figures
from dp_spark.report.groups import SelectionFacts

_INDENT = 2
_BULLET = "-"
_MOST_ROWS = 30  # of a list on a console
_ROOMY = 100  # columns from which the widest table has room between its numbers


def print_facts(console: Console, facts: ReleaseFacts) -> None:
    """Print plan or statement; readable from 80 columns on, without lines and colours where piped."""
    console.print(Text(phrases.title(facts), style="bold"))
    _section(console, "The promise", _pairs(_few(phrases.promise(facts))))
    notes = _pairs(_few((*phrases.compared(facts), *phrases.depending(facts))))
    _section(console, "What each answer is worth", _answers(console, facts), notes)
    if any(query.references for query in facts.queries):
        heading = "Answers whose noise depends on the size of the group"
        _section(console, heading, _references(console, facts))
    if facts.groups.selection is not None:
        _selection(console, facts, facts.groups.selection)
    if facts.rollup:
        _section(console, "Coarser groups", _bullets(group_words.levels(facts.rollup)))
    told = Text(f"{phrases.together(facts)} {phrases.decision(facts)}")
    _section(console, "How the guarantee is shared", told, _shares(console, facts))
    priced = _pairs(_few([(phrases.total_name(total), phrases.moves(total)) for total in facts.totals]))
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
    for query in facts.queries[:_MOST_ROWS]:
        numbers = phrases.std(query), phrases.half_width(query), _text(phrases.useful(query))
        table.add_row(_text(query.name), _text(query.kind), *numbers)
    return _with_more(table, len(facts.queries))


def _references(console: Console, facts: ReleaseFacts) -> Table:
    table = _table(console, "answer", numbers=("size of the group", "std", _half_width_head(facts)))
    found = [each for query in facts.queries for each in query.references]
    for each in found[:_MOST_ROWS]:
        table.add_row(_text(each.answer), figures(each.size), figures(each.std), figures(each.half_width))
    return _with_more(table, len(found))


def _shares(console: Console, facts: ReleaseFacts) -> Table:
    table = _table(console, "total", "of", numbers=("epsilon alone",))
    for total in facts.totals[:_MOST_ROWS]:
        name, uses = phrases.total_name(total), phrases.uses(total)
        table.add_row(_text(name), _text(uses), figures(total.epsilon_alone))
    selection = facts.groups.selection
    if selection is not None and selection.epsilon_alone is not None:
        table.add_row(phrases.SELECTING, "units", figures(selection.epsilon_alone))
    return _with_more(table, len(facts.totals))


def _noise(console: Console, facts: ReleaseFacts) -> Table:
    numbers = ("unit moves", "grid", "scale", "std", _half_width_head(facts))
    table = _table(console, "total", "noise", numbers=numbers)
    table.padding = (0, 1, 0, 0) if console.width < _ROOMY else table.padding
    for total in facts.totals[:_MOST_ROWS]:
        table.add_row(
            _text(phrases.total_name(total)),
            _text(total.family),
            exact(total.sensitivity),
            exact(total.grid),
            figures(total.scale),
            figures(total.std),
            figures(total.half_width),
        )
    return _with_more(table, len(facts.totals))


def _selection(console: Console, facts: ReleaseFacts, selection: SelectionFacts) -> None:
    table = _table(console, numbers=("a group of units", "is released with probability"))
    for units, probability in group_words.probabilities(selection):
        table.add_row(units, probability)
    told = _bullets(group_words.consequences(selection, facts.rollup))
    _section(console, "How groups are selected", Text(group_words.rule(selection)), table, told)


def _few(pairs: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """The pairs, or the first of many and how many more there are."""
    more = len(pairs) - _MOST_ROWS
    return pairs if more <= 0 else (*pairs[:_MOST_ROWS], ("...", _more(more)))


def _with_more(table: Table, rows: int) -> Table:
    """The table with a line for those of its rows that are not shown."""
    if rows > _MOST_ROWS:
        table.add_row(_more(rows - _MOST_ROWS))
    return table


def _more(rows: int) -> str:
    return f"and {rows:,} more: --json and --html have all"


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
