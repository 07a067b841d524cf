"""DAGs of private releases and surveys for Airflow 3: schedule, order and retries, and nothing else.

Parsing them needs Airflow alone: the jobs run in another environment, where dp_spark and Spark are. What must
hold whatever a scheduler does (one charge a period, one artefact) holds in the ledger, not here.
"""

from dp_spark_dags.failures import Failure
from dp_spark_dags.jobs import Job, Submit, spark_submit
from dp_spark_dags.releases import release_asset, release_dag, release_dags, release_tasks
from dp_spark_dags.surveys import survey_dags

__all__ = [
    "Failure",
    "Job",
    "Submit",
    "release_asset",
    "release_dag",
    "release_dags",
    "release_tasks",
    "spark_submit",
    "survey_dags",
]
