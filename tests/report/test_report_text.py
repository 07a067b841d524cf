import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from dp_spark.report import print_facts, release_facts
from dp_spark.report.figures import exact, figures


def printed(facts, *, width=80, terminal=False):
    stream = io.StringIO()
    print_facts(Console(file=stream, width=width, force_terminal=terminal), facts)
    return stream.getvalue()


def rows_of(text, start):
    """The words of the lines that begin with `start`."""
    return [line.split() for line in text.splitlines() if line.strip().startswith(start)]


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_console(statement, width):
    lines = printed(statement, width=width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_a_total_stands_on_one_line_with_all_its_numbers(facts, width):
    text = printed(facts, width=width)
    for total in facts.totals:
        share, _, noise = rows_of(text, f"{total.query}: {total.component}")
        assert share[-1] == figures(total.epsilon_alone)
        numbers = (total.scale, total.std, total.half_width)
        assert noise[2:] == [
            total.family,
            exact(total.sensitivity),
            exact(total.grid),
            *map(figures, numbers),
        ]


def test_an_answer_stands_on_one_line_with_all_its_numbers(facts):
    text = printed(facts)
    for query in facts.queries[:3]:
        row = next(row for row in rows_of(text, query.name) if query.kind in row)
        assert row[1:5] == [
            query.kind,
            figures(query.std),
            figures(query.half_width),
            figures(query.useful.least),
        ]
    sizes = [row[1:] for row in rows_of(text, "mean_delay ") if len(row) == 4]
    assert sizes == [
        [figures(each.size), figures(each.std), figures(each.half_width)]
        for each in facts.queries[3].references
    ]


def test_the_promise_and_the_cost_are_there(facts):
    text = printed(facts)
    assert "epsilon 1, delta 1e-6, each release" in text
    assert "epsilon 87, delta 8.7e-5" in text
    assert "88 releases of this cost, this one included" in text


def test_sentences_are_whole(facts):
    text = " ".join(printed(facts).split())
    for sentence in (*facts.protects, *facts.limits):
        assert sentence in text


def test_what_is_piped_is_plain_text(statement):
    text = printed(statement)
    assert "\x1b" not in text
    assert text.isascii()
    assert "\x1b" in printed(statement, terminal=True)


def test_small_numbers_are_written_as_people_do(facts):
    assert not re.search(r"e[+-]0|\d\.\d{8}", printed(facts))


def test_a_plan_that_does_not_fit_says_so(plan, account_of):
    budget = account_of(limit=("1", "1e-5"), spent=("0.5", "0"))
    assert "this release does not fit" in printed(release_facts(plan, budget=budget))


def test_without_a_ledger_it_says_so(plan):
    assert "not known" in printed(release_facts(plan))


def test_a_statement_names_the_release_its_rows_and_places(statement, sealed):
    text = printed(statement)
    assert text.startswith(f"Statement of {sealed.release_id}")
    for word in (sealed.artefact_digest, *sealed.published, sealed.dp_spark_version, "2013-01-06 01:04:00"):
        assert word in text


def test_names_are_not_read_as_markup(facts):
    assert "[bold red]tail[/]" in printed(replace(facts, unit="[bold red]tail[/]"))


def test_long_names_fold_and_lose_nothing(facts):
    name = "a_name_of_a_query_that_somebody_thought_would_explain_itself"
    queries = (replace(facts.queries[0], name=name), *facts.queries[1:])
    totals = (replace(facts.totals[0], query=name), *facts.totals[1:])
    text = printed(replace(facts, queries=queries, totals=totals))
    assert max(map(len, text.splitlines())) <= 80
    numbers = (facts.totals[0].scale, facts.totals[0].std, facts.totals[0].half_width)
    assert re.search(r"\s+".join(map(re.escape, map(figures, numbers))), text)
