"""PipelineDP, on Spark or, with the word `local` behind the table, in plain Python."""

import operator
import sys
from importlib.metadata import version
from typing import Any

import pipeline_dp as pdp
from peer import (
    DELTA,
    EPSILON,
    LOWER,
    MAX_GROUPS,
    MAX_ROWS_PER_GROUP,
    PLACES,
    UPPER,
    Answers,
    plain_on_spark,
    report,
    spark_session,
    table_path,
)


def aggregated(rows: Any, backend: Any) -> Any:
    """The noisy answers of every place, as PipelineDP's lazy collection."""
    budget = pdp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    params = pdp.AggregateParams(
        metrics=[pdp.Metrics.COUNT, pdp.Metrics.SUM, pdp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pdp.NoiseKind.LAPLACE,
        max_partitions_contributed=MAX_GROUPS,
        max_contributions_per_partition=MAX_ROWS_PER_GROUP,
        min_value=LOWER,
        max_value=UPPER,
    )
    columns = pdp.DataExtractors(
        privacy_id_extractor=operator.itemgetter(0),
        partition_extractor=operator.itemgetter(1),
        value_extractor=operator.itemgetter(2),
    )
    answers = pdp.DPEngine(budget, backend).aggregate(rows, params, columns, public_partitions=PLACES)
    budget.compute_budgets()
    return answers


def summed(answers: list[Any]) -> Answers:
    """Sums over all places."""
    metrics = [metrics for _, metrics in answers]
    sums = (sum(getattr(each, what) for each in metrics) for what in ("count", "sum", "privacy_id_count"))
    return Answers(len(metrics), *sums)


def on_spark() -> None:
    """Measure with Spark."""
    spark = spark_session()
    frame = spark.read.parquet(table_path()).select("person", "place", "euros")

    def release() -> Answers:
        backend = pdp.SparkRDDBackend(spark.sparkContext)
        return summed(aggregated(frame.rdd.map(tuple), backend).collect())

    engine = f"Spark {spark.version}"
    report(release, plain_on_spark(frame), version=version("pipeline-dp"), engine=engine)
    spark.stop()


def locally() -> None:
    """Measure in plain Python, which reads the table too."""
    import pyarrow.parquet  # noqa: PLC0415

    def release() -> Answers:
        table = pyarrow.parquet.read_table(table_path())
        columns = (table[name].to_pylist() for name in ("person", "place", "euros"))
        return summed(list(aggregated(list(zip(*columns, strict=True)), pdp.LocalBackend())))

    report(release, None, version=version("pipeline-dp"), engine="Python")


if __name__ == "__main__":
    locally() if "local" in sys.argv[2:] else on_spark()
