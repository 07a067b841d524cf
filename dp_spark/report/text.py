"""The facts of a release on a console."""

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_spark.report import group_words, phrases
from dp_spark.report.facts import ReleaseFacts
from dp_spark.report.figures import exact, figures
from dp_spark.report.groups import SelectionFacts
from dp_spark.report.layout import MOST_ROWS, bullets, more_rows, pairs, plain_text, section, with_more
from dp_spark.report.layout import table as new_table

_ROOMY = 100  # columns from which the widest table has room between its numbers


def print_facts(console: Console, facts: ReleaseFacts) -> None:
    """Print plan or statement; readable from 80 columns on, without lines and colours where piped."""
    console.print(Text(phrases.title(facts), style="bold"))
    section(console, "The promise", pairs(_few(phrases.promise(facts))))
    notes = pairs(_few((*phrases.compared(facts), *phrases.depending(facts))))
    section(console, "What each answer is worth", _answers(console, facts), notes)
    if any(query.references for query in facts.queries):
        heading = "Answers whose noise depends on the size of the group"
        section(console, heading, _references(console, facts))
    if facts.groups.selection is not None:
        _selection(console, facts, facts.groups.selection)
    if facts.rollup:
        section(console, "Coarser groups", bullets(group_words.levels(facts.rollup)))
    told = Text(f"{phrases.together(facts)} {phrases.decision(facts)}")
    section(console, "How the guarantee is shared", told, _shares(console, facts))
    priced = pairs(_few([(phrases.total_name(total), phrases.moves(total)) for total in facts.totals]))
    section(console, "What neighbours differ in, in value", priced)
    section(console, "The noise of each total, in value", _noise(console, facts))
    section(console, "Cost", pairs(phrases.ledger(facts.cost) if facts.cost else phrases.price(facts)))
    if facts.sealed:
        section(console, "The release", pairs(phrases.outcome(facts.sealed)))
    section(console, "What this protects", bullets(facts.protects))
    section(console, "What it does not cover", bullets(facts.limits))


def facts_text(facts: ReleaseFacts, *, width: int = _ROOMY) -> str:
    """What `print_facts` prints on a console without colours of so many columns."""
    stream = io.StringIO()
    print_facts(Console(file=stream, width=width, highlight=False, force_terminal=False), facts)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def _answers(console: Console, facts: ReleaseFacts) -> Table:
    table = new_table(console, "query", "kind", numbers=("std", _half_width_head(facts), "std is 10 % from"))
    for query in facts.queries[:MOST_ROWS]:
        numbers = phrases.std(query), phrases.half_width(query), plain_text(phrases.useful(query))
        table.add_row(plain_text(query.name), plain_text(query.kind), *numbers)
    return with_more(table, len(facts.queries))


def _references(console: Console, facts: ReleaseFacts) -> Table:
    table = new_table(console, "answer", numbers=("size of the group", "std", _half_width_head(facts)))
    found = [each for query in facts.queries for each in query.references]
    for each in found[:MOST_ROWS]:
        table.add_row(
            plain_text(each.answer), figures(each.size), figures(each.std), figures(each.half_width)
        )
    return with_more(table, len(found))


def _shares(console: Console, facts: ReleaseFacts) -> Table:
    table = new_table(console, "total", "of", numbers=("epsilon alone",))
    for total in facts.totals[:MOST_ROWS]:
        name, uses = phrases.total_name(total), phrases.uses(total)
        table.add_row(plain_text(name), plain_text(uses), figures(total.epsilon_alone))
    selection = facts.groups.selection
    if selection is not None and selection.epsilon_alone is not None:
        table.add_row(phrases.SELECTING, "units", figures(selection.epsilon_alone))
    return with_more(table, len(facts.totals))


def _noise(console: Console, facts: ReleaseFacts) -> Table:
    numbers = ("unit moves", "grid", "scale", "std", _half_width_head(facts))
    table = new_table(console, "total", "noise", numbers=numbers)
    table.padding = (0, 1, 0, 0) if console.width < _ROOMY else table.padding
    for total in facts.totals[:MOST_ROWS]:
        table.add_row(
            plain_text(phrases.total_name(total)),
            plain_text(total.family),
            exact(total.sensitivity),
            exact(total.grid),
            figures(total.scale),
            figures(total.std),
            figures(total.half_width),
        )
    return with_more(table, len(facts.totals))


def _selection(console: Console, facts: ReleaseFacts, selection: SelectionFacts) -> None:
    table = new_table(console, numbers=("a group of units", "is released with probability"))
    for units, probability in group_words.probabilities(selection):
        table.add_row(units, probability)
    told = bullets(group_words.consequences(selection, facts.rollup))
    section(console, "How groups are selected", Text(group_words.rule(selection)), table, told)


def _few(rows: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """The pairs, or the first of many and how many more there are."""
    more = len(rows) - MOST_ROWS
    return rows if more <= 0 else (*rows[:MOST_ROWS], ("...", more_rows(more)))


def _half_width_head(facts: ReleaseFacts) -> str:
    return f"{figures(100 * facts.coverage)} % +-"
