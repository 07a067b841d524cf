"""The picture of a survey's page: which shares drown in the error of a group, on a logarithmic axis."""

import math
from dataclasses import dataclass

from dp_spark.report.figures import figures
from dp_spark.report.picture import WIDTH, Tick
from dp_spark.report.survey_facts import SurveyFacts

_LABEL_WIDTH = 150
_RIGHT_MARGIN = 40


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """A group's size, and the 95 % half width of a share in it.

    Attributes:
        name: of the size.
        x: where the axis begins.
        width: to the half width; a share within it cannot be told from 0.
        label: the half width in figures.
    """

    name: str
    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class ErrorPicture:
    """Bars over one axis of shares, and the mark of the mean share 1 / w."""

    bars: tuple[ErrorBar, ...]
    ticks: tuple[Tick, ...]
    mean: Tick


def error_picture(facts: SurveyFacts) -> ErrorPicture:
    """The bars of all sizes; beyond a share of 1 they are cut."""
    mean = 1 / facts.n_categories
    least = min(mean, *(each.half_width for each in facts.errors))
    first = math.floor(math.log10(least))
    per_decade = (WIDTH - _LABEL_WIDTH - _RIGHT_MARGIN) / -first

    def place(share: float) -> float:
        return round(_LABEL_WIDTH + per_decade * (math.log10(min(share, 1.0)) - first), 2)

    bars = tuple(
        ErrorBar(
            f"{each.people:,} people",
            _LABEL_WIDTH,
            round(place(each.half_width) - _LABEL_WIDTH, 2),
            f"± {figures(each.half_width, 2)}",
        )
        for each in facts.errors
    )
    ticks = tuple(Tick(place(10.0**power), figures(10.0**power)) for power in range(first, 1))
    return ErrorPicture(bars, ticks, Tick(place(mean), f"1 / {facts.n_categories:,}"))
