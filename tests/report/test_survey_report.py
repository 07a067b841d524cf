"""Plan and statement of a survey: its own numbers, the same on console and page, and what a wave became."""

import json
import math
from datetime import UTC, datetime
from fractions import Fraction
from html.parser import HTMLParser

import pytest

from dp_spark.errors import LedgerRefused
from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.ledger import StoredFile
from dp_spark.release.ledger.waves import Batch, SurveyAccount, WaveId, WaveRecord, WaveState
from dp_spark.release.spec import SurveySpec
from dp_spark.release.survey import plan_survey
from dp_spark.report import (
    survey_facts,
    survey_html,
    survey_plan_page,
    survey_text,
    write_survey_statement,
)
from dp_spark.report.survey_facts import expected_error
from dp_spark.report.survey_picture import error_picture
from dp_spark.uldp import exposure, limit, mixture_mse

UNIT = PrivacyUnit(("person",))
SEALED_AT = datetime(2024, 4, 1, 12, tzinfo=UTC)


def planned(**changed):
    base = {
        "survey": "work_status",
        "input": {"format": "parquet", "path": "data/answers"},
        "unit": {"column": "person", "on_null": "drop"},
        "answer": "work",
        "domain": {"categories": {"at school": False, "ill": True, "<b>": True, "retired": False}},
        "epsilon": 1,
        "group_by": ["state"],
        "groups": {"public": ["CA", "NY", "<i>"]},
        "budget": {"population": "us_persons"},
        "publish": [{"sink": "parquet", "path": "out/work"}],
    }
    chosen = {key: each for key, each in (base | changed).items() if each is not None}
    return plan_survey(SurveySpec(**chosen))


def wave(name="2024q1", **changed):
    values = {
        "wave_id": WaveId("us_persons", "work_status", name),
        "state": WaveState.PUBLISHED,
        "unit": UNIT,
        "epsilon": Fraction(1),
        "domain_digest": "d",
        "spec_digest": "s",
        "plan_bytes": b"",
        "opened_now": False,
        "batches": (Batch(1, "b1", "x", 700), Batch(2, "b2", "y", 350)),
        "counts": StoredFile("counts", "c0" * 32),
        "estimates": StoredFile("estimates", "e5" * 32),
        "statement": None,
        "publications": {"parquet:out/work": "/srv/out/work"},
        "opened_at": "2024-01-01T00:00:00+00:00",
        "closed_at": "2024-03-31T00:00:00+00:00",
    }
    return WaveRecord(**values | changed)


def account(limit_, *waves):
    return SurveyAccount("us_persons", "work_status", UNIT, Fraction(limit_), waves)


def written(tmp_path, record=None, **changed):
    plan, record = planned(**changed), record or wave()
    return write_survey_statement(
        plan,
        record,
        account(5, record),
        reports={("CA",): 1000, ("NY",): 50},
        small={("NY",)},
        sealed_at=SEALED_AT,
        directory=tmp_path,
    )


class Words(HTMLParser):
    """The text of a page, without its style sheet."""

    def __init__(self, page):
        super().__init__()
        self.found, self.inside = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside = tag

    def handle_data(self, data):
        if self.inside != "style":
            self.found += data.split()

    @property
    def text(self):
        return " ".join(self.found)


def on_console(facts):
    """The same words without the layout."""
    return " ".join(survey_text(facts, width=10_000).split())


def test_the_numbers_are_those_of_this_survey():
    plan = planned()
    facts = survey_facts(plan, account(5))
    of = exposure(plan.mechanism)
    for shown in (on_console(facts), Words(survey_html(facts)).text):
        assert f"in clear with probability {100 * of.answers_in_clear:.4g} %" in shown
        assert f"{of.odds:.4g} times" in shown
        assert f"a forged block as {of.influence_block:.4g} honest reports" in shown
        assert f"in clear as {of.influence_answer:.4g}" in shown
        assert "state stands beside the report as it is" in shown
        assert "In 10 waves that is 10, and 10 protected reports" in shown
        assert f"M = {limit(5, 3, 1).mse / plan.efficiency:.4g} being n x MSE" in shown
        assert "(other), <b>, ill" in shown
        assert plan.domain.digest in shown


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "Whoever's state is NULL or not among the listed groups gets no report and counts nowhere"),
        ({}, "a row whose person is NULL is nobody's"),
        ({"group_by": None, "groups": None}, "A row whose person is NULL is nobody's and is left out."),
        ({"unit": {"columns": ["person", "house"], "on_null": "drop"}}, "whose house or person is NULL"),
    ],
    ids=str,
)
def test_plan_and_statement_say_who_is_left_out(tmp_path, changed, told):
    assert told in on_console(survey_facts(planned(**changed)))
    assert told in survey_facts(planned(**changed)).as_json()["left_out"]
    assert told in Words(written(tmp_path, **changed).html.read_text("utf-8")).text


def test_console_and_page_say_the_same_of_promise_and_exposure():
    facts = survey_facts(planned(), account(5))
    told, page = on_console(facts), Words(survey_html(facts)).text
    start, end = "Whatever somebody answers", "is closed."
    part = [text[text.index(start) : text.rindex(end)] for text in (told.replace(" - ", " "), page)]
    assert part[0] == part[1]


def test_nothing_of_a_name_is_markup():
    page = survey_plan_page(planned(), account(5))
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "http" not in page


