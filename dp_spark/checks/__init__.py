"""Gates on a staged artefact; Great Expectations is imported by the first check, not with this package."""

from dp_spark.checks.findings import Comparison, Earlier, Finding, Past, compare, not_compared
from dp_spark.checks.gate import check_artefact
from dp_spark.checks.history import HistoryCheck
from dp_spark.checks.lazily import checks_page
from dp_spark.checks.survey import check_wave
from dp_spark.checks.verdict import Outcome, Verdict

__all__ = [
    "Comparison",
    "Earlier",
    "Finding",
    "HistoryCheck",
    "Outcome",
    "Past",
    "Verdict",
    "check_artefact",
    "check_wave",
    "checks_page",
    "compare",
    "not_compared",
]
