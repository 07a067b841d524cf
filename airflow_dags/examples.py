"""DAGs for Airflow of the examples, a line for each; a file of your own looks like this one."""

from pathlib import Path

from dp_spark_dags import release_dag, survey_dags

SPECS = Path(__file__).parents[1] / "examples"

flights_by_origin = release_dag(SPECS / "flights_by_origin.yaml")
flights_by_origin_carrier = release_dag(SPECS / "flights_by_origin_carrier.yaml", schedule="0 5 * * 2")
delays_by_origin = release_dag(SPECS / "delays_by_origin.yaml", default_args={"owner": "statistics"})
work_status_randomize, work_status_estimate = survey_dags(SPECS / "work_status.yaml", wave="2024q1")
