"""Airflow's own environment, `.venv-airflow` of `make airflow`, and what a process of it is told."""

import json
import os
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
AIRFLOW = ROOT / ".venv-airflow/bin"
needs_airflow = pytest.mark.skipif(
    not (AIRFLOW / "airflow").exists() and "DP_SPARK_REQUIRE_AIRFLOW" not in os.environ,
    reason="`make airflow` has not been run: Airflow has an environment of its own",
)


def environment(home: Path, dags: Path, port: int) -> dict[str, str]:
    """Variables of Airflow's processes: loopback, a home that is thrown away, Spark of this environment."""
    spark, here = Path(pyspark.__file__).parent, f"http://127.0.0.1:{port}"
    lineage = {"type": "file", "log_file_path": str(home / "lineage.jsonl"), "append": True}
    policy = [{"scope": {}, "controls": {"include_source_code": False}}]
    connection = {
        "conn_type": "spark",
        "host": "local[2]",
        "extra": {"deploy-mode": "client", "spark-binary": "spark-submit"},
    }
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{here}/execution/",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage),
        "AIRFLOW__OPENLINEAGE__EMISSION_POLICY": json.dumps(policy),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": here,
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DP_SPARK_PYTHON": sys.executable,
        "DP_SPARK_JOBS": str(ROOT / "jobs"),
        "DP_SPARK_RESULTS": str(home / "results"),
        "PYTHONPATH": str(ROOT / "airflow_dags"),
        "PATH": f"{AIRFLOW}:{spark / 'bin'}:{os.environ['PATH']}",
    }
