"""Run by Airflow's Python: prints, as JSON, what the DAGs of a folder are, and the keys that runs have."""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pendulum
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.providers.apache.spark.operators import spark_submit  # noqa: F401  # Airflow's own time
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction

FOLDER = Path(sys.argv[1])


def task_facts(task: Any) -> dict[str, Any]:
    timeout = task.execution_timeout
    return {
        "id": task.task_id,
        "owner": task.owner,
        "retries": task.retries,
        "timeout": None if timeout is None else timeout.total_seconds(),
        "tells": bool(task.on_failure_callback),
        "xcom": task.do_xcom_push and task.task_type != "_PythonDecoratedOperator",
        "after": sorted(task.upstream_task_ids),
        "outlets": [outlet.name for outlet in task.outlets],
        "templates": [str(getattr(task, name, "")) for name in task.template_fields],
    }


def dag_facts(dag: Any) -> dict[str, Any]:
    json.dumps(DagSerialization.to_dict(dag))  # what the DAG processor does with it
    return {
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "timeout": None if dag.dagrun_timeout is None else dag.dagrun_timeout.total_seconds(),
        "timetable": type(dag.timetable).__name__,
        "tasks": [task_facts(task) for task in dag.tasks],
    }


def keys_of_a_year(dag: Any) -> list[str]:
    """Keys of the scheduled runs from 1 January 2025, by the scheduler's own timetable."""
    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    start, keys, last = pendulum.datetime(2025, 1, 1, 12), [], None
    while len(keys) < 366:
        last = timetable.next_dagrun_info_v2(
            last_dagrun_info=last, restriction=TimeRestriction(start, None, catchup=True)
        )
        keys.append(last.partition_key)
    return keys


def key(every: str | None, typed: str | None = None, **run: Any) -> str:
    from dp_spark_dags.keys import key_of_run

    told = {"partition_key": None, "run_type": "manual", "data_interval_end": None, **run}
    try:
        return key_of_run(SimpleNamespace(**told), {"key": typed}, every, "America/New_York")
    except AirflowFailException as refusal:
        return f"refused: {refusal}"


def keys() -> dict[str, str]:
    tonight = datetime(2025, 3, 5, 3, 30, tzinfo=UTC)  # still the 4th in New York
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
    return {
        "typed": key("day", "2025-03-04"),
        "partition": key("day", partition_key="2025-03-04", run_type="scheduled"),
        "interval": key("day", data_interval_end=tonight, run_type="scheduled"),
        "week": key("week", data_interval_end=tonight, run_type="scheduled"),
        "month": key("month", data_interval_end=tonight, run_type="scheduled"),
        "whole": key(None, data_interval_end=tonight, run_type="scheduled"),
        "tuesdays": key("week", partition_key="2025-03-04", run_type="scheduled"),
        "tuesday typed": key("week", "2025-03-04"),
        "nothing": key("day", data_interval_end=tonight),
        "two": key("day", "2025-03-04", partition_key="2025-03-05"),
        "no date": key("day", "2025-02-30"),
        "code": key("day", "2025-02-01; rm"),
        "future": key("day", tomorrow),
        "whole future": key(None, tomorrow),
    }


def wrong_files(folder: Path) -> dict[str, str]:
    from dp_spark_dags import release_dag, release_dags, survey_dags

    (folder / "copy.yaml").write_text((FOLDER.parent / "examples/flights_by_origin.yaml").read_text())
    good = folder / "copy.yaml"
    survey = FOLDER.parent / "examples/work_status.yaml"
    texts = {
        "a list": "- 1\n",
        "code": "release: !!python/object/apply:os.getcwd []\nbudget: {population: c}\n",
        "a zone": "release: a\nperiod: {every: day, timezone: Nowhere}\nbudget: {population: c}\n",
        "a name": "release: a/b\nbudget: {population: c}\n",
    }
    (folder / "twins").mkdir()
    for name in ("one.yaml", "two.yml"):
        (folder / "twins" / name).write_text(good.read_text())
    specs = {
        **{name: partial(release_dag, _written(folder, name, text)) for name, text in texts.items()},
        "a survey": lambda: release_dag(survey),
        "a release": lambda: survey_dags(good, wave="2024q1"),
        "a wave": lambda: survey_dags(survey, wave="{{ ds }}"),
        "no start": lambda: release_dag(good, catchup=True),
        "a skipped hour": lambda: release_dag(good, schedule="30 2 * * *"),
        "every hour": lambda: release_dag(good, schedule="0 * * * *"),
        "twins": lambda: release_dags(folder / "twins"),
    }
    return {name: _refusal(make) for name, make in specs.items()}


def _written(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.yaml").write_text(text)
    return folder / f"{name}.yaml"


def _refusal(make: Any) -> str:
    try:
        make()
    except ValueError as refusal:
        return str(refusal)
    return "accepted"


def failure(folder: Path) -> str:
    from dp_spark_dags.failures import callback
    from dp_spark_dags.results import result_path

    told: list[str] = []
    tell = callback(lambda failed: told.append(str(failed)), str(folder))
    task = Mock(dag_id="flights", run_id="../x:1", task_id="privatize")
    tell({"ti": task})
    place = Path(result_path(str(folder), task.dag_id, task.run_id, task.task_id))
    assert place.is_relative_to(folder)
    assert ".." not in place.parts
    place.parent.mkdir(parents=True)
    refused = {"error": "budget_exhausted", "message": "no", "way_out": "wait", "release": "p/flights/1/0"}
    place.write_text(json.dumps({**refused, "state": None, "left": {"epsilon": "1/4", "delta": "0"}}))
    tell({"ti": task})
    return "\n".join(told)


def main() -> None:
    scratch = Path(sys.argv[2])
    start = time.process_time()
    bag = BundleDagBag(dag_folder=str(FOLDER), bundle_path=FOLDER, bundle_name="dags-folder")
    seconds = time.process_time() - start
    loaded = sorted({"pyspark", "dp_spark", "great_expectations", "pandas"} & set(sys.modules))
    print(
        json.dumps(
            {
                "errors": bag.import_errors,
                "seconds": seconds,
                "loaded": loaded,
                "dags": {name: dag_facts(dag) for name, dag in bag.dags.items()},
                "year": keys_of_a_year(bag.dags["flights_by_origin"]),
                "keys": keys(),
                "wrong": wrong_files(scratch),
                "failure": failure(scratch / "results"),
            }
        )
    )


main()
