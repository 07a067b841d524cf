"""What docs/surveys.md shows is a spec, and its commands are commands."""

import re
from pathlib import Path

from dp_spark.cli.main import survey_app
from dp_spark.release.spec import SurveySpec, load_survey, parse_survey
from dp_spark.release.survey import plan_survey
from dp_spark.report import given_away, survey_facts

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "surveys.md").read_text()


def test_the_spec_of_the_docs_has_every_key_and_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert parse_survey(text).model_fields_set == SurveySpec.model_fields.keys()


def test_every_key_stands_in_the_table() -> None:
    table = TEXT[TEXT.index("| key |") : TEXT.index("## The life of a wave")]
    for key in SurveySpec.model_fields:
        assert re.search(rf"^\|[^|]*`{key}[`.]", table, re.MULTILINE), key


def test_the_readme_has_the_demos_own_numbers() -> None:
    spec = load_survey(ROOT / "examples" / "work_status.yaml")
    told = given_away(survey_facts(plan_survey(spec)))
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"at its epsilon, {spec.epsilon}, {told}." in readme


def test_every_survey_command_of_the_docs_and_the_readme_exists() -> None:
    named = {each.name for each in (*survey_app.registered_commands, *survey_app.registered_groups)}
    shown = {
        name
        for text in (TEXT, (ROOT / "README.md").read_text())
        for name in re.findall(r"dp-spark survey ([a-z-]+)", text)
    }
    assert shown == named
