"""What docs/surveys.md shows is a spec, and its commands are commands."""

import re
from pathlib import Path

from dp_spark.cli.main import survey_app
from dp_spark.release.spec import SurveySpec, parse_survey

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "surveys.md").read_text()


def test_the_spec_of_the_docs_has_every_key_and_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert parse_survey(text).model_fields_set == SurveySpec.model_fields.keys()


def test_every_key_stands_in_the_table() -> None:
    table = TEXT[TEXT.index("| key |") : TEXT.index("## The life of a wave")]
    for key in SurveySpec.model_fields:
        assert re.search(rf"^\|[^|]*`{key}[`.]", table, re.MULTILINE), key


def test_every_survey_command_of_the_docs_and_the_readme_exists() -> None:
    named = {each.name for each in (*survey_app.registered_commands, *survey_app.registered_groups)}
    shown = {
        name
        for text in (TEXT, (ROOT / "README.md").read_text())
        for name in re.findall(r"dp-spark survey ([a-z-]+)", text)
    }
    assert shown == named
