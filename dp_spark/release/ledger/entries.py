"""One line of an account's history."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened.

    Attributes:
        what: `limit`, `pools`, `schedule` or `window` for a decision on the account, `survey limit` for one
            on a survey's, `source`, the name of a decision on a release or wave, the state that a release
            entered, or that of a wave after the word `wave`; `attempt N begun` for a run that begins a
            batch, `batch` for reports that a wave was given, `copy` for both tables at a sink.
        about: the release, source, survey or wave, or what was decided; nothing for a limit.
        epsilon: the new limit, what a release or wave promised when it was charged or, negative, when that
            was given back; None where nothing was.
        delta: the same; None for surveys, which have none.
        reason: of the decision or charge, the checks that failed, or where a copy is.
        by: the user who decided, the host and process that ran, the attempt of a batch, the sink of a copy.
        paid: what a release or wave takes when it is charged: `slot of NAME`, `pool of KIND` or `survey of
            NAME`; else nothing.
    """

    at: str
    what: str
    about: str
    epsilon: Fraction | None
    delta: Fraction | None
    reason: str
    by: str
    paid: str = ""
