"""What these DAGs refuse themselves, before a job runs or after it: coded, as the refusals of jobs are."""

from airflow.sdk.exceptions import AirflowFailException


class Refused(AirflowFailException):
    """A task that no retry would help.

    It quotes what an operator wrote and never a value of a row, so it may be told to anybody.

    Attributes:
        code: `no_key`, `bad_key`, `period_not_over` or `nothing_published`.
        message: what was refused and why.
        way_out: what the operator can do next.
    """

    def __init__(self, code: str, message: str, *, way_out: str) -> None:
        super().__init__(f"{message}; way out: {way_out}")
        self.code = code
        self.message = message
        self.way_out = way_out


class KeyRefused(Refused):
    """A run has no key, two that contradict each other, or one that cannot be right."""


class NothingPublished(Refused):
    """The job that should have published left no result of it."""
