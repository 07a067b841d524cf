"""The least noise that meets (epsilon, delta): search in floats, certify on the frozen table."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.noise.composition import Slot, composed_delta, dominating_shift
from dp_spark.noise.cutting import Cut, Floats, cut_masses, delta_of, masses, spend
from dp_spark.noise.families import FAMILIES, Family, Laplace
from dp_spark.noise.freezing import freeze, untruncated
from dp_spark.noise.lattice import MAX_ENTRIES, Mass, NoiseTable

_CUT_SHARE = 1e-3  # of delta: the mass that the cut of the tails may expose
_TOLERANCE = 2.0**-23  # relative, of the scale
_CELLS_TIGHTNESS = Fraction(1, 1000)
_CLIFF = 2.0**-44  # relative, of the scale
_COARSE_STEPS = 48  # of a lattice, in a scale: coarse, and near enough to a fine one
_STEP_BITS = 48
_ATTEMPTS = 4
_LEAST_DELTA = 1e-30


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a table must meet, checked."""

    epsilon: Fraction
    delta: Fraction
    sensitivity: int
    max_groups: int

    @property
    def shift(self) -> int:
        return dominating_shift(self.sensitivity, self.max_groups)


@dataclass(frozen=True, slots=True)
class _Found:
    """The outcome of a search, not certified: the float scale and the variance at it."""

    family: Family
    mass: Mass
    reach: float
    scale: float
    variance: float


class _DeltaAt(Protocol):
    def __call__(self, *, scale: float, shift: int) -> float: ...


def calibrate_lattice(
    family: Family,
    epsilon: Fraction | float,
    delta: Fraction | float,
    sensitivity: int,
    max_groups: int,
    *,
    mass: Mass = Mass.POINT,
) -> NoiseTable:
    """The table of least scale whose own exact profile has delta(epsilon) <= delta.

    Never above delta. For one cell within a relative 1e-6 below it: the scale is within a relative 1e-6 of
    the least, given that the cut of the tails may expose delta / 1000, and the cut then spends what is
    left. For several cells the lesser table of two: that one, under the l1 lemma, and one within 1e-3 of
    delta by `composed_delta`. `sensitivity` is in grid steps and per cell,
    for at most `max_groups` cells.

    Raises:
        PlanRefused: a parameter is out of range, or no table of 2^22 entries and 128 bits can meet it.
    """
    demand = _checked_demand(epsilon, delta, sensitivity, max_groups)
    return _calibrated(_search(family, demand, mass), demand)


def least_variance_noise(
    epsilon: Fraction | float, delta: Fraction | float, sensitivity: int, max_groups: int
) -> NoiseTable:
    """The table of `calibrate_lattice` of least variance among the families without a parameter.

    Raises:
        PlanRefused: as in `calibrate_lattice`, if no family has a table that fits.
    """
    demand = _checked_demand(epsilon, delta, sensitivity, max_groups)
    found, refusals = [], []
    for family in FAMILIES.values():
        try:
            found.append(_search(family, demand))
        except PlanRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    if max_groups > 1:
        return min((_calibrated(one, demand) for one in found), key=lambda table: table.variance)
    return _calibrated(min(found, key=lambda one: one.variance), demand)


def tightest_table(epsilon: Fraction | float, delta: Fraction | float) -> NoiseTable:
    """The table of least variance for one cell and sensitivity 1: geometric of ratio e^-epsilon, then cut.

    It spends all of delta on the cut of its tails, the outermost value keeping a share of its mass. This
    is the optimum of the linear program of `variance_floor`, and log-concave.

    Raises:
        PlanRefused: a parameter is out of range, or the table would have more than 2^22 entries.
    """
    demand = _checked_demand(epsilon, delta, 1, 1)
    scale = 1 / float(demand.epsilon)
    reach = max(0.0, math.log(-math.expm1(-float(demand.epsilon)) / 2 / float(demand.delta))) + 1.0
    support = _support(reach, scale, 1)
    table = _spent(Laplace(), Mass.POINT, demand.epsilon, support, demand)
    if table is None:
        raise _unresolved(demand)
    return table


def certified_delta(table: NoiseTable, epsilon: Fraction | float) -> float:
    """An upper bound of delta at `epsilon` for one unit: the lesser of two that both hold.

    The l1 lemma (`NoiseTable.privacy_delta`), and the loss of one cell at its own shift composed over
    the cells.
    """
    lemma = table.privacy_delta(epsilon)
    if table.max_groups == 1:
        return lemma
    return min(lemma, composed_delta([Slot(table, cells=table.max_groups)], epsilon))


