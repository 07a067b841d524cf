"""Accounts of surveys: limits, charges, refusals, history."""

from fractions import Fraction

import pytest
from ledger_support import POPULATION, TAILNUM, brought_to, fund, reserve
from survey_support import (
    COUNTS,
    ESTIMATES,
    PEOPLE,
    PERSON,
    SURVEY,
    WHY,
    asked_for,
    batch_of,
    limit_survey,
    opened,
    wave_brought_to,
    wave_of,
)

from dp_spark.errors import BudgetRefused, LedgerRefused, Refusal, SpecRefused
from dp_spark.guarantee import Every, PrivacyUnit
from dp_spark.release.ledger import Decision, ReleaseState, WaveState


@pytest.fixture
def surveys(empty_ledger):
    limit_survey(empty_ledger)
    return empty_ledger


def refusal(action, *args, **kwargs):
    with pytest.raises(Refusal) as refused:
        action(*args, **kwargs)
    return refused.value


def test_an_account_needs_no_account_of_releases(surveys):
    account = surveys.survey_account(PEOPLE, SURVEY)
    assert (account.unit, account.limit, account.spent, account.waves) == (PERSON, 2, 0, ())
    assert surveys.populations() == []


def test_an_account_of_releases_is_another_and_may_count_another_unit(surveys):
    fund(surveys, 1, "1e-6", population=PEOPLE)
    opened(surveys)
    assert surveys.budget(PEOPLE).spent.epsilon == 0
    assert surveys.budget(PEOPLE).unit == TAILNUM != surveys.survey_account(PEOPLE, SURVEY).unit


def test_waves_add_up_exactly_to_the_limit_and_no_further(surveys):
    for wave in range(10):
        opened(surveys, f"w{wave}", epsilon=Fraction("0.2"))
    refused = refusal(opened, surveys, "w10", epsilon=Fraction(1, 10**9))
    assert (refused.code, type(refused)) == ("budget_exhausted", BudgetRefused)
    assert "nothing fits" in refused.way_out
    assert surveys.survey_account(PEOPLE, SURVEY).spent == 2
    assert "to 2.000000001 or more" in refused.way_out
    limit_survey(surveys, "3")
    assert "at most epsilon = 1" in refusal(opened, surveys, "w10", epsilon=Fraction(2)).way_out
    opened(surveys, "w10")


def test_a_wave_is_charged_once_for_one_spec(surveys):
    first, again = opened(surveys), opened(surveys)
    assert (first.opened_now, again.opened_now) == (True, False)
    assert (first.state, first.epsilon, first.plan_bytes) == (WaveState.OPEN, 1, b"plan-1")
    assert surveys.wave(wave_of()) == again
    assert surveys.survey_account(PEOPLE, SURVEY).spent == 1
    assert refusal(opened, surveys, spec_digest="spec-2").code == "other_spec"
    assert refusal(opened, surveys, domain_digest="domain-2").code == "other_domain"


def test_surveys_of_one_population_have_each_its_own(surveys):
    limit_survey(surveys, "0.5", survey="income")
    opened(surveys, survey="income", epsilon=Fraction("0.5"))
    opened(surveys)
    spent = {account.survey: account.spent for account in surveys.survey_accounts()}
    assert spent == {"income": Fraction("0.5"), SURVEY: 1}


def test_another_domain_than_the_wave_before_is_opened_with_a_reason_only(surveys):
    opened(surveys, "w1")
    assert refusal(opened, surveys, "w2", domain_digest="domain-2").code == "domain_changed"
    assert refusal(opened, surveys, "w2", changed="none").code == "domain_unchanged"
    assert refusal(opened, surveys, "w2", domain_digest="domain-2", changed=" ").code == "reason_missing"
    for _ in range(2):
        opened(surveys, "w2", domain_digest="domain-2", changed="a new law")
    assert surveys.survey_account(PEOPLE, SURVEY).spent == 2


def test_a_first_wave_has_nothing_to_differ_from(surveys):
    assert "there is no wave before it" in refusal(opened, surveys, changed="a new law").message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"unit": PrivacyUnit(("household",))}, "other_unit"),
        ({"epsilon": Fraction(0)}, "bad_epsilon"),
        ({"epsilon": Fraction(3)}, "budget_exhausted"),
        ({"reason": " "}, "reason_missing"),
        ({"survey": "work_statu"}, "unknown_survey"),
        ({"population": "us_person"}, "unknown_population"),
    ],
    ids=str,
)
def test_what_is_refused_at_the_opening_is_refused_before_and_leaves_nothing(surveys, change, code):
    head = surveys.head()
    assert refusal(surveys.require_wave_admitted, asked_for(**change)).code == code
    assert refusal(opened, surveys, **change).code == code
    assert surveys.survey_account(PEOPLE, SURVEY).waves == ()
    assert surveys.head() == head


