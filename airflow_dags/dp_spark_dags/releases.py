"""The DAG of a release: privatize, publish, record. One line of a DAG file makes one."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Param, TaskGroup

from dp_spark_dags.crons import USUAL_CRONS, partitions_of
from dp_spark_dags.failures import Tell, callback, log_failure
from dp_spark_dags.jobs import Job, Submit, spark_submit
from dp_spark_dags.keys import PATTERN, key_of_run
from dp_spark_dags.recording import Record
from dp_spark_dags.results import default_results, result_path
from dp_spark_dags.retries import UnlessRefused
from dp_spark_dags.specs import SpecFacts, is_release, read_spec

USUAL = "usual"
_LONGEST_RUN = timedelta(days=1)
DEFAULT_ARGS: Mapping[str, Any] = {
    "owner": "dp_spark",
    "retries": 3,
    "retry_delay": timedelta(minutes=5),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(hours=1),
    "execution_timeout": timedelta(hours=3),
}
MACROS = {"dp_spark_key": key_of_run, "dp_spark_result": result_path}


def release_dag(  # noqa: PLR0913  # a DAG has as many sides
    spec: Path | str,
    *,
    schedule: Any = USUAL,
    start_date: datetime | None = None,
    catchup: bool = False,
    default_args: Mapping[str, Any] | None = None,
    submit: Submit = spark_submit,
    profile: str | None = None,
    results: str | None = None,
    on_failure: Tell = log_failure,
    **dag: Any,
) -> DAG:
    """The DAG of one release, named as the release.

    Args:
        spec: its YAML file, which the job must be able to read by the same path.
        schedule: a cron line, in the time zone of the spec: the run is of the period before it. Without one,
            at 04:30 after the end of each period. Also any timetable or asset; None: by hand only.
        start_date: of the schedule; `catchup` needs one.
        catchup: whether periods that were missed since then are released, too. Each costs budget.
        default_args: of its tasks; over `DEFAULT_ARGS`.
        submit: makes the task of a job.
        profile: path of `dp_spark.toml` for the job; else the job's DP_SPARK_PROFILE.
        results: directory that jobs write and all workers read; else DP_SPARK_RESULTS, else in AIRFLOW_HOME.
        on_failure: told of a task that failed for good.
        dag: whatever else a DAG takes.

    Raises:
        ValueError: the spec cannot be read, `catchup` has no `start_date`, or a cron line misses a period.
    """
    facts = _release(spec)
    if catchup and start_date is None:
        raise ValueError(f"{facts.name}: catchup=True needs a start_date: each period since then is charged")
    given = {
        "dag_id": facts.name,
        "description": f"Private release {facts.asset}, {_pace(facts)}",
        "tags": ["dp_spark", "release"],
        "dagrun_timeout": _LONGEST_RUN,
        # Nights of one release wait for each other; that no night is charged twice is the ledger's work.
        "max_active_runs": 1,
        "params": {"key": key_param()},
        **dag,
    }
    with DAG(
        schedule=_timetable(facts, schedule),
        start_date=start_date,
        catchup=catchup,
        default_args={**DEFAULT_ARGS, **(default_args or {})},
        user_defined_macros=MACROS,
        **given,
    ) as made:
        _tasks(facts, submit, profile, results or default_results(), on_failure)
    return made


def release_tasks(
    spec: Path | str,
    *,
    submit: Submit = spark_submit,
    key: str | None = None,
    profile: str | None = None,
    results: str | None = None,
    on_failure: Tell = log_failure,
) -> TaskGroup:
    """The tasks of a release in the DAG at hand, as a group named as the release.

    Args:
        spec: as in `release_dag`, like the others.
        submit: makes the task of a job.
        key: a template of the period's key; else the DAG's parameter `key`, its partition or its interval.
        profile: path of `dp_spark.toml` for the job.
        results: directory that jobs write and all workers read.
        on_failure: told of a task that failed for good.

    Raises:
        ValueError: the spec cannot be read.
    """
    facts = _release(spec)
    with TaskGroup(facts.name) as group:
        group.dag.user_defined_macros = {**(group.dag.user_defined_macros or {}), **MACROS}
        _tasks(facts, submit, profile, results or default_results(), on_failure, key)
    return group


def release_dags(folder: Path | str, **given: Any) -> dict[str, DAG]:
    """The DAGs of all specs of releases in a folder, by name; other YAML files are left alone.

    Raises:
        ValueError: as `release_dag`, or two specs have one name.
    """
    made: dict[str, DAG] = {}
    for path in sorted(Path(folder).glob("*.y*ml")):
        if is_release(path):
            dag = release_dag(path, **given)
            if dag.dag_id in made:
                raise ValueError(f"{path}: another spec in {folder} is named {dag.dag_id}, too")
            made[dag.dag_id] = dag
    return made


def release_asset(spec: Path | str) -> Asset:
    """What a release publishes, for whoever is scheduled by it; its partitions are the keys."""
    return asset_of(_release(spec))


def asset_of(facts: SpecFacts) -> Asset:
    """The asset of a release or survey."""
    return Asset(name=facts.asset, uri=f"dp-spark://{facts.asset}")


def key_param() -> Param:
    """The parameter of a run by hand."""
    return Param(
        None, type=["null", "string"], pattern=PATTERN, description="first day of the period, YYYY-MM-DD"
    )


def result_template(results: str) -> str:
    """The template of the path where the job of a task leaves its result."""
    return f"{{{{ dp_spark_result({results!r}, ti.dag_id, ti.run_id, ti.task_id) }}}}"


def _tasks(
    facts: SpecFacts, submit: Submit, profile: str | None, results: str, tell: Tell, key: str | None = None
) -> None:
    template = key or f"{{{{ dp_spark_key(dag_run, params, {facts.every!r}, {facts.timezone!r}) }}}}"
    arguments: tuple[str, ...] = (
        "--spec",
        str(facts.path),
        "--key",
        template,
        "--result",
        result_template(results),
    )
    arguments += () if profile is None else ("--profile", profile)
    jobs = [
        submit(Job(step, "private_release.py", (*arguments, "--step", step)))
        for step in ("privatize", "publish")
    ]
    end = Record(published="publish", results=results, asset=asset_of(facts))
    jobs[0] >> jobs[1] >> end  # order of tasks, as Airflow says it
    for each in (*jobs, end):
        prepare_for_failure(each, tell, results)


def prepare_for_failure(operator: Any, tell: Tell, results: str) -> None:
    """Have a task's failure told, beside whatever its DAG does on one, and no refusal tried again.

    A retry policy of its own stays.
    """
    operator.retry_policy = operator.retry_policy or UnlessRefused(results)
    own = operator.on_failure_callback or []
    operator.on_failure_callback = [
        *(own if isinstance(own, list | tuple) else [own]),
        callback(tell, results),
    ]


def _release(spec: Path | str) -> SpecFacts:
    facts = read_spec(spec)
    if facts.kind != "release":
        raise ValueError(f"{facts.path}: the spec of a survey; `survey_dags` makes its DAGs")
    return facts


def _timetable(facts: SpecFacts, schedule: Any) -> Any:
    usual = None if facts.every is None else USUAL_CRONS[facts.every]
    cron = usual if schedule is USUAL else schedule
    return partitions_of(cron, facts) if isinstance(cron, str) else cron


def _pace(facts: SpecFacts) -> str:
    return "of the whole input" if facts.every is None else f"every {facts.every}"