def _search(family: Family, demand: _Demand, mass: Mass = Mass.POINT) -> _Found:
    """The least scale in floats: roughly at a small shift first, then, scaled up, at the true one.

    The least scale is about linear in the shift, and a lattice of 64 steps a scale is fine enough to say so.
    """
    epsilon, delta = float(demand.epsilon), float(demand.delta)
    rate = epsilon + 2 * delta  # near 1 / least scale of Laplace noise at shift 1
    reach = _tail_point(untruncated(family), _CUT_SHARE * delta)
    delta_at = partial(_delta_at, family, mass, epsilon, reach)
    shift, coarse = demand.shift, min(demand.shift, math.ceil(64 * rate))
    scale = _least_scale(delta_at, delta, coarse, guess=coarse / rate, tolerance=1e-3)
    _cut(family, reach, scale * shift / coarse, shift)
    scale = _least_scale(delta_at, delta, shift, guess=scale * shift / coarse, tolerance=_TOLERANCE)
    kept = _kept(family, mass, reach, scale, shift)
    values = np.arange(len(kept), dtype=np.float64)
    return _Found(family, mass, reach, scale, float(2 * (values**2 @ kept) / (2 * kept.sum() - kept[0])))


def _calibrated(found: _Found, demand: _Demand) -> NoiseTable:
    one_coordinate = _certified(found, demand)
    if demand.max_groups == 1:
        return one_coordinate
    return _over_cells(found, demand, one_coordinate)


