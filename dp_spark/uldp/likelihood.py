"""Shares of all categories by the likelihood of the reports, under a prior on the sensitive ones' shape.

One code for every mechanism: to the likelihood a report is a block of sensitive categories or an answer.
"""

import numpy as np

from dp_spark.uldp.cells import Cells
from dp_spark.uldp.estimate import Consistency, Estimate, Method, Observed
from dp_spark.uldp.evidence import Evidence
from dp_spark.uldp.information import spread
from dp_spark.uldp.mode import most_likely
from dp_spark.uldp.posterior import mean_shares
from dp_spark.uldp.prior import FixedPrior, LearnedPrior, Prior

LEARNED = LearnedPrior()
_NOTICED = 0.1  # standard errors between the estimate and a centred one


def likelihood(observed: Observed, prior: Prior = LEARNED) -> Estimate:
    """Shares, at least 0 and of sum 1.

    Intervals are about one step of Newton from the estimate, without prior or bound, and hold the estimate:
    shares that the prior has moved are covered as others are.

    Raises:
        PlanRefused: where there is no report.
    """
    evidence = Evidence.of(observed)
    match prior:
        case FixedPrior(strength):
            sensitive = most_likely(evidence, strength)
        case LearnedPrior():
            sensitive = mean_shares(evidence)
    if evidence.is_least(float(sensitive.sum())):
        sensitive = np.zeros_like(sensitive)
    cells = Cells.near(evidence, sensitive)
    answers = observed.answers.astype(float)
    others = (1 - sensitive.sum()) * answers / max(evidence.answered, 1.0)
    shares = np.concatenate([sensitive, others])
    errors = spread(evidence, cells, answers)
    return Estimate(
        shares=shares,
        stds=errors.stds,
        low=errors.low,
        high=errors.high,
        n=observed.n,
        method=Method.LIKELIHOOD,
        consistency=Consistency.NONE,
        biased=np.abs(shares - errors.centres) > _NOTICED * errors.stds,
        boundary=errors.low <= 0,
    )
