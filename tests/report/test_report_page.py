import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from dp_spark.report import facts_html, release_facts
from dp_spark.report.figures import exact, figures
from dp_spark.report.picture import WIDTH, rulers, shared_epsilon, spent_epsilon

VOID = {"meta", "br", "hr", "img", "input", "link"}
HOSTILE = '</title></style><script>alert("1")</script>\'&{{ 7919 * 7 }}'


class Balance(HTMLParser):
    """Tags that are opened and closed in order; the words between them; attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.tags, self.attributes = [], [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def parsed(page):
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def words_of(page):
    return " ".join(" ".join(parsed(page).words).split())


@pytest.mark.parametrize("which", ["facts", "statement"])
def test_tags_are_balanced(which, request):
    parsed(facts_html(request.getfixturevalue(which)))


def test_a_page_needs_nothing_else(statement):
    page = facts_html(statement)
    parser = parsed(page)
    assert not parser.tags & {"script", "link", "img", "iframe", "object", "use", "image"}
    assert not {name for name, _ in parser.attributes} & {"src", "href", "xlink:href", "srcset", "style"}
    assert not re.search(r"http|url\(|@import|javascript:", page)


def test_the_numbers_of_totals_and_answers_are_there(facts):
    page = facts_html(facts)
    for total in facts.totals:
        cells = [figures(total.epsilon_alone), total.family, exact(total.sensitivity)]
        cells += [exact(total.grid), *map(figures, (total.scale, total.std, total.half_width))]
        assert re.search(r"</td><td[^>]*>".join(map(re.escape, cells)), page)
    for query in facts.queries:
        for each in (query, *query.references):
            if each.std is not None:
                assert f'>{figures(each.std)}</td><td class="n">{figures(each.half_width)}</td>' in page


def test_every_sentence_of_the_promise_is_there(facts):
    words = words_of(facts_html(facts))
    for sentence in (*facts.protects, *facts.limits):
        assert sentence in words


def test_a_page_of_a_plan_without_ledger_says_so(plan):
    assert "not known" in words_of(facts_html(release_facts(plan)))


def test_a_statement_names_the_release_and_its_rows(statement, sealed):
    words = words_of(facts_html(statement))
    assert f"Statement of {sealed.release_id}" in words
    assert sealed.artefact_digest in words


def hostile(statement):
    """Facts of which every text is an attack on the page."""
    return replace(
        statement,
        release=HOSTILE,
        population=HOSTILE,
        period=HOSTILE,
        unit=HOSTILE,
        protects=(HOSTILE,),
        limits=(HOSTILE,),
        noise=HOSTILE,
        clamped=tuple(replace(each, query=HOSTILE, column=HOSTILE) for each in statement.clamped),
        groups=replace(statement.groups, columns=(HOSTILE,), source=HOSTILE, first=((HOSTILE,),)),
        totals=tuple(
            replace(each, query=HOSTILE, component=HOSTILE, counts=HOSTILE, family=HOSTILE)
            for each in statement.totals
        ),
        queries=tuple(
            replace(
                each,
                name=f"{HOSTILE} {each.name}",
                std_in_words=HOSTILE,
                useful=replace(each.useful, of=HOSTILE, unit=HOSTILE),
            )
            for each in statement.queries
        ),
        sealed=replace(
            statement.sealed,
            release_id=HOSTILE,
            state=HOSTILE,
            artefact_digest=HOSTILE,
            published=(HOSTILE,),
            dp_spark_version=HOSTILE,
        ),
    )


def test_no_name_can_become_markup(statement):
    page = facts_html(hostile(statement))
    parser = parsed(page)
    assert "script" not in parser.tags
    assert "<script" not in page
    assert str(7919 * 7) not in page
    assert html.unescape(page).count(HOSTILE) > 20


def test_the_same_facts_give_the_same_page(statement):
    assert facts_html(statement) == facts_html(statement)


def test_a_bar_shares_its_whole_width(facts):
    segments = shared_epsilon(facts)
    assert [each.label for each in segments] == [figures(each.epsilon_alone, 3) for each in facts.totals]
    assert sum(each.width for each in segments) == pytest.approx(WIDTH, abs=0.1)


@pytest.mark.parametrize(("which", "left"), [("facts", 87), ("statement", 88)])
def test_the_bar_of_the_account_shows_this_release_apart(which, left, request):
    cost = request.getfixturevalue(which).cost
    others, this, rest = (each.width / WIDTH * 100 for each in spent_epsilon(cost))
    assert (this, rest) == pytest.approx((1, left), abs=0.01)
    assert others == pytest.approx(99 - left, abs=0.01)


def test_the_bar_of_an_overdrawn_account_stays_in_the_picture(plan, account_of):
    facts = release_facts(plan, budget=account_of(limit=("1", "1e-5"), spent=("0.5", "0")))
    assert sum(each.width for each in spent_epsilon(facts.cost)) == pytest.approx(WIDTH, abs=0.1)


def test_rulers_mark_the_size_at_which_the_std_is_ten_percent(facts):
    counts, sums = rulers(facts)
    assert [row.name for row in counts.rows] == ["flights", "planes", "mean_delay"]
    assert [row.name for row in sums.rows] == ["total_delay"]
    for ruler in (counts, sums):
        for row in ruler.rows:
            query = next(each for each in facts.queries if each.name == row.name)
            assert row.marked.label == figures(query.useful.least, 3)
            assert row.marked.x == row.bands[3].x  # below it 10-30 %, above it 3-10 %
            ends = [each.x + each.width for each in row.bands]
            assert ends[:-1] == pytest.approx([each.x for each in row.bands[1:]], abs=0.02)


def test_an_axis_is_logarithmic_and_within_the_picture(facts):
    for ruler in rulers(facts):
        places = [tick.x for tick in ruler.ticks]
        gaps = [b - a for a, b in pairwise(places)]
        assert gaps == pytest.approx([gaps[0]] * len(gaps), abs=0.02)
        assert 0 < places[0] < places[-1] < WIDTH


@pytest.mark.parametrize("bounds", [("0", "0.001"), ("-1e12", "1e12")])
def test_sums_of_any_size_have_a_ruler(plan_of, bounds):
    low, high = bounds
    plan = plan_of(queries=f"[{{name: total, kind: sum, column: x, lower: {low}, upper: {high}}}]")
    (ruler,) = rulers(release_facts(plan))
    assert all(band.width > 0 for band in ruler.rows[0].bands)
