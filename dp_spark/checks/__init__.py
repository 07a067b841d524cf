"""Gates on a staged artefact; Great Expectations is imported by the first check, not with this package."""

from dp_spark.checks.gate import check_artefact
from dp_spark.checks.survey import check_wave

__all__ = ["check_artefact", "check_wave"]