def test_to_ask_whether_a_wave_is_admitted_writes_nothing(surveys):
    head = surveys.head()
    surveys.require_wave_admitted(asked_for())
    assert (surveys.head(), surveys.wave(wave_of())) == (head, None)


def test_an_unknown_name_is_refused_with_the_nearest(surveys):
    assert repr(SURVEY) in refusal(surveys.survey_account, PEOPLE, "work_statu").message
    assert repr(PEOPLE) in refusal(surveys.survey_account, "us_person", SURVEY).message
    assert refusal(surveys.survey_account, "a\0b", SURVEY).code == "unknown_population"
    opened(surveys)
    assert str(wave_of()) in refusal(surveys.begin_batch, wave_of("2024q2")).message
    for asked in (surveys.wave_key, surveys.report_key, surveys.begin_batch):
        assert refusal(asked, wave_of("2024q2")).code == "unknown_wave"


def test_a_limit_is_never_under_what_was_spent(surveys):
    opened(surveys)
    refused = refusal(limit_survey, surveys, "0.9")
    assert (refused.code, type(refused)) == ("limit_below_spent", BudgetRefused)
    limit_survey(surveys, "1")
    assert surveys.survey_account(PEOPLE, SURVEY).limit == 1


@pytest.mark.parametrize(
    ("change", "code", "kind"),
    [
        ({"reason": ""}, "reason_missing", BudgetRefused),
        ({"limit": "0"}, "bad_limit", BudgetRefused),
        ({"unit": PrivacyUnit(())}, "survey_unit", LedgerRefused),
        ({"unit": PrivacyUnit(("person",), Every.DAY)}, "survey_unit", LedgerRefused),
        ({"unit": PrivacyUnit(("household",))}, "other_unit", LedgerRefused),
        ({"survey": "a/b"}, "bad_name", SpecRefused),
        ({"population": ".."}, "bad_name", SpecRefused),
    ],
    ids=str,
)
def test_a_limit_that_cannot_be_set_changes_nothing(surveys, change, code, kind):
    refused = refusal(limit_survey, surveys, **change)
    assert (refused.code, type(refused)) == (code, kind)
    assert [account.limit for account in surveys.survey_accounts()] == [2]


def test_the_history_of_a_population_lists_its_surveys(surveys):
    wave_id = wave_brought_to(surveys, WaveState.HELD)
    surveys.clear_wave(wave_id, "the gate was wrong")
    told = [(each.what, each.about, each.epsilon, each.reason) for each in surveys.history(PEOPLE)]
    name = str(wave_id)
    assert told == [
        ("survey limit", SURVEY, 2, WHY),
        ("wave open", name, 1, WHY),
        ("attempt 1 begun", name, None, ""),
        ("batch", f"{name} 1", None, ""),
        ("attempt 2 begun", name, None, ""),
        ("batch", f"{name} 2", None, ""),
        ("wave closed", name, None, ""),
        ("wave held", name, None, "history"),
        ("decision: publish", name, None, "the gate was wrong"),
    ]
    assert surveys.history(PEOPLE)[1].paid == f"survey of {SURVEY}"


def test_the_history_has_releases_and_surveys_together(surveys):
    fund(surveys, 1, population=PEOPLE)
    opened(surveys, "w1")
    opened(surveys, "w2", domain_digest="domain-2", changed="a new law")
    told = [(each.what, each.reason) for each in surveys.history(PEOPLE)]
    assert ("limit", WHY) in told
    assert told[-1] == ("wave open", f"{WHY}; categories changed: a new law")
    assert refusal(surveys.history, "nobody").code == "unknown_population"


def test_a_population_that_has_stopped_is_asked_no_more(surveys):
    """It closes, for that publishes nothing and destroys a key."""
    fund(surveys, 1, "1e-6")
    limit_survey(surveys, population=POPULATION)
    waves = [opened(surveys, f"w{each}", population=POPULATION).wave_id for each in range(2)]
    claim = surveys.begin_batch(waves[0])
    release = brought_to(surveys, ReleaseState.READING).release_id
    surveys.decide(release, Decision.BURN, "its key has leaked")
    for action in (
        lambda: opened(surveys, "w2", population=POPULATION),
        lambda: surveys.begin_batch(waves[0]),
        lambda: surveys.commit_batch(claim, batch_of(claim)),
        lambda: surveys.wave_key(waves[0]),
        lambda: reserve(surveys, "2013-01-09"),
    ):
        assert isinstance(refusal(action), BudgetRefused)
    assert surveys.close_wave(waves[0], 0, COUNTS) == COUNTS
    for action in (
        lambda: surveys.stage_estimates(waves[0], ESTIMATES),
        lambda: surveys.record_wave_publication(waves[0], "s", "out", COUNTS.digest),
        lambda: surveys.publish_wave(waves[0], ["s"]),
    ):
        assert isinstance(refusal(action), BudgetRefused)
    opened(surveys)  # of another population
