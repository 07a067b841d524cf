"""Run by Airflow's Python: prints, as JSON, what the DAGs of a folder are, and the keys that runs have."""

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.sdk import DAG, ExceptionRetryPolicy
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
        "policy": type(task.retry_policy).__name__,
        "xcom": task.do_xcom_push,
        "after": sorted(task.upstream_task_ids),
        "outlets": [outlet.name for outlet in task.outlets],
        "templates": [str(getattr(task, name, "")) for name in task.template_fields],
    }


def dag_facts(dag: Any) -> dict[str, Any]:
    json.dumps(DagSerialization.to_dict(dag))  # what the DAG processor does with it
    return {
        "max_active_runs": dag.max_active_runs,
        "tags": sorted(dag.tags),
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


def keys_of_a_backfill(dag: Any, first: str, last: str) -> list[str]:
    """Keys of the runs of a backfill between two moments, by the scheduler's own timetable."""
    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    moments = {"earliest": pendulum.parse(first), "latest": pendulum.parse(last)}
    return [info.partition_key for info in timetable.iter_partition_dagrun_infos(**moments)]


def key(every: str | None, typed: str | None = None, **run: Any) -> str:
    from dp_spark_dags.keys import key_of_run

    told = {"partition_key": None, "run_type": "manual", "data_interval_end": None, **run}
    try:
        return key_of_run(SimpleNamespace(**told), {"key": typed}, every, "America/New_York")
    except AirflowFailException as refusal:  # which no retry follows
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
        "backfilled": key("week", partition_key="2025-03-04", run_type="backfill"),
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
    (folder / "half").mkdir()
    (folder / "half/good.yaml").write_text(good.read_text())
    (folder / "half/written.yaml").write_text("release: [\n")
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
        "half written": lambda: release_dags(folder / "half"),
        "a template": partial(release_dag, _written(folder, "{{ var.value.secret }}", good.read_text())),
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


def attempt(results: Path, told: dict[str, Any] | None, *, written: timedelta = timedelta(0)) -> Any:
    """A task instance that begins now, and what its job has left, which may be of an earlier attempt."""
    from dp_spark_dags.results import result_path

    now = datetime.now(UTC)
    task = SimpleNamespace(dag_id="flights", run_id="../x:1", task_id="privatize", start_date=now)
    place = Path(result_path(str(results), task.dag_id, task.run_id, task.task_id))
    assert place.is_relative_to(results)
    assert ".." not in place.parts
    if told is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(told))
        stamp = (now + written).timestamp()
        os.utime(place, (stamp, stamp))
    return task


def failure(results: Path) -> list[str]:
    from dp_spark_dags.failures import callback

    told: list[str] = []
    tell = callback(lambda failed: told.append(str(failed)), str(results))
    tell({"ti": attempt(results, None)})
    refused = {"error": "budget_exhausted", "message": "no", "way_out": "wait", "release": "p/flights/1/0"}
    tell({"ti": attempt(results, {**refused, "state": None, "left": {"epsilon": "1/4", "delta": "0"}})})
    for wrong in ({"left": ["1/4"]}, {"left": "1/4"}, {"error": "a\nb"}, {"release": {}}):
        tell({"ti": attempt(results, {**refused, **wrong})})
    tell({"ti": attempt(results, {**refused, "message": "two\nlines"})})
    return told


def failures_of_keys(results: Path) -> dict[str, dict[str, Any]]:
    """What is told of runs whose key is refused, as their task is rendered, and of a record of nothing."""
    from dp_spark_dags import release_dag

    spec = FOLDER.parent / "examples/flights_by_origin.yaml"
    told: list[Any] = []
    dag = release_dag(spec, results=str(results), on_failure=told.append)
    privatize, record = dag.get_task("privatize"), dag.get_task("record")

    def told_of(task: Any, act: Any, **context: Any) -> dict[str, Any]:
        ti = SimpleNamespace(
            dag_id=dag.dag_id, run_id="a", task_id=task.task_id, start_date=datetime.now(UTC)
        )
        try:
            act(context | {"ti": ti})
        except (AirflowFailException, RuntimeError) as failure:
            task.on_failure_callback[-1]({"ti": ti, "exception": failure})
        return asdict(told.pop())

    def of_key(key: str | None) -> dict[str, Any]:
        made = SimpleNamespace(partition_key=key, run_type="manual", data_interval_end=None)
        return told_of(privatize, privatize.render_template_fields, dag_run=made, params={})

    def leak(_: Any) -> None:
        raise RuntimeError("spark-submit printed 4711")

    return {
        "to come": of_key((datetime.now(UTC) + timedelta(days=2)).date().isoformat()),
        "none": of_key(None),
        "no date": of_key("tonight"),
        "nothing published": told_of(record, record.execute),
        "an operator's": told_of(privatize, leak),
    }


