"""The linear estimator of block designs: unbiased at every truth, best at one mass of the sensitive.

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173, for mixtures of complete designs; here for any regular and
balanced ones, of which E[blocks with x] = t c (r + g (r - lambda) p_x + g lambda mass).
"""

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp.consistency import consistent
from dp_spark.uldp.designs import Design, Floats
from dp_spark.uldp.estimate import Consistency, Estimate, Method, Observed
from dp_spark.uldp.intervals import reaches
from dp_spark.uldp.scores import Moments, Scores, moments


def linear_estimate(
    observed: Observed,
    scores: Scores,
    *,
    consistency: Consistency = Consistency.NONE,
    method: Method = Method.LINEAR,
) -> Estimate:
    """Mean scores with their standard errors and 95 % intervals.

    `stds` and intervals are those of the mean scores, whatever consistency does to the shares. The sum of
    squared errors of projected shares is no larger (a projection brings the vector nearer to the truth); the
    error of a single share can be, where it is small and that of the others is not. With a consistency,
    intervals are cut at 0 and 1 and hold the shares; moved along with them they would miss the truth.

    Raises:
        PlanRefused: there are no reports.
    """
    found = moments(observed, scores)
    shares = consistent(found.shares, consistency)
    below, above = reaches(found)
    low, high = found.shares - below, found.shares + above
    if consistency is not Consistency.NONE:
        low = np.minimum(np.clip(low, 0.0, 1.0), shares)
        high = np.maximum(np.clip(high, 0.0, 1.0), shares)
    return Estimate(
        shares=shares,
        stds=np.sqrt(found.variances),
        low=low,
        high=high,
        n=observed.n,
        method=method,
        consistency=consistency,
        biased=_drawn(found, shares),
        boundary=low <= 0,
    )


def _drawn(found: Moments, shares: Floats) -> NDArray[np.bool_]:
    """Which shares were moved, if any of them was cut off at 0; a sum brought to 1 is no bias."""
    moved = shares != found.shares
    return moved if bool((moved & ((shares == 0) | (found.shares < 0))).any()) else np.zeros_like(moved)


def adaptive_estimate(
    observed: Observed, mass: float, *, consistency: Consistency = Consistency.NONE
) -> Estimate:
    """The linear estimate whose weights are the best at the mass that the reports themselves show.

    That mass is estimated with the weights of `mass`, and is kept between 1 / w, the share of one category
    among equal ones, and 1. A weight that depends on the reports leaves a bias of the order 1 / n, below
    all standard errors; with one component the weights cancel and nothing adapts.

    Raises:
        PlanRefused: there are no reports, or `block_scores` refuses.
    """
    first = moments(observed, block_scores(observed, mass)).shares
    shown = float(np.clip(first[: observed.n_sensitive].sum(), 1 / observed.n_categories, 1.0))
    return linear_estimate(
        observed, block_scores(observed, shown), consistency=consistency, method=Method.ADAPTIVE
    )


def block_scores(observed: Observed, mass: float) -> Scores:
    """Scores that are unbiased at every truth, and of the least variance if S, the sensitive, has that mass.

    With u_j = g / (1 + g |B|_j mass / v), |B|_j the mean size of the blocks of component j, the deviation of
    a share from the mean in S is the mean of u_j ([x in B] - |B| / v), over its slope in p_x. The mass of S
    is the mean of `mass_scores`. Outside S shares deviate by the answers' frequencies over tau. A block
    beside an answer says no more than the answer. Shares sum to 1.

    "Least" holds for complete designs at a truth that is uniform in S and outside. `mass` is that of the
    limit where nothing is known.

    Raises:
        PlanRefused: `mass` is not in [0, 1], a component has no design, or no component tells two sensitive
            categories apart.
    """
    designs = _designs(observed)
    fill, told, protected_rate = _rates(observed, designs)
    probability = np.array([blocks.probability for blocks in observed.blocks])
    weight = observed.growth / (1 + observed.growth * fill * mass)
    separation = float(np.sum(probability * weight * protected_rate * observed.growth * told))
    if separation <= 0:
        raise PlanRefused(
            "nothing_told_apart",
            f"no block of {', '.join(design.name for design in designs)} tells two categories apart",
            way_out="give a positive probability to blocks that hold some sensitive categories and not all",
        )
    slope = weight / separation
    protected, invertible = mass_scores(observed, mass)
    v, others = observed.n_sensitive, observed.n_categories - observed.n_sensitive
    answer = 1 / observed.answer_rate if others else 0.0
    return Scores(
        slope=slope,
        per_point=-slope / v,
        protected=protected / v,
        invertible=invertible / v,
        beside=False,
        answer=answer,
        other_protected=(1 - protected) / max(others, 1),
        other_invertible=(1 - invertible - answer) / max(others, 1),
    )


def mass_scores(observed: Observed, mass: float) -> tuple[Floats, float]:
    """Scores of protected reports, (J,), and of answers in clear, whose mean is the mass of S, without bias.

    g fill_j / (1 + g fill_j mass) for component j and -1 / (1 - mass) for answers, shifted and scaled to mean
    1 for a sensitive category and 0 for another: of the least variance at `mass`. 1 where all categories are
    sensitive. fill_j = r_j / b_j.

    Raises:
        PlanRefused: `mass` is not in [0, 1], or a component has no design.
    """
    if not 0 <= mass <= 1:
        raise PlanRefused(
            "mass_out_of_range",
            f"the sensitive mass {mass} is not in [0, 1]",
            way_out="give the mass of the limit, or 1",
        )
    fill, _, protected_rate = _rates(observed, _designs(observed))
    if observed.n_sensitive == observed.n_categories:
        return np.ones_like(fill), 1.0
    probability = np.array([blocks.probability for blocks in observed.blocks])
    # Both times 1 - mass, so that mass = 1 is no exception.
    protected = (1 - mass) * observed.growth * fill / (1 + observed.growth * fill * mass)
    sensitive = float(probability @ protected)
    other = float(probability @ (protected_rate * protected)) - observed.answer_rate
    return (protected - other) / (sensitive - other), (-1 - other) / (sensitive - other)


def _designs(observed: Observed) -> list[Design]:
    designs = [blocks.design for blocks in observed.blocks if blocks.design is not None]
    if len(designs) < len(observed.blocks):
        raise PlanRefused(
            "no_design",
            "weights at a mass need block designs, and this mechanism reports arbitrary sets",
            way_out=f"estimate by method {Method.LINEAR.value} or {Method.LIKELIHOOD.value}",
        )
    return designs


def _rates(observed: Observed, designs: list[Design]) -> tuple[Floats, Floats, Floats]:
    """Each (J,): r / b, (r - lambda) / b, and b c = 1 / (1 + g r / b), the rate of blocks outside S."""
    fill = np.array([design.replication / design.n_blocks for design in designs])
    told = np.array([(design.replication - design.pairs) / design.n_blocks for design in designs])
    return fill, told, 1 / (1 + observed.growth * fill)