def _certified(found: _Found, demand: _Demand) -> NoiseTable:
    """The frozen table that spends delta by its own profile; with a scale a little larger if it must.

    Raises:
        PlanRefused: the weights of 2^-128 are too coarse for this epsilon and delta.
    """
    step = _step_below(found.scale)
    for attempt in range(_ATTEMPTS):
        cut = _cut(found.family, found.reach, 1 / float(step), demand.shift)
        spare = demand.shift + cut.support // 8
        support = min(cut.support + spare, (MAX_ENTRIES - 1) // 2)
        table = _spent(found.family, found.mass, step, support, demand)
        if table is not None:
            return table
        step *= 1 - Fraction(8**attempt, 2**24)
    raise _unresolved(demand)


def _spent(family: Family, mass: Mass, step: Fraction, support: int, demand: _Demand) -> NoiseTable | None:
    shape = _Found(family, mass, 0.0, 0.0, 0.0)
    whole = masses(family, mass, 1 / float(step), support)
    return spend(
        whole, demand.shift, demand.epsilon, demand.delta, lambda cut: _frozen(shape, step, cut, demand)
    )


def _frozen(found: _Found, step: Fraction, cut: Cut, demand: _Demand) -> NoiseTable:
    return freeze(
        found.family,
        step,
        cut.support,
        sensitivity=demand.sensitivity,
        max_groups=demand.max_groups,
        mass=found.mass,
        edge=cut.edge,
    )


def _over_cells(found: _Found, demand: _Demand, lemma: NoiseTable) -> NoiseTable:
    """The table of least scale by the composed loss, or `lemma` where that has no more noise.

    The scale is about linear in the sensitivity, so a coarse lattice finds it roughly first.
    """
    reach = _tail_point(untruncated(found.family), _CUT_SHARE * float(demand.delta) / demand.max_groups)
    fine = replace(found, reach=reach)
    coarse = max(1, math.ceil(_COARSE_STEPS * demand.sensitivity / found.scale))
    if coarse < demand.sensitivity:
        ratio = demand.sensitivity / coarse
        rough = replace(fine, scale=found.scale / ratio)
        table = _composed_search(rough, replace(demand, sensitivity=coarse), 2.0**-5)
        fine = replace(fine, scale=ratio / float(table.step))
    table = _composed_search(fine, demand, 2.0**-11)
    return min(table, lemma, key=lambda one: one.variance)


def _composed_search(found: _Found, demand: _Demand, step: float) -> NoiseTable:
    """The table within 1e-3 of delta by the composed loss; its log scale is near, to about `step`.

    Regula falsi (Illinois) on log delta over log scale; where losses are bounded delta falls off a cliff,
    and the search ends with the better side of it.
    """
    goal = math.log(demand.delta) - float(_CELLS_TIGHTNESS) / 2
    best: NoiseTable | None = None

    def gap(log_scale: float) -> float:
        nonlocal best
        cut = _cut(found.family, found.reach, math.exp(log_scale), demand.sensitivity)
        table = _frozen(found, _step_below(math.exp(log_scale)), cut, demand)
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
    while best is None or (abs(between) > float(_CELLS_TIGHTNESS) / 2 and enough - little > _CLIFF):
        attempt += 1
        share = 0.5 if attempt % 4 == 0 else min(max(below / (below - above), 1e-3), 1 - 1e-3)
        middle = little + share * (enough - little)
        between = gap(middle)
        if between > 0:
            little, below, above = middle, between, above / 2
        else:
            enough, above, below = middle, between, below / 2
    return best


def _delta_at(family: Family, mass: Mass, epsilon: float, reach: float, *, scale: float, shift: int) -> float:
    """delta(epsilon) of the table before it is frozen, in floats.

    The search may pass a table twice too large on its way to one that fits.
    """
    return delta_of(_kept(family, mass, reach, scale, shift, limit=2 * MAX_ENTRIES), shift, epsilon)


def _kept(
    family: Family, mass: Mass, reach: float, scale: float, shift: int, *, limit: int = MAX_ENTRIES
) -> Floats:
    cut = _cut(family, reach, scale, shift, limit=limit)
    return cut_masses(masses(family, mass, scale, cut.support), cut)


def _least_scale(delta_at: _DeltaAt, delta: float, shift: int, *, guess: float, tolerance: float) -> float:
    """A scale that meets delta, at most a relative `tolerance` above one that does not."""
    lower = upper = guess
    widen = 2.0**-10
    while delta_at(scale=upper, shift=shift) > delta:
        lower, upper, widen = upper, upper * (1 + widen), min(2 * widen, 1.0)
    while lower == upper or delta_at(scale=lower, shift=shift) <= delta:
        lower, upper, widen = lower / (1 + widen), lower, min(2 * widen, 1.0)
    while upper > lower * (1 + tolerance):
        middle = math.sqrt(lower * upper)
        meets = delta_at(scale=middle, shift=shift) <= delta
        lower, upper = (lower, middle) if meets else (middle, upper)
    return upper


def _tail_point(family: Family, mass: float) -> float:
    """An x beyond which the standard member has at most about `mass`, on one side."""
    end = 1.0
    while family.psi(np.array([end]))[0] < 8 - math.log(mass):
        end *= 2
    grid = np.linspace(0.0, end, 4097)
    tails = np.cumsum(np.exp(-family.psi(grid))[::-1])[::-1]
    return float(grid[np.argmax(tails <= 2 * mass * tails[0])])


def _cut(family: Family, reach: float, scale: float, shift: int, *, limit: int = MAX_ENTRIES) -> Cut:
    """The cut at which the search and the first table stand.

    A truncated family brings its own; else the `shift` outermost values, which a neighbour may never
    take, have mass beyond `reach`.

    Raises:
        PlanRefused: a table with this cut would have more than `limit` entries.
    """
    steps = family.end * scale if math.isfinite(family.end) else reach * scale + shift
    _support(steps, 1.0, 0, limit=limit)
    return Cut.at(steps)


def _support(reach: float, scale: float, shift: int, *, limit: int = MAX_ENTRIES) -> int:
    support = math.ceil(reach * scale) + shift
    if 2 * support + 1 > limit:
        raise PlanRefused(
            "noise_table_size",
            f"the noise would need a table of about {2 * support + 1:.3g} values; at most {MAX_ENTRIES} fit",
            way_out="give more epsilon, fewer max_groups, closer bounds, or a coarser grid step for sums",
        )
    return support


def _step_below(scale: float) -> Fraction:
    """1 / scale, rounded down to a dyadic fraction: the scale rounds up."""
    mantissa, exponent = math.frexp(1 / scale)
    return Fraction(math.floor(mantissa * 2**_STEP_BITS)) * Fraction(2) ** (exponent - _STEP_BITS)


def _unresolved(demand: _Demand) -> PlanRefused:
    return PlanRefused(
        "noise_resolution",
        f"epsilon = {float(demand.epsilon):g} with delta = {float(demand.delta):g} is finer than"
        " noise of 128 bits can prove",
        way_out="take a smaller epsilon (below 40) or a larger delta (above 1e-25)",
    )


def _checked_demand(
    epsilon: Fraction | float, delta: Fraction | float, sensitivity: int, max_groups: int
) -> _Demand:
    return _Demand(
        _checked_epsilon(epsilon),
        _checked_delta(delta),
        _checked_count("sensitivity", sensitivity),
        _checked_count("max_groups", max_groups),
    )


def _checked_epsilon(epsilon: Fraction | float) -> Fraction:
    if not 0 < epsilon <= 88:
        raise PlanRefused(
            "epsilon_range",
            f"epsilon = {epsilon} must be above 0 and at most 88",
            way_out="choose a positive epsilon; 0.1 to 2 for one release is usual",
        )
    return Fraction(epsilon)


def _checked_delta(delta: Fraction | float) -> Fraction:
    if not _LEAST_DELTA <= delta <= 1 - 1e-9:
        raise PlanRefused(
            "delta_range",
            f"delta = {delta} must lie in [{_LEAST_DELTA}, 1 - 1e-9]: pure epsilon (delta = 0) needs noise"
            " without bounds, which no table of finitely many values is",
            way_out="give delta > 0, well below 1 / number of units; or take `pure_epsilon_table`",
        )
    return Fraction(delta)


def _checked_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PlanRefused(
            f"{name}_range",
            f"{name} = {value} must be a whole number, at least 1",
            way_out=f"give {name} as an integer; sums are counted in steps of their grid",
        )
    return value