def places() -> list[str]:
    """Where tasks of runs leave their results whose ids are written alike."""
    from dp_spark_dags.results import result_path

    runs = ("a:b", "a_b", "a/b", "a%3Ab", "../b", "x" * 250, "x" * 249)
    return [result_path("r", "flights", run, "privatize") for run in runs]


def first_runs() -> dict[str, int]:
    """Hours until the first run of a DAG that has no start, by the hours since its last tick."""
    from dp_spark_dags.crons import partitions_of
    from dp_spark_dags.specs import SpecFacts

    facts = SpecFacts(FOLDER, "release", "a", "people", "day", "UTC")
    hours = {}
    for since in (1, 5):
        now = datetime.now(UTC)
        tick = now - timedelta(hours=since)
        dag = DAG(f"since_{since}", schedule=partitions_of(f"{tick.minute} {tick.hour} * * *", facts))
        timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
        info = timetable.next_dagrun_info_v2(
            last_dagrun_info=None, restriction=TimeRestriction(None, None, catchup=False)
        )
        hours[str(since)] = round((info.run_after - now).total_seconds() / 3600)
    return hours


def decisions(results: Path) -> dict[str, str]:
    """What the policy of retries says of a failed attempt, by what its job has left."""
    from dp_spark_dags.retries import UnlessRefused

    def said(told: dict[str, Any] | None, **when: timedelta) -> str:
        context = {"ti": attempt(results, told, **when)}
        decided = UnlessRefused(str(results)).evaluate(RuntimeError("exit code 6"), 1, 3, context)
        return str(decided.action.value)

    final = {"error": "budget_exhausted", "may_pass": False}
    return {
        "killed": said(None),
        "of another operator": said({"error": "budget_exhausted"}),
        "refused for good": said(final),
        "refused for now": said({"error": "superseded", "may_pass": True}),
        "of an earlier attempt": said(final, written=-timedelta(minutes=5)),
    }


def policies_of_own_operators() -> list[str]:
    """The policies of retries in a release whose operators have one already."""
    from dp_spark_dags import release_dag, spark_submit

    submit = partial(spark_submit, retry_policy=ExceptionRetryPolicy(rules=[]))
    dag = release_dag(FOLDER.parent / "examples/flights_by_origin.yaml", submit=submit)
    return [type(task.retry_policy).__name__ for task in dag.tasks]


def main() -> None:
    scratch = Path(sys.argv[2])
    bag = BundleDagBag(dag_folder=str(FOLDER), bundle_path=FOLDER, bundle_name="dags-folder")
    heavy = {"pyspark", "dp_spark", "great_expectations", "pandas", "pyarrow"}
    loaded = sorted(heavy & set(sys.modules))
    print(
        json.dumps(
            {
                "errors": bag.import_errors,
                "loaded": loaded,
                "dags": {name: dag_facts(dag) for name, dag in bag.dags.items()},
                "year": keys_of_a_year(bag.dags["flights_by_origin"]),
                "backfills": {
                    last: keys_of_a_backfill(bag.dags["flights_by_origin"], "2013-03-09", last)
                    for last in ("2013-03-11", "2013-03-11T23:59")
                },
                "keys": keys(),
                "wrong": wrong_files(scratch),
                "failure": failure(scratch / "results"),
                "failures of keys": failures_of_keys(scratch / "keys"),
                "places": places(),
                "first runs": first_runs(),
                "decisions": decisions(scratch / "decisions"),
                "own policies": policies_of_own_operators(),
            }
        )
    )


main()
