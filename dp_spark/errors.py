"""Refusals: every error that dp_spark raises on purpose, with a code, a reason and a way out.

A refusal may quote what an operator wrote (a key, a path, a number of the spec). It never quotes a value
read from a row: the same input with one person more or less must give the same text.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of the command line, by class of refusal."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    SPEC = 3
    PLAN = 4
    SETUP = 5
    BUDGET = 6
    LEDGER = 7
    INPUT = 8
    HELD = 9
    PUBLISH = 10
    LOW = 11
    EXPIRING = 12
    INTERRUPTED = 130


_WHAT_IS_DECIDED = frozenset(
    {ExitCode.USAGE, ExitCode.SPEC, ExitCode.PLAN, ExitCode.BUDGET, ExitCode.LEDGER, ExitCode.HELD}
)
_OF_A_MOMENT = frozenset(
    {
        "superseded",
        "illegal_step",
        "account_changed",
        "batches_race",
        "other_batch",
        "other_batches",
        "ledger_busy",
        "ledger_outcome_unknown",
    }
)  # of the ledger: two runs met, or its database could not be asked


class Refusal(Exception):
    """Something that dp_spark will not do.

    Attributes:
        code: short stable name, for machines (`budget_exhausted`).
        message: what was refused and why: parameter, value, allowed range.
        way_out: what the operator can do next.
    """

    exit_code = ExitCode.UNEXPECTED

    def __init__(self, code: str, message: str, *, way_out: str) -> None:
        super().__init__(f"{message}\n  way out: {way_out}")
        self.code = code
        self.message = message
        self.way_out = way_out

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """For other processes: whatever arguments a subclass takes."""
        return _again, (type(self), self.code, self.message, self.way_out)

    @property
    def may_pass(self) -> bool:
        """Whether the same command may succeed later, with nobody doing anything about it.

        What spec, ledger and checks have decided stands, unless two runs met; a source, a sink, a disk or a
        database may be there again.
        """
        return self.code in _OF_A_MOMENT or self.exit_code not in _WHAT_IS_DECIDED

    def as_json(self) -> dict[str, str | int]:
        """The refusal as the `--json` form prints it."""
        return {
            "error": self.code,
            "message": self.message,
            "way_out": self.way_out,
            "exit_code": int(self.exit_code),
        }


def _again(kind: type[Refusal], code: str, message: str, way_out: str) -> Refusal:
    refusal = kind.__new__(kind)
    Refusal.__init__(refusal, code, message, way_out=way_out)
    return refusal


class SpecRefused(Refusal):
    """The spec says something that cannot be read or is out of range."""

    exit_code = ExitCode.SPEC


class PlanRefused(Refusal):
    """The spec is well formed, but no release with its guarantee can be planned."""

    exit_code = ExitCode.PLAN


class SetupRefused(Refusal):
    """This installation lacks something: a profile, a ledger, a key, Java, an extra."""

    exit_code = ExitCode.SETUP


class BudgetRefused(Refusal):
    """The ledger does not admit the charge."""

    exit_code = ExitCode.BUDGET


class BudgetLow(Refusal):
    """Little is left of a budget; only `ledger show --check` makes that a failure."""

    exit_code = ExitCode.LOW


class PeriodsExpire(Refusal):
    """Rows of missing periods may be gone soon; only `missing` makes that a failure."""

    exit_code = ExitCode.EXPIRING


class LedgerRefused(Refusal):
    """The ledger knows this release in a state or with a plan that forbids the step."""

    exit_code = ExitCode.LEDGER


class InputRefused(Refusal):
    """The input is not there or lacks a column that the spec names."""

    exit_code = ExitCode.INPUT


class ReleaseHeld(Refusal):
    """A gate failed on the staged artefact; nothing was published."""

    exit_code = ExitCode.HELD


class PublishRefused(Refusal):
    """A sink cannot take the artefact; it stays staged and can be published later."""

    exit_code = ExitCode.PUBLISH


class BoundsExceeded(Refusal):
    """More of a unit was added up than the bounds allow: an error in dp_spark, whatever the input."""

    may_pass = False

    def __init__(self) -> None:
        super().__init__(
            "bounds_exceeded",
            "the second look at the rows that were kept found more of a unit than the bounds allow; "
            "nothing was drawn or stored",
            way_out="do not run it again: report it with the spec and the versions of dp_spark, pyspark, "
            "numpy and pyarrow; the charge stands",
        )
