"""What a mechanism does not hide, and what a forged report would do: the numbers behind the words.

With tau the probability that a non-sensitive answer is reported in clear, a protected report multiplies the
odds that its answer is sensitive by P(protected | S) / P(protected | N) = 1 / (1 - tau) = 1 + g r / b. Of a
mixture a report shows the component, so that of the largest blocks counts. It is at most e^epsilon.

Source: Murakami, Kawamoto 2019 (answers in clear); Cao, Jia, Gong 2021 (forged reports).
"""

from dataclasses import dataclass

import numpy as np

from dp_spark.uldp.bit_mechanism import BitMechanism
from dp_spark.uldp.estimate import Observed, ReportCounts
from dp_spark.uldp.limit import limit
from dp_spark.uldp.linear import block_scores
from dp_spark.uldp.mechanisms import Mechanism
from dp_spark.uldp.names import MechanismName
from dp_spark.uldp.published import rappor_scores, unary_scores


@dataclass(frozen=True, slots=True)
class Exposure:
    """What reports of a mechanism give away, and how much one of them weighs.

    Attributes:
        answers_in_clear: tau: the rate at which a non-sensitive answer is reported as it is; 0 where all
            categories are sensitive.
        odds: the factor by which a protected report raises the odds of "sensitive", of a mixture that of the
            component that raises them most; 1 where all are.
        influence_block: how many honest reports of a category one forged block that holds it counts as in
            the linear estimate, the slope of its scores; of a mixture, the largest.
        influence_answer: the same of a forged answer in clear: 1 / tau; 0 where there is none.
    """

    answers_in_clear: float
    odds: float
    influence_block: float
    influence_answer: float


def exposure(mechanism: Mechanism) -> Exposure:
    """The numbers of a mechanism.

    Of one design the slope is (b + g r) / (g (r - lambda)), for uRR (e^epsilon + v - 1) / (e^epsilon - 1);
    only the slopes of mixtures depend on the mass of S, which is that of the limit.
    """
    observed = mechanism.observe(_one_report(mechanism))
    influence = _slope(mechanism, observed)
    if mechanism.n_categories == mechanism.n_sensitive:
        return Exposure(0.0, 1.0, influence, 0.0)
    rate = observed.answer_rate
    designs = [blocks.design for blocks in observed.blocks if blocks.design is not None]
    odds = [1 + observed.growth * design.replication / design.n_blocks for design in designs]
    return Exposure(rate, max(odds, default=1 / (1 - rate)), influence, 1 / rate)


def _one_report(mechanism: Mechanism) -> ReportCounts:
    """A report that every mechanism has: block 0, or no bit."""
    if isinstance(mechanism, BitMechanism):
        return ReportCounts.of(np.zeros((1, mechanism.sampler.width), dtype=np.uint8))
    return ReportCounts.of(np.zeros(1, dtype=np.int64))


def _slope(mechanism: Mechanism, observed: Observed) -> float:
    if isinstance(mechanism, BitMechanism):
        scores = unary_scores if mechanism.name is MechanismName.UOUE else rappor_scores
        return float(scores(mechanism.epsilon).slope.max())
    mass = limit(mechanism.n_categories, mechanism.n_sensitive, mechanism.epsilon).alpha
    return float(block_scores(observed, mass).slope.max())
