"""What is told of a failed task: which, why, the state of its release, what is left of the budget."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dp_spark_dags.refusals import Refused
from dp_spark_dags.results import result_of_attempt

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that failed for good; nothing in it comes from a row.

    Attributes:
        error: code of the refusal, of the job or of these DAGs; `no_result` where the job was killed or never
            began, or left what is no result.
        way_out: what to do, as whoever refused says it.
        release: id of the release or wave, where its ledger could be asked.
        state: of it, in the ledger; None if nothing was charged.
        left: what its account has left: {"epsilon": ..., "delta": ...}, exact, as text.
    """

    dag_id: str
    run_id: str
    task_id: str
    error: str
    message: str
    way_out: str
    release: str | None
    state: str | None
    left: Mapping[str, str] | None

    def __str__(self) -> str:
        left = "not known" if self.left is None else ", ".join(f"{k} {v}" for k, v in self.left.items())
        told = (
            f"{self.dag_id}.{self.task_id} of run {self.run_id} failed ({self.error}): {self.message} "
            f"[release {self.release or 'not known'}, state {self.state or 'nothing charged, or not known'}, "
            f"budget left: {left}] way out: {self.way_out}"
        )
        return " ".join(told.split())  # one line of a log


Tell = Callable[[Failure], None]


def log_failure(failure: Failure) -> None:
    """Write a failure to the log of the task."""
    _LOG.error("%s", failure)


def callback(tell: Tell, results: str) -> Callable[[Mapping[str, Any]], None]:
    """An Airflow callback that tells of a failed task what its job has left in `results`."""

    def on_failure(context: Mapping[str, Any]) -> None:
        tell(failure_of(context["ti"], results, context.get("exception")))

    return on_failure


def failure_of(task: Any, results: str, exception: object = None) -> Failure:
    """The failure of a task instance, from what its job has left in this attempt.

    The exception that ended the task is quoted only if it is of these DAGs: that of an operator may hold
    whatever a command has printed.
    """
    told = result_of_attempt(task, results) or {}
    if isinstance(exception, Refused):
        own = {"error": exception.code, "message": exception.message, "way_out": exception.way_out}
        told = {**told, **own}
    return Failure(
        task.dag_id,
        task.run_id,
        task.task_id,
        error=str(told.get("error") or "no_result"),
        message=str(told.get("message") or "the job left no result: it was killed, or it never began"),
        way_out=str(
            told.get("way_out") or "clear the task: it goes on where it stopped, at no further charge"
        ),
        release=told.get("release"),
        state=told.get("state"),
        left=told.get("left"),
    )
