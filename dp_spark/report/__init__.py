"""The same facts about a release three ways: on the console, as a page, as a statement on disk."""

from dp_spark.report.facts import Amount, ReleaseFacts, SealedRelease, release_facts
from dp_spark.report.outcome import RunResult, result_json, result_text
from dp_spark.report.page import facts_html
from dp_spark.report.statement import StatementPaths, file_digest, sealed_release, write_statement
from dp_spark.report.text import facts_text, print_facts

__all__ = [
    "Amount",
    "ReleaseFacts",
    "RunResult",
    "SealedRelease",
    "StatementPaths",
    "facts_html",
    "facts_text",
    "file_digest",
    "print_facts",
    "release_facts",
    "result_json",
    "result_text",
    "sealed_release",
    "write_statement",
]
