"""The staged artefact of a release, and the sinks that copy it to its readers."""

from dp_spark.publish.artefact import arrow_schema, artefact_digest, read_artefact, write_artefact
from dp_spark.publish.parquet import Part, local_root, publish_parquet, require_free
from dp_spark.publish.released import released_table, with_released_groups
from dp_spark.publish.reports import count_reports, delete_batch, seal_batch, verify_batch

__all__ = [
    "Part",
    "arrow_schema",
    "artefact_digest",
    "count_reports",
    "delete_batch",
    "local_root",
    "publish_parquet",
    "read_artefact",
    "released_table",
    "require_free",
    "seal_batch",
    "verify_batch",
    "with_released_groups",
    "write_artefact",
]
