"""What an estimator is given and what it gives: counts of reports in, shares with their errors out."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Design, Floats, Ids, Incidence

INTERVAL = 0.95  # of `low` and `high`


class Method(StrEnum):
    """How shares are estimated from reports."""

    LINEAR = "linear"  # the published decoder: unbiased at every truth, negative where it must be
    ADAPTIVE = "adaptive"  # linear, its weights at the sensitive mass that the reports themselves show
    LIKELIHOOD = "likelihood"  # by the reports' likelihood, under an explicit prior on the sensitive ones


class Consistency(StrEnum):
    """What is done to shares below 0 and to their sum."""

    NONE = "none"
    CLIP = "clip"  # negative shares become 0, then all are divided by their sum
    SIMPLEX = "simplex"  # the nearest shares that are at least 0 and sum to 1


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """Distinct reports, and how many people sent each.

    Attributes:
        reports: (m,) int64, or (m, width) uint8 where a report is a bitmap.
        counts: (m,) int64, each at least 0; as a grouping by report has them.
    """

    reports: NDArray[np.int64] | NDArray[np.uint8]
    counts: Ids

    @classmethod
    def of(cls, reports: NDArray[np.int64] | NDArray[np.uint8]) -> "ReportCounts":
        """The counts of reports as `randomize` gives them, one for each person."""
        distinct: NDArray[Any]
        distinct, counts = np.unique(reports, axis=0, return_counts=True)
        return cls(distinct, counts.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks that were seen of one component of a mechanism.

    A protected report says "block B": its likelihood is in proportion to 1 + g S(B), where g = e^epsilon - 1
    and S(B) is the share of all people whose category lies in B. That holds for every mechanism of the room.

    Attributes:
        probability: with which the component is used, public; 1 where there is one component.
        design: the family, or None where a block is any set of sensitive bits.
        incidence: the m distinct blocks that were seen.
        alone: (m,) how often each was reported, and nothing else.
        beside: (m,) how often each was reported beside a non-sensitive answer; such a report's likelihood is
            that of the answer.
    """

    probability: float
    design: Design | None
    incidence: Incidence
    alone: Ids
    beside: Ids


@dataclass(frozen=True, slots=True)
class Observed:
    """Counted reports in the terms of the likelihood.

    Attributes:
        n_categories: w, of which the first `n_sensitive` are sensitive.
        n_sensitive: v.
        growth: g = e^epsilon - 1.
        answer_rate: tau, the probability that a non-sensitive answer is reported in clear.
        blocks: one for each component.
        answers: (w - v,) how often each non-sensitive answer was reported in clear.
        n: reports in all.
    """

    n_categories: int
    n_sensitive: int
    growth: float
    answer_rate: float
    blocks: tuple[Blocks, ...]
    answers: Ids
    n: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated shares of all categories.

    Attributes:
        shares: (w,) sensitive categories first.
        stds: (w,) standard errors: of the randomization and of drawing n people from a larger population.
        low: (w,) lower ends of 95 % intervals.
        high: (w,) upper ends.
        n: reports.
        method: how it was made.
        consistency: what was done to negative shares.
        biased: (w,) where the estimate is drawn toward a prior or was clipped: not centred.
        boundary: (w,) where the share is 0 or so near that the interval is one-sided.
    """

    shares: Floats
    stds: Floats
    low: Floats
    high: Floats
    n: int
    method: Method
    consistency: Consistency
    biased: NDArray[np.bool_]
    boundary: NDArray[np.bool_]
