"""Reports written to batches of a wave, and read from them."""

import re
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dp_spark.frames.names import quoted
from dp_spark.frames.survey import not_yet, randomized, report_schema
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, REPORT_COLUMN, TOKEN_COLUMN
from dp_spark.release.survey import SurveyPlan

# Tokens are all different: a dictionary of them costs time and saves nothing.
WRITING = {f"parquet.enable.dictionary#{TOKEN_COLUMN}": "false"}


def counted_reports(spark: SparkSession, path: str, plan: SurveyPlan) -> DataFrame:
    """The counts of a closed wave: columns of groups, report and number."""
    groups = "".join(f"{quoted(name)} string, " for name in plan.spec.group_columns)
    return spark.read.schema(f"{groups}{REPORT_COLUMN} long, {COUNT_COLUMN} long").parquet(_literal(path))


def stored_reports(spark: SparkSession, batches: Sequence[str], plan: SurveyPlan) -> DataFrame:
    """The reports of all batches, at least one, as a lazy frame."""
    return spark.read.schema(report_schema(plan)).parquet(*map(_literal, batches))


def write_reports(
    frame: DataFrame, *, plan: SurveyPlan, wave_key: bytes, batches: Sequence[str], path: Path
) -> None:
    """Write the reports of everybody who has none in `batches` as Parquet to `path`, a new directory."""
    reports = randomized(frame, plan=plan, wave_key=wave_key)
    if batches:
        reports = not_yet(reports, stored=stored_reports(frame.sparkSession, batches, plan))
    reports.write.mode("errorifexists").options(**WRITING).parquet(f"file:{path}")


def _literal(path: str) -> str:
    """The URL of a local path for a read, which takes it for a pattern: what means others is escaped."""
    return "file:" + re.sub(r"[\\\[\]{}*?]", r"\\\g<0>", path)
