"""The facts of a survey on a console."""

import io

from rich.console import Console
from rich.text import Text

from dp_spark.report import survey_words as words
from dp_spark.report.figures import figures
from dp_spark.report.layout import MOST_ROWS, bullets, pairs, section, table, with_more
from dp_spark.report.survey_facts import SurveyFacts

_WIDTH = 100  # columns


def print_survey(console: Console, facts: SurveyFacts) -> None:
    """Print plan or statement; readable from 80 columns on, without lines and colours where piped."""
    console.print(Text(words.title(facts), style="bold"))
    section(console, "The question", pairs(words.asked(facts)))
    section(console, "The randomizer", pairs(words.how(facts)))
    errors = table(console, numbers=("people in the group", "std of a share", "95 % within"))
    for each in facts.errors:
        errors.add_row(f"{each.people:,}", figures(each.std), f"± {figures(each.half_width)}")
    section(console, "What a share is worth", errors, Text(words.errors_told(facts)))
    section(console, "Account", pairs(words.account(facts)))
    if facts.sealed is not None:
        section(console, "The wave", pairs(words.outcome(facts)))
        groups = table(console, "group", numbers=("reports",))
        for of in facts.sealed.groups[:MOST_ROWS]:
            groups.add_row(Text(words.group_name(of)), f"{of.reports:,}{', small' if of.small else ''}")
        section(console, "Reports by group", with_more(groups, len(facts.sealed.groups)))
    section(console, "What this protects", bullets(words.protects(facts)))
    section(console, "What it does not hide", bullets(words.not_hidden(facts)))


def survey_text(facts: SurveyFacts, *, width: int = _WIDTH) -> str:
    """What `print_survey` prints on a console without colours of so many columns."""
    stream = io.StringIO()
    print_survey(Console(file=stream, width=width, highlight=False, force_terminal=False), facts)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
