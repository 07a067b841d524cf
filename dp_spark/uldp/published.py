"""The decoders of the other mechanisms, as they were published: a slope on the blocks that hold a category.

p_x = slope * frequency of blocks with x + of_protected * share of protected reports + constant, where blocks
beside answers count, too; outside S, frequency of the answer / tau. All are unbiased at every truth; their
shares need not sum to 1.

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173, and the decoders of its evaluation.
"""

import math
from fractions import Fraction

import numpy as np

from dp_spark.uldp.designs import Design
from dp_spark.uldp.scores import Scores


def balanced_scores(design: Design, epsilon: Fraction | float) -> Scores:
    """Of uRR (singletons), uHR (Hadamard blocks) and uOLH (cells of a hash): one design, answers in clear.

    E[frequency of blocks with x] = c (r + g (r - lambda) p_x + g lambda mass) and E[protected reports]
    = c (b + g r mass), so the first less lambda / r of the second knows no mass. For uOLH that makes the
    decoder unbiased, as it is with lambda / r = 1 / cells if pairs share a cell just so often.
    """
    growth = math.expm1(epsilon)
    shared = design.pairs / design.replication
    blocks = design.n_blocks / design.replication
    slope = (growth + blocks) / (growth * (1 - shared))
    return _marginal(
        slope=slope,
        of_protected=-shared * slope,
        constant=-(1 - shared * blocks) / (growth * (1 - shared)),
        answer_rate=growth / (growth + blocks),
    )


def subset_scores(design: Design, epsilon: Fraction | float) -> Scores:
    """Of uSS: blocks of one design, some of them beside an answer.

    p_x = (f_x - q) / (p - q) with the probabilities p and q that a block holds the own category or another.
    """
    growth = math.expm1(epsilon)
    total = design.replication * growth + design.n_blocks
    own = design.replication * (growth + 1) / total
    other = (design.pairs * growth + design.replication) / total
    return _marginal(
        slope=1 / (own - other),
        of_protected=0.0,
        constant=-other / (own - other),
        answer_rate=design.replication * growth / total,
    )


def unary_scores(epsilon: Fraction | float) -> Scores:
    """Of uOUE: own bit 1 with probability 1/2, others with 1 / (e^epsilon + 1)."""
    growth = math.expm1(epsilon)
    return _bits(own=1 / 2, noise=1 / (growth + 2), answer_rate=growth / (2 * (growth + 1)))


def rappor_scores(epsilon: Fraction | float) -> Scores:
    """Of uRAP: every bit wrong with probability 1 / (e^(epsilon / 2) + 1)."""
    half = math.expm1(epsilon / 2)
    return _bits(own=(half + 1) / (half + 2), noise=1 / (half + 2), answer_rate=half / (half + 1))


def _bits(own: float, noise: float, answer_rate: float) -> Scores:
    return _marginal(
        slope=1 / (own - noise),
        of_protected=0.0,
        constant=-noise / (own - noise),
        answer_rate=answer_rate,
    )


def _marginal(slope: float, of_protected: float, constant: float, answer_rate: float) -> Scores:
    return Scores(
        slope=np.array([slope]),
        per_point=np.zeros(1),
        protected=np.array([of_protected + constant]),
        invertible=constant,
        beside=True,
        answer=1 / answer_rate,
        other_protected=np.zeros(1),
        other_invertible=0.0,
    )
