"""The two DAGs of a wave of a survey: randomize while it is open, close and estimate at its end."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from dp_spark_dags.failures import Tell, log_failure
from dp_spark_dags.jobs import Job, Submit, spark_submit
from dp_spark_dags.recording import Record
from dp_spark_dags.releases import (
    DEFAULT_ARGS,
    MACROS,
    asset_of,
    prepare_for_failure,
    result_template,
)
from dp_spark_dags.results import default_results
from dp_spark_dags.specs import read_spec


def survey_dags(  # noqa: PLR0913  # as many as `release_dag` has
    spec: Path | str,
    *,
    wave: str,
    schedule: Any = "30 3 * * *",
    start_date: datetime | None = None,
    end_date: datetime | None = None,
    default_args: Mapping[str, Any] | None = None,
    submit: Submit = spark_submit,
    profile: str | None = None,
    results: str | None = None,
    on_failure: Tell = log_failure,
) -> tuple[DAG, DAG]:
    """The DAGs of one wave, which was opened by hand: `SURVEY_WAVE_randomize` and `SURVEY_WAVE_estimate`.

    Args:
        spec: YAML file of the survey.
        wave: its name; opening it is a charge, and stays a command.
        schedule: when answers that came in are randomized; nights may be missed, the next makes up for them.
        start_date: of that schedule.
        end_date: the moment after which the wave is closed and estimated; None: by hand.
        default_args: of its tasks; over `DEFAULT_ARGS`.
        submit: makes the task of a job.
        profile: path of `dp_spark.toml` for the job.
        results: directory that jobs write and all workers read.
        on_failure: told of a task that failed for good.

    Raises:
        ValueError: the spec is not that of a survey, or the wave has no name.
    """
    facts = read_spec(spec)
    if facts.kind != "survey":
        raise ValueError(f"{facts.path}: the spec of a release; `release_dag` makes its DAG")
    if not wave.replace("_", "").replace("-", "").replace(".", "").isalnum():
        raise ValueError(f"{facts.path}: wave {wave!r}: a name is made of letters, digits, _, - and .")
    directory = results or default_results()
    about: tuple[str, ...] = (
        "--spec",
        str(facts.path),
        "--wave",
        wave,
        "--result",
        result_template(directory),
    )
    about += () if profile is None else ("--profile", profile)
    common: dict[str, Any] = {
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": DEFAULT_ARGS["execution_timeout"] * 4,
        "default_args": {**DEFAULT_ARGS, **(default_args or {})},
        "user_defined_macros": MACROS,
        "tags": ["dp_spark", "survey"],
    }
    name = f"{facts.name}_{wave}"
    with DAG(
        f"{name}_randomize", schedule=schedule, start_date=start_date, end_date=end_date, **common
    ) as nightly:
        prepare_for_failure(submit(Job("randomize", "randomize_survey.py", about)), on_failure, directory)
    ending = {"schedule": None} if end_date is None else {"schedule": "@once", "start_date": end_date}
    with DAG(f"{name}_estimate", **ending, **common) as last:
        estimate = submit(Job("estimate", "estimate_survey.py", (*about, "--close")))
        end = Record(published="estimate", results=directory, asset=asset_of(facts))
        estimate >> end  # order of tasks, as Airflow says it
        for each in (estimate, end):
            prepare_for_failure(each, on_failure, directory)
    return nightly, last
