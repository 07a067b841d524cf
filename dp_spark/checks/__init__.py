"""Gates on a staged artefact; Great Expectations is imported by the first check, not with this package."""

from dp_spark.checks.gate import check_artefact

__all__ = ["check_artefact"]
