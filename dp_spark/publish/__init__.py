"""The staged artefact of a release, and the sinks that copy it to its readers."""

from dp_spark.publish.artefact import (
    arrow_schema,
    artefact_digest,
    delete_artefact,
    read_artefact,
    write_artefact,
)
from dp_spark.publish.contract import contract_path, release_contract, survey_contract, write_contract
from dp_spark.publish.editions import edition_of, schema_for
from dp_spark.publish.parquet import ParquetSink, local_root
from dp_spark.publish.places import local_path, require_apart
from dp_spark.publish.released import released_table, with_released_groups
from dp_spark.publish.reports import count_reports, delete_batch, seal_batch, verify_batch
from dp_spark.publish.sink import Edition, Part, Sink
from dp_spark.publish.sinks import Reach, open_sink, restored

__all__ = [
    "Edition",
    "ParquetSink",
    "Part",
    "Reach",
    "Sink",
    "arrow_schema",
    "artefact_digest",
    "contract_path",
    "count_reports",
    "delete_artefact",
    "delete_batch",
    "edition_of",
    "local_path",
    "local_root",
    "open_sink",
    "read_artefact",
    "release_contract",
    "released_table",
    "require_apart",
    "restored",
    "schema_for",
    "seal_batch",
    "survey_contract",
    "verify_batch",
    "with_released_groups",
    "write_artefact",
    "write_contract",
]
