"""Inputs that are tables or views of Spark's catalog."""

from pyspark.sql import DataFrame, SparkSession

from dp_spark.frames.names import quoted_table
from dp_spark.frames.source_refusals import condition_of, not_readable
from dp_spark.release.spec import InputSpec


def open_table(spark: SparkSession, source: InputSpec) -> DataFrame:
    """The table or view as a lazy frame; no row is read.

    Raises:
        InputRefused: the catalog has none of this name.
    """
    assert source.table is not None  # the format has one
    try:
        frame = spark.table(quoted_table(source.table))
        _ = frame.columns  # Connect looks at a name only when it is asked for columns
    except Exception as failure:  # noqa: BLE001  # a view's text may quote a row
        way_out = "check input.table: a table or view that the session's catalog has"
        raise not_readable(source, condition_of(failure), way_out) from None
    return frame
