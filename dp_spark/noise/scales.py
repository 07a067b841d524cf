"""The least scale of noise for one shift, searched in floats; the frozen table certifies it."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np

from dp_spark.noise.cutting import CUT_SHARE, Cut, cut_masses, delta_of, masses, support_within, tail_masses
from dp_spark.noise.demand import Demand
from dp_spark.noise.families import Family
from dp_spark.noise.freezing import freeze, untruncated
from dp_spark.noise.lattice import MAX_ENTRIES, Mass, NoiseTable
from dp_spark.noise.tails import Floats

_TOLERANCE = 2.0**-23  # relative, of the scale


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search, not certified.

    Attributes:
        family: what was searched.
        mass: how its density becomes a law.
        reach: where the tails are cut, on the standard member.
        scale: the least scale, in grid steps.
        variance: at that scale, in squared grid steps.
    """

    family: Family
    mass: Mass
    reach: float
    scale: float
    variance: float


class _DeltaAt(Protocol):
    def __call__(self, *, scale: float, shift: int) -> float: ...


def search(family: Family, demand: Demand, mass: Mass = Mass.POINT) -> Found:
    """The least scale in floats: roughly at a small shift first, then, scaled up, at the true one.

    The least scale is about linear in the shift, and a lattice of 64 steps a scale is fine enough to say so.
    """
    epsilon, delta = float(demand.epsilon), float(demand.delta)
    rate = epsilon + 2 * delta  # near 1 / least scale of Laplace noise at shift 1
    reach = tail_point(untruncated(family), CUT_SHARE * delta)
    delta_at = partial(_delta_at, family, mass, epsilon, reach)
    shift, coarse = demand.shift, min(demand.shift, math.ceil(64 * rate))
    scale = _least_scale(delta_at, delta, coarse, guess=coarse / rate, tolerance=1e-3)
    default_cut(family, reach, scale * shift / coarse, shift)
    scale = _least_scale(delta_at, delta, shift, guess=scale * shift / coarse, tolerance=_TOLERANCE)
    kept = _kept(family, mass, reach, scale, shift)
    values = np.arange(len(kept), dtype=np.float64)
    return Found(family, mass, reach, scale, float(2 * (values**2 @ kept) / (2 * kept.sum() - kept[0])))


def tail_point(family: Family, mass: float) -> float:
    """An x beyond which the standard member has at most about `mass`, on one side."""
    grid, tails = tail_masses(family, 8 - math.log(mass), 4096)
    return float(grid[np.argmax(tails <= 2 * mass * tails[0])])


def default_cut(family: Family, reach: float, scale: float, shift: int, *, limit: int = MAX_ENTRIES) -> Cut:
    """The cut at which the search and the first table stand.

    A truncated family brings its own; else the `shift` outermost values, which a neighbour may never
    take, have mass beyond `reach`.

    Raises:
        PlanRefused: a table with this cut would have more than `limit` entries.
    """
    steps = family.end * scale if math.isfinite(family.end) else reach * scale + shift
    support_within(steps, limit=limit)
    return Cut.at(steps)


def frozen(family: Family, mass: Mass, step: Fraction, cut: Cut, demand: Demand) -> NoiseTable:
    """The table of the family at this step, cut there, for the units of the demand."""
    return freeze(
        family,
        step,
        cut.support,
        sensitivity=demand.sensitivity,
        max_groups=demand.max_groups,
        mass=mass,
        edge=cut.edge,
    )


def _delta_at(family: Family, mass: Mass, epsilon: float, reach: float, *, scale: float, shift: int) -> float:
    """delta(epsilon) of the table before it is frozen, in floats.

    The search may pass a table twice too large on its way to one that fits.
    """
    return delta_of(_kept(family, mass, reach, scale, shift, limit=2 * MAX_ENTRIES), shift, epsilon)


def _kept(
    family: Family, mass: Mass, reach: float, scale: float, shift: int, *, limit: int = MAX_ENTRIES
) -> Floats:
    cut = default_cut(family, reach, scale, shift, limit=limit)
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
