"""Gates on a staged artefact; Great Expectations is imported by the first check, not with this package."""

from dp_spark.checks.findings import Earlier, Finding, Past, compare, not_compared
from dp_spark.checks.gate import check_artefact
from dp_spark.checks.history import HistoryCheck
from dp_spark.checks.survey import check_wave

__all__ = [
    "Earlier",
    "Finding",
    "HistoryCheck",
    "Past",
    "check_artefact",
    "check_wave",
    "compare",
    "not_compared",
]
