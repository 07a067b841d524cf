"""What a release is compared with before it is published: earlier ones of its name, all public by then."""

from enum import StrEnum
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field

from dp_spark.guarantee import Every
from dp_spark.release.problems import Problem, shown
from dp_spark.release.reading import decimal_number, word_of
from dp_spark.release.spec.part import Part

_MOST_CHANGE, _MOST_SIGMA = 1000, 100


class Against(StrEnum):
    """The earlier release that values are compared with."""

    PREVIOUS = "previous"  # the newest that is sealed
    SAME_WEEKDAY = "same_weekday"  # the newest of the same day of the week


class HistorySpec(Part, frozen=True):
    """How far released values may be from those of an earlier release before somebody is warned.

    Attributes:
        against: the earlier release.
        max_change: a share of the earlier value.
        plus_sigma: what noise explains besides, in standard deviations of the difference of both releases.
    """

    against: Annotated[Against, BeforeValidator(word_of(Against))] = Field(examples=["same_weekday"])
    max_change: Annotated[
        Fraction,
        BeforeValidator(
            decimal_number(
                f"0 <= max_change <= {_MOST_CHANGE}",
                lambda share: 0 <= share <= _MOST_CHANGE,
                "write a share of the earlier value: 0.5 is a half",
            )
        ),
    ] = Fraction(1, 2)
    plus_sigma: Annotated[
        Fraction,
        BeforeValidator(
            decimal_number(
                f"0 <= plus_sigma <= {_MOST_SIGMA}",
                lambda sigma: 0 <= sigma <= _MOST_SIGMA,
                "write how many standard deviations of the noise are let through, such as 4",
            )
        ),
    ] = Fraction(4)

    @property
    def in_words(self) -> str:
        """The rule, as plans tell it."""
        with_what = {
            Against.PREVIOUS: "the newest earlier release",
            Against.SAME_WEEKDAY: "the newest earlier release of the same weekday",
        }
        return (
            f"with {with_what[self.against]}: a change of more than {float(100 * self.max_change):g} % and "
            f"{float(self.plus_sigma):g} sigma of noise warns; a public group that is gone, a period before "
            "it that is not sealed, or the same values again hold it"
        )


class ChecksSpec(Part, frozen=True):
    """Checks on a staged release beside those that every release has to pass."""

    history: HistorySpec = Field(examples=["{against: same_weekday}"])


def history_problems(checks: ChecksSpec | None, every: Every | None) -> list[Problem]:
    """A comparison of what has no order in time, or no weekday."""
    if checks is None:
        return []
    if every is None:
        why = "needs a period: without one, no release is before another"
        return [Problem(why, "write period: {column: COLUMN, every: day}", at=("checks", "history"))]
    against = checks.history.against
    if against is Against.SAME_WEEKDAY and every is not Every.DAY:
        why = f"does not go with period.every = {every}: every {every} begins on a day of its own kind"
        return [
            Problem(
                why,
                f"write against: {Against.PREVIOUS}",
                Against.PREVIOUS,
                shown(str(against)),
                ("checks", "history", "against"),
            )
        ]
    return []
