"""The same facts about a release three ways: on the console, as a page, as a statement on disk."""

from dp_spark.report.facts import Amount, Budget, ReleaseFacts, SealedRelease, release_facts
from dp_spark.report.page import facts_html
from dp_spark.report.statement import StatementPaths, file_digest, sealed_release, write_statement
from dp_spark.report.text import print_facts

__all__ = [
    "Amount",
    "Budget",
    "ReleaseFacts",
    "SealedRelease",
    "StatementPaths",
    "facts_html",
    "file_digest",
    "print_facts",
    "release_facts",
    "sealed_release",
    "write_statement",
]
