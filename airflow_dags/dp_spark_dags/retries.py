"""Which failures are tried again: all but refusals that the same command would meet again."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import RetryDecision, RetryPolicy

from dp_spark_dags.results import result_of_attempt


class UnlessRefused(RetryPolicy):
    """Fails at once where the job says that a retry changes nothing; else as the task's `retries` say.

    A job that was killed, or whose result this worker does not see, is tried again.
    """

    def __init__(self, results: str) -> None:
        self._results = results

    def evaluate(
        self,
        exception: BaseException,  # one class of exception for every exit code
        try_number: int,
        max_tries: int,
        context: Mapping[str, Any] | None = None,
    ) -> RetryDecision:
        """Asked by the worker after a failed attempt."""
        told = None if context is None else result_of_attempt(context["ti"], self._results)
        if told is None or told.get("may_pass") is not False:
            return RetryDecision.default()
        return RetryDecision.fail(reason=f"{told.get('error')}: a retry would be refused again")
