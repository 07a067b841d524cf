"""Where the tails of a table are cut: the cut moves until the table spends delta, and no more.

A cut c > 0, in grid steps, keeps the values up to floor(c) and the share c - floor(c) of the mass of the
next one, so that delta is a continuous function of it. Floats search; the frozen table certifies.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.polynomial.legendre import leggauss

from dp_spark.errors import PlanRefused
from dp_spark.noise.families import Family
from dp_spark.noise.freezing import untruncated
from dp_spark.noise.lattice import MAX_ENTRIES, Mass, NoiseTable
from dp_spark.noise.tails import Floats

# Of delta: what a cut may expose that is there only because tables end.
CUT_SHARE = 1e-3
# Lattice steps in a scale that make a coarse lattice as good as a fine one for a search.
COARSE_STEPS = 48
# A certified table spends delta up to this relative gap.
TIGHTNESS = Fraction(1, 10**6)

_EDGE_BITS = 52
_BISECTIONS = 60
_CORRECTIONS = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """Values up to `support`, of whose mass the outermost keeps `edge`."""

    support: int
    edge: Fraction

    @staticmethod
    def at(steps: float) -> "Cut":
        """The cut at c = `steps` > 0; the share is rounded up to a multiple of 2^-52."""
        whole = math.ceil(steps) - 1
        share = math.ceil(math.ldexp(steps - whole, _EDGE_BITS))
        return Cut(whole + 1, Fraction(share, 2**_EDGE_BITS))


def masses(family: Family, mass: Mass, scale: float, support: int) -> Floats:
    """Masses of 0..support in floats, up to a factor; a truncated family counts with its density inside."""
    whole = untruncated(family)
    values = np.arange(support + 1) / scale
    origin = float(whole.psi(np.zeros(1))[0])
    if mass is Mass.POINT:
        return np.exp(origin - whole.psi(values))
    nodes, weights = leggauss(8 if scale > 4 else 64)
    cells = sum(
        weight * np.exp(origin - whole.psi(values + node / (2 * scale)))
        for node, weight in zip(nodes, weights, strict=True)
    )
    half = weights @ np.exp(origin - whole.psi((1 + nodes) / (4 * scale)))  # psi may have a kink at 0
    return np.concatenate([[half], np.asarray(cells)[1:]])


def delta_of(kept: Floats, shift: int, epsilon: float) -> float:
    """Delta at `epsilon` of the symmetric law with masses `kept` of 0..K, up to a factor, at `shift`.

    Below n = -shift / 2 the ratio of the two laws is less than 1, so those n have no term.
    """
    first = shift // 2
    left = kept[first:0:-1] if first < len(kept) else np.append(np.zeros(first + 1 - len(kept)), kept[:0:-1])
    law = np.concatenate([left, kept])
    excess = np.maximum(law[:-shift] - math.exp(epsilon) * law[shift:], 0.0).sum() + law[-shift:].sum()
    return float(excess / (kept[0] + 2 * kept[1:].sum()))


def cut_masses(whole: Floats, cut: Cut) -> Floats:
    """The masses of 0..support with the outermost reduced."""
    kept = whole[: cut.support + 1].copy()
    kept[-1] *= float(cut.edge)
    return kept


def spend(
    whole: Floats,
    shift: int,
    epsilon: Fraction,
    delta: Fraction,
    frozen: Callable[[Cut], NoiseTable],
) -> NoiseTable | None:
    """The frozen table whose cut makes its exact delta at `epsilon` at most `delta` and nearly all of it.

    Within TIGHTNESS where floats can place the cut, else the nearest one below that was seen; None if no
    cut of `whole` meets delta. The profile that counts is `NoiseTable.privacy_delta`; what floats err is
    added to the goal of the next attempt.
    """
    goal = delta * (1 - TIGHTNESS / 2)
    aim, best, spent = float(goal), None, Fraction(0)
    for _ in range(_CORRECTIONS):
        cut = _least_cut(whole, shift, float(epsilon), aim)
        if cut is None:
            break
        table = frozen(cut)
        exact = Fraction(table.privacy_delta(epsilon))
        if spent < exact <= delta:
            best, spent = table, exact
        if delta * (1 - TIGHTNESS) <= exact <= delta:
            break
        aim = delta_of(cut_masses(whole, cut), shift, float(epsilon)) + float(goal - exact)
    return best


def _least_cut(whole: Floats, shift: int, epsilon: float, delta: float) -> Cut | None:
    """The nearest cut that meets `delta` in floats, or None."""
    reach = float(len(whole) - 1)

    def meets(steps: float) -> bool:
        return delta_of(cut_masses(whole, Cut.at(steps)), shift, epsilon) <= delta

    if not meets(reach):
        return None
    lower, upper = 0.0, reach
    for _ in range(_BISECTIONS):
        middle = (lower + upper) / 2
        if meets(middle):
            upper = middle
        else:
            lower = middle
    return Cut.at(upper)


def support_within(steps: float, *, limit: int = MAX_ENTRIES) -> int:
    """The least whole support of at least `steps`, if a table of it has at most `limit` entries.

    Raises:
        PlanRefused: it has more.
    """
    support = math.ceil(steps)
    if 2 * support + 1 > limit:
        raise PlanRefused(
            "noise_table_size",
            f"the noise would need a table of about {2 * support + 1:.3g} values; at most {MAX_ENTRIES} fit",
            way_out="give more epsilon, fewer max_groups, closer bounds, or a coarser grid step for sums",
        )
    return support


def tail_masses(family: Family, depth: float, points: int) -> tuple[Floats, Floats]:
    """A grid from 0 to where psi is at least `depth`, or to the end, and P(X >= x) on it up to a factor.

    Both have shape (points + 1,).
    """
    end, origin = 1.0, float(family.psi(np.zeros(1))[0])
    while end < family.end and family.psi(np.array([end]))[0] < depth:
        end *= 2
    grid = np.linspace(0.0, min(end, family.end), points + 1)
    return grid, np.cumsum(np.exp(origin - family.psi(grid))[::-1])[::-1]
