"""How good any integer noise can be for one query: the floor, by linear program."""

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from dp_spark.errors import PlanRefused

_MOST_PAIRS = 6_000  # of shifts and values in the linear program: about a second
_HEADROOM = 10.0  # the program looks at values down to e^-10 delta


def variance_floor(epsilon: Fraction | float, delta: Fraction | float, sensitivity: int) -> float:
    """The least variance, in squared grid steps, of integer noise for one query, one cell per unit.

    A linear program over all laws on the integers: every shift of 1..`sensitivity` is constrained in both
    directions. By convexity the best law is symmetric. Large sensitivities D are bounded from the program
    at a divisor: noise for k D' divided by k and rounded at random, which adds at most 1/4, is noise for
    D', so floor(D) >= k^2 (floor(D') - 1/4) for k D' <= D. The numbers are floats, good to about 1e-6.

    Raises:
        PlanRefused: a parameter is out of range, or even the smallest program would be too large.
    """
    if not (0 < epsilon <= 30 and 1e-14 <= delta < 1 and sensitivity >= 1):
        raise PlanRefused(
            "variance_floor",
            f"epsilon = {float(epsilon):g}, delta = {float(delta):g}, sensitivity = {sensitivity}: the floor"
            " is computed for epsilon in (0, 30], delta in [1e-14, 1) and a sensitivity of at least 1",
            way_out="the floor is a comparison only: plan without it",
        )
    solved = _solvable(float(epsilon), float(delta), sensitivity)
    least = _solve(float(epsilon), float(delta), solved)
    if solved == sensitivity:
        return least
    return max(0.0, (sensitivity // solved) ** 2 * (least - 0.25))


def _solvable(epsilon: float, delta: float, sensitivity: int) -> int:
    """The sensitivity to solve for: this one, else of those that are quick the one that loses least."""

    def is_quick(solved: int) -> bool:
        return solved == 1 or solved * _radius(epsilon, delta, solved) <= _MOST_PAIRS

    if is_quick(sensitivity):
        return sensitivity
    most = next(solved for solved in range(min(sensitivity, _MOST_PAIRS), 0, -1) if is_quick(solved))
    return max(
        range(most, most // 2, -1), key=lambda solved: (sensitivity // solved * solved, solved), default=1
    )


def _solve(epsilon: float, delta: float, sensitivity: int) -> float:
    """The least variance, by the linear program in q(n) = p(n) / rate^n: numbers near 1 far into the tails.

    Variables: q(0..K), then for every shift d and every n in -K..K a slack t >= 0 with
    p(n) - e^epsilon p(n + d) <= t rate^abs(n); for every d the slacks sum to at most delta.
    """
    radius = _radius(epsilon, delta, sensitivity)
    growth, rate = math.exp(epsilon), math.exp(-epsilon / sensitivity)
    half = np.arange(radius + 1)
    values = np.arange(-radius, radius + 1)
    masses, size = rate**half, len(values)
    rows, columns, entries = [], [], []
    for place, shift in enumerate(range(1, sensitivity + 1)):
        line = place * size + np.arange(size)
        near, far = np.abs(values), np.abs(values + shift)
        inside = far <= radius
        ratio = -growth * rate ** (far - near).astype(float)
        rows += [line, line[inside], line, np.full(size, sensitivity * size + place)]
        columns += [near, far[inside], radius + 1 + line, radius + 1 + line]
        entries += [np.ones(size), ratio[inside], -np.ones(size), masses[near] / delta]
    shape = (sensitivity * (size + 1), radius + 1 + sensitivity * size)
    above = coo_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape
    ).tocsr()
    limits = np.concatenate([np.zeros(sensitivity * size), np.ones(sensitivity)])
    weight = np.where(half > 0, 2.0, 1.0) * masses
    whole = weight.sum()
    spread = weight * half.astype(float) ** 2 / whole
    scale = max(float(spread.sum()), 1e-300)
    solution = linprog(
        np.concatenate([spread / scale, np.zeros(shape[1] - radius - 1)]),
        A_ub=above,
        b_ub=limits,
        A_eq=np.concatenate([weight / whole, np.zeros(shape[1] - radius - 1)])[None, :],
        b_eq=[1 / whole],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0:
        raise PlanRefused(
            "variance_floor",
            f"the linear program at epsilon = {epsilon:g}, delta = {delta:g} was not solved",
            way_out="the floor is a comparison only: plan without it, or with a larger epsilon",
        )
    least: float = solution.fun * scale * whole
    return least


def _radius(epsilon: float, delta: float, sensitivity: int) -> int:
    """A value beyond which the program cannot want mass: the geometric tail there is far below delta."""
    reach = max(0.0, math.log(-math.expm1(-epsilon) / 2 / delta)) + _HEADROOM
    return math.ceil(sensitivity * (reach / epsilon + 3))
