"""The staged artefact of a release, and the sinks that copy it to its readers."""

from dp_spark.publish.artefact import arrow_schema, artefact_digest, read_artefact, write_artefact
from dp_spark.publish.parquet import local_root, publish_parquet, require_free
from dp_spark.publish.released import released_table, with_released_groups

__all__ = [
    "arrow_schema",
    "artefact_digest",
    "local_root",
    "publish_parquet",
    "read_artefact",
    "released_table",
    "require_free",
    "with_released_groups",
    "write_artefact",
]
