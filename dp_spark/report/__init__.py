"""The same facts about a release, or a survey, three ways: on the console, as a page, on disk."""

from dp_spark.report.evidence import (
    evidence_path,
    gate_facts,
    load_evidence,
    mark_decided,
    read_evidence,
    read_warnings,
    wave_evidence_path,
    write_evidence,
)
from dp_spark.report.facts import Amount, ReleaseFacts, SealedRelease, release_facts
from dp_spark.report.left_out import left_out
from dp_spark.report.outcome import RunResult, result_json, result_text
from dp_spark.report.page import facts_html
from dp_spark.report.statement import StatementPaths, file_digest, sealed_release, write_statement
from dp_spark.report.survey_facts import SurveyFacts, survey_facts
from dp_spark.report.survey_page import survey_html, survey_plan_page
from dp_spark.report.survey_statement import mark_burned, remove_survey_statement, write_survey_statement
from dp_spark.report.survey_text import print_survey, survey_text
from dp_spark.report.survey_words import given_away
from dp_spark.report.text import facts_text, print_facts

__all__ = [
    "Amount",
    "ReleaseFacts",
    "RunResult",
    "SealedRelease",
    "StatementPaths",
    "SurveyFacts",
    "evidence_path",
    "facts_html",
    "facts_text",
    "file_digest",
    "gate_facts",
    "given_away",
    "left_out",
    "load_evidence",
    "mark_burned",
    "mark_decided",
    "print_facts",
    "print_survey",
    "read_evidence",
    "read_warnings",
    "release_facts",
    "remove_survey_statement",
    "result_json",
    "result_text",
    "sealed_release",
    "survey_facts",
    "survey_html",
    "survey_plan_page",
    "survey_text",
    "wave_evidence_path",
    "write_evidence",
    "write_statement",
    "write_survey_statement",
]
