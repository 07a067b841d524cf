"""Noise for several cells: the lesser of two certificates, and the table that spends delta by it."""

import math
from dataclasses import replace
from fractions import Fraction

from dp_spark.noise.composition import Slot, composed_delta
from dp_spark.noise.cutting import COARSE_STEPS, CUT_SHARE
from dp_spark.noise.demand import Demand
from dp_spark.noise.freezing import step_below, untruncated
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.scales import Found, default_cut, frozen, tail_point

_TIGHTNESS = 1e-3
_CLIFF = 2.0**-44  # relative, of the scale


def certified_delta(table: NoiseTable, epsilon: Fraction | float) -> float:
    """An upper bound of delta at `epsilon` for one unit: the lesser of two that both hold.

    The l1 lemma (`NoiseTable.privacy_delta`), and the loss of one cell at its own shift composed over
    the cells.
    """
    lemma = table.privacy_delta(epsilon)
    if table.max_groups == 1:
        return lemma
    return min(lemma, composed_delta([Slot(table, cells=table.max_groups)], epsilon))


def table_over_cells(found: Found, demand: Demand, lemma: NoiseTable) -> NoiseTable:
    """The table of least scale by the composed loss, or `lemma` where that has no more noise.

    The scale is about linear in the sensitivity, so a coarse lattice finds it roughly first.
    """
    reach = tail_point(untruncated(found.family), CUT_SHARE * float(demand.delta) / demand.max_groups)
    fine = replace(found, reach=reach)
    coarse = max(1, math.ceil(COARSE_STEPS * demand.sensitivity / found.scale))
    if coarse < demand.sensitivity:
        ratio = demand.sensitivity / coarse
        rough = replace(fine, scale=found.scale / ratio)
        table = _composed_search(rough, replace(demand, sensitivity=coarse), 2.0**-5)
        fine = replace(fine, scale=ratio / float(table.step))
    table = _composed_search(fine, demand, 2.0**-11)
    return min(table, lemma, key=lambda one: one.variance)


def _composed_search(found: Found, demand: Demand, step: float) -> NoiseTable:
    """The table within 1e-3 of delta by the composed loss; its log scale is near, to about `step`.

    Regula falsi (Illinois) on log delta over log scale; where losses are bounded delta falls off a cliff,
    and the search ends with the better side of it.
    """
    goal = math.log(demand.delta) - _TIGHTNESS / 2
    best: NoiseTable | None = None

    def gap(log_scale: float) -> float:
        nonlocal best
        cut = default_cut(found.family, found.reach, math.exp(log_scale), demand.sensitivity)
        table = frozen(found.family, found.mass, step_below(math.exp(log_scale)), cut, demand)
        spent = certified_delta(table, demand.epsilon)
        if spent <= demand.delta and (best is None or table.step > best.step):
            best = table
        return math.log(max(spent, 1e-300)) - goal

    little = enough = math.log(found.scale)
    below = above = gap(enough)
    while above > 0:
        little, below = enough, above
        enough, step = enough + step, 2 * step
        above = gap(enough)
    while below <= 0:
        enough, above = little, below
        little, step = little - step, 2 * step
        below = gap(little)
    between, attempt = min(above, below, key=abs), 0
    while best is None or (abs(between) > _TIGHTNESS / 2 and enough - little > _CLIFF):
        attempt += 1
        share = 0.5 if attempt % 4 == 0 else min(max(below / (below - above), 1e-3), 1 - 1e-3)
        middle = little + share * (enough - little)
        between = gap(middle)
        if between > 0:
            little, below, above = middle, between, above / 2
        else:
            enough, above, below = middle, between, below / 2
    return best