def test_the_error_is_the_root_mean_square_of_the_standard_errors_of_the_shares():
    # Randomized response with everything sensitive: each share has the variance p(1-p) of its reports.
    epsilon, w, n = 1.0, 4, 10_000
    own, other = math.exp(epsilon) / (math.exp(epsilon) + w - 1), 1 / (math.exp(epsilon) + w - 1)
    frequency = (own + (w - 1) * other) / w
    std = math.sqrt(frequency * (1 - frequency) / n) / (own - other)
    mse = mixture_mse(w, w, epsilon, alpha=1, block_weights={1: 1.0})
    assert expected_error(mse, w, n).std == pytest.approx(std, rel=1e-12)
    assert expected_error(mse, w, n).half_width == pytest.approx(1.96 * std, rel=1e-12)


def test_a_hundred_times_the_people_have_a_tenth_of_the_error():
    small, _, large = survey_facts(planned()).errors
    assert (small.people, large.people) == (1_000, 100_000)
    assert small.std == pytest.approx(10 * large.std)


def test_without_a_ledger_nothing_is_said_of_the_account():
    facts = survey_facts(planned())
    assert facts.account is None
    assert "not known" in on_console(facts)


@pytest.mark.parametrize(
    ("limit_", "waves", "left", "fit", "told"),
    [
        (5, 0, 4, 5, "5 waves of this epsilon, this one included"),
        (5, 2, 2, 3, "3 waves of this epsilon, this one included"),
        (
            1,
            1,
            -1,
            0,
            "left epsilon 0: this wave does not fit, by epsilon 1 way out raise the limit to epsilon 2 or",
        ),
        (
            "3/2",
            1,
            Fraction(-1, 2),
            0,
            "way out ask for at most epsilon 0.5, or raise the limit to epsilon 2 or",
        ),
        ("3/2", 0, Fraction(1, 2), 1, "1 wave of this epsilon, this one included"),
    ],
)
def test_the_account_says_what_a_wave_leaves(limit_, waves, left, fit, told):
    of = account(limit_, *(wave(f"w{i}") for i in range(waves)))
    facts = survey_facts(planned(), of)
    assert (facts.account.left_after, facts.account.waves_that_fit) == (left, fit)
    assert told in on_console(facts)


def test_where_all_is_sensitive_nothing_is_in_clear():
    facts = survey_facts(planned(domain={"categories": {"ill": True}}, group_by=None, groups=None))
    told = on_console(facts)
    assert "no answer is ever reported in clear" in told
    assert "a forged answer" not in told
    assert "raise the odds" not in told
    assert "that somebody took part is not protected" in told


def test_a_console_of_80_columns_cuts_nothing():
    text = survey_text(survey_facts(planned(), account(5)), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert planned().domain.digest in "".join(text.split())


def test_the_bars_end_at_the_half_width_and_the_line_at_the_mean_share():
    facts = survey_facts(planned())
    found = error_picture(facts)
    ends = {float(tick.label.replace(",", "")): tick.x for tick in found.ticks}
    decade = ends[1.0] - ends[0.1]
    for bar, error in zip(found.bars, facts.errors, strict=True):
        assert bar.x + bar.width == pytest.approx(ends[1.0] + decade * math.log10(error.half_width), abs=0.05)
    assert found.mean.x == pytest.approx(ends[1.0] + decade * math.log10(1 / 5), abs=0.05)


def test_bars_stay_on_the_picture_where_errors_are_huge():
    found = error_picture(survey_facts(planned(epsilon="0.0001")))
    assert all(bar.x + bar.width <= found.ticks[-1].x for bar in found.bars)


def test_of_a_burned_survey_nothing_is_left():
    burned = account(5, wave(state=WaveState.BURNED))
    told = survey_facts(planned(), burned, charged=True).as_json()["account"]
    assert (told["left_after"]["exact"], told["waves_that_fit"]) == ("0", 0)


def test_a_statement_says_what_became_of_the_wave(tmp_path):
    paths = written(tmp_path)
    assert paths.json == tmp_path / "us_persons" / "work_status" / "waves" / "2024q1.json"
    page, facts = Words(paths.html.read_text("utf-8")).text, json.loads(paths.json.read_text("utf-8"))
    assert "Statement of us_persons/work_status/2024q1" in page
    assert "1,050, in 2 batches" in page
    assert "c0" * 32 in page
    assert "e5" * 32 in page
    assert "/srv/out/work" in page
    for moment in ("2024-01-01T00:00:00", "2024-03-31T00:00:00", "2024-04-01 12:00:00"):
        assert moment in page
    assert facts["sealed"]["groups"] == [
        {"group": ["<i>"], "reports": 0, "small": True},
        {"group": ["CA"], "reports": 1000, "small": False},
        {"group": ["NY"], "reports": 50, "small": True},
    ]
    assert "NY 50 small" in page
    assert facts["account"]["charged"] is True
    assert facts["account"]["left_after"]["exact"] == "4"
    assert facts["exposure"]["answers_in_clear"] == pytest.approx(
        exposure(planned().mechanism).answers_in_clear
    )


def test_the_same_wave_gives_the_same_bytes(tmp_path):
    first = [path.read_bytes() for path in each_path(written(tmp_path))]
    assert first == [path.read_bytes() for path in each_path(written(tmp_path))]


def each_path(paths):
    return paths.json, paths.html


def test_a_wave_that_is_not_estimated_has_no_statement(tmp_path):
    for lacks in ({"counts": None}, {"estimates": None}, {"closed_at": None, "state": WaveState.OPEN}):
        with pytest.raises(LedgerRefused, match="no counts and estimates to state"):
            written(tmp_path, wave(**lacks))
    assert not [*tmp_path.iterdir()]


def test_of_very_many_groups_the_page_has_the_first_and_the_json_all(tmp_path):
    keys = [f"g{i:03}" for i in range(300)]
    paths = written(tmp_path, groups={"public": keys})
    assert "The first 200 of 300" in Words(paths.html.read_text("utf-8")).text
    assert len(json.loads(paths.json.read_text("utf-8"))["sealed"]["groups"]) == 300
