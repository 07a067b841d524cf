"""The facts of a survey as one HTML page that needs nothing else: no script, font, or other file."""

from dp_spark.release.ledger.waves import SurveyAccount
from dp_spark.release.survey import SurveyPlan
from dp_spark.report import survey_words
from dp_spark.report.page import environment
from dp_spark.report.survey_facts import SurveyFacts, survey_facts
from dp_spark.report.survey_picture import error_picture

TEMPLATE = "survey.html.jinja"
_MOST_ROWS = 200  # of a table on the page


def survey_plan_page(plan: SurveyPlan, account: SurveyAccount | None = None) -> str:
    """The page of a plan; with the account, what a wave leaves of it."""
    return survey_html(survey_facts(plan, account))


def survey_html(facts: SurveyFacts) -> str:
    """The page; the same facts always give the same text. Every name in it is escaped."""
    return (
        environment()
        .get_template(TEMPLATE)
        .render(facts=facts, words=survey_words, errors=error_picture(facts), most_rows=_MOST_ROWS)
    )
