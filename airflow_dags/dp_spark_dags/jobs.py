"""How a job gets to Spark: a `Submit` makes the task of a `Job`, with whichever operator a site has."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator


@dataclass(frozen=True, slots=True)
class Job:
    """One task: a script of `jobs/` and its arguments, which are Jinja templates and hold no secret."""

    task_id: str
    script: str
    arguments: tuple[str, ...]


Submit = Callable[[Job], Any]


def spark_submit(
    job: Job,
    *,
    conn_id: str = "spark_default",
    jobs: str | None = None,
    python: str | None = None,
    conf: Mapping[str, str] | None = None,
    **operator: Any,
) -> SparkSubmitOperator:
    """A task that runs a job by spark-submit.

    Args:
        job: what to run.
        conn_id: Airflow's connection to Spark.
        jobs: directory of the scripts; else DP_SPARK_JOBS, else `jobs` beside the DAG folder.
        python: of the environment that has dp_spark; else DP_SPARK_PYTHON, else what Spark has.
        conf: settings of Spark.
        operator: whatever else SparkSubmitOperator takes.
    """
    scripts = jobs or os.environ.get("DP_SPARK_JOBS") or str(Path(__file__).parents[2] / "jobs")
    interpreter = python or os.environ.get("DP_SPARK_PYTHON")
    pythons = ("spark.pyspark.python", "spark.pyspark.driver.python") if interpreter else ()
    return SparkSubmitOperator(
        task_id=job.task_id,
        conn_id=conn_id,
        application=f"{scripts}/{job.script}",
        application_args=list(job.arguments),
        name=f"dp_spark {job.task_id}",
        # All that spark-submit prints goes to the task's log.
        conf={"spark.log.level": "WARN", **dict.fromkeys(pythons, interpreter), **(conf or {})},
        do_xcom_push=False,
        **operator,
    )
