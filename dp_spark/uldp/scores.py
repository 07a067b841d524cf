"""Linear estimators: every report has a score for every category, and a share is the mean score."""

from dataclasses import dataclass

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import Blocks, Observed


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The scores of a linear estimator; J is the number of components.

    A protected report, block B of component j, scores for a sensitive x

        slope_j [x in B] + per_point_j |B| + protected_j

    and an answer in clear scores `invertible`, and slope_j [x in B] more where it came beside a block and
    `beside` holds. For a non-sensitive x a protected report scores other_protected_j, and an answer y in
    clear scores answer [x = y] + other_invertible.

    Attributes:
        slope: (J,) for the points of the block.
        per_point: (J,) for each point of the block, given to all sensitive categories.
        protected: (J,) for a protected report, given to all sensitive categories.
        invertible: for an answer in clear, given to all sensitive categories.
        beside: whether a block beside an answer counts as a block of its own does.
        answer: for the answer itself.
        other_protected: (J,) for a protected report, given to all non-sensitive categories.
        other_invertible: for an answer in clear, given to all non-sensitive categories.
    """

    slope: Floats
    per_point: Floats
    protected: Floats
    invertible: float
    beside: bool
    answer: float
    other_protected: Floats
    other_invertible: float


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What the scores of all reports say together.

    Attributes:
        shares: (w,) mean scores.
        variances: (w,) of the shares, (mean of score^2 - share^2) / n: exact for reports drawn independently,
            from a larger population, and unbiased but for n / (n - 1). 0 where all scores are equal, as
            those of an answer that nobody gave can be.
        slopes: (J, w) what one report in favour of the category adds to the sum of scores.
        favours: (J, w) how many reports were in favour of it: its blocks, or its answers.
        n: reports.
    """

    shares: Floats
    variances: Floats
    slopes: Floats
    favours: Floats
    n: int


def moments(observed: Observed, scores: Scores) -> Moments:
    """The mean score of each category with its variance.

    Raises:
        PlanRefused: there are no reports.
    """
    if observed.n < 1:
        raise PlanRefused(
            "no_reports",
            f"n = {observed.n} reports, and an estimate needs at least 1",
            way_out="estimate after reports were collected",
        )
    alone = np.array([blocks.alone.sum() for blocks in observed.blocks], dtype=np.float64)
    parts = [
        _sensitive(blocks, scores, component, observed.n_sensitive)
        for component, blocks in enumerate(observed.blocks)
    ]
    answers, answered = observed.answers.astype(np.float64), observed.n - float(alone.sum())
    inside = sum(part[1] for part in parts) + scores.invertible * answered
    inside_squares = sum(part[2] for part in parts) + scores.invertible**2 * answered
    outside = scores.answer * answers + alone @ scores.other_protected + scores.other_invertible * answered
    outside_squares = (
        scores.answer * (scores.answer + 2 * scores.other_invertible) * answers
        + alone @ scores.other_protected**2
        + scores.other_invertible**2 * answered
    )
    shares = np.concatenate([inside, outside]) / observed.n
    squares = np.concatenate([inside_squares, outside_squares]) / observed.n
    slopes = np.zeros((len(parts), observed.n_categories))
    slopes[:, : observed.n_sensitive] = scores.slope[:, None]
    slopes[0, observed.n_sensitive :] = scores.answer
    favours = np.zeros_like(slopes)
    favours[:, : observed.n_sensitive] = [part[0] for part in parts]
    favours[0, observed.n_sensitive :] = answers
    return Moments(shares, np.maximum(squares - shares**2, 0.0) / observed.n, slopes, favours, observed.n)


def _sensitive(
    blocks: Blocks, scores: Scores, component: int, n_points: int
) -> tuple[Floats, Floats, Floats]:
    """Of one component, each (v,): reports in favour, sums of scores and squares, without `invertible`."""
    slope = float(scores.slope[component])
    alone = blocks.alone.astype(np.float64)
    beside = blocks.beside.astype(np.float64) * scores.beside
    common = scores.protected[component] + scores.per_point[component] * blocks.incidence.sums(
        np.ones(n_points)
    )
    favours = blocks.incidence.supports(alone + beside)
    cross = blocks.incidence.supports(alone * (slope + 2 * common) + beside * (slope + 2 * scores.invertible))
    return favours, slope * favours + alone @ common, slope * cross + alone @ common**2
