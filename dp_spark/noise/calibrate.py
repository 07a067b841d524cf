"""The least noise that meets (epsilon, delta): search in floats, certify on the frozen table."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.noise.composition import dominating_shift
from dp_spark.noise.families import FAMILIES, Family
from dp_spark.noise.freezing import freeze
from dp_spark.noise.lattice import MAX_ENTRIES, NoiseTable

_CUT_SHARE = 1e-3  # of delta: the mass that the cut of the tails may expose
_TOLERANCE = 2.0**-23  # relative, of the scale
_STEP_BITS = 32
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
    reach: float
    scale: float
    variance: float


class _DeltaAt(Protocol):
    def __call__(self, *, scale: float, shift: int) -> float: ...


def calibrate_lattice(
    family: Family, epsilon: Fraction | float, delta: Fraction | float, sensitivity: int, max_groups: int
) -> NoiseTable:
    """The table of least scale whose own exact profile has delta(epsilon) <= delta.

    Never above delta; the scale is within a relative 1e-6 of the least, given that the cut of the tails may
    expose delta / 1000. `sensitivity` is in grid steps and per cell, for at most `max_groups` cells.

    Raises:
        PlanRefused: a parameter is out of range, or no table of 2^22 entries and 128 bits can meet it.
    """
    demand = _checked_demand(epsilon, delta, sensitivity, max_groups)
    return _certified(_search(family, demand), demand)


def least_variance_noise(
    epsilon: Fraction | float, delta: Fraction | float, sensitivity: int, max_groups: int
) -> NoiseTable:
    """The table of `calibrate_lattice` for the family of least variance; the others are not frozen.

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
    return _certified(min(found, key=lambda one: one.variance), demand)


def _search(family: Family, demand: _Demand) -> _Found:
    """The least scale in floats: roughly at a small shift first, then, scaled up, at the true one.

    The least scale is about linear in the shift, and a lattice of 64 steps a scale is fine enough to say so.
    """
    epsilon, delta = float(demand.epsilon), float(demand.delta)
    rate = epsilon + 2 * delta  # near 1 / least scale of Laplace noise at shift 1
    reach = _tail_point(family, _CUT_SHARE * delta)
    delta_at = partial(_delta_at, family, epsilon, reach)
    shift, coarse = demand.shift, min(demand.shift, math.ceil(64 * rate))
    scale = _least_scale(delta_at, delta, coarse, guess=coarse / rate, tolerance=1e-3)
    _support(reach, scale * shift / coarse, shift)
    scale = _least_scale(delta_at, delta, shift, guess=scale * shift / coarse, tolerance=_TOLERANCE)
    return _Found(family, reach, scale, _variance(family, scale, _support(reach, scale, shift)))


def _certified(found: _Found, demand: _Demand) -> NoiseTable:
    """The frozen table if its exact profile meets the demand; else with a scale that is a little larger.

    Raises:
        PlanRefused: the weights of 2^-128 are too coarse for this epsilon and delta.
    """
    step = _step_below(found.scale)
    for attempt in range(_ATTEMPTS):
        table = freeze(
            found.family,
            step,
            _support(found.reach, 1 / float(step), demand.shift),
            sensitivity=demand.sensitivity,
            max_groups=demand.max_groups,
        )
        if table.privacy_delta(demand.epsilon) <= demand.delta:
            return table
        step *= 1 - Fraction(8**attempt, 2**24)
    raise PlanRefused(
        "noise_resolution",
        f"epsilon = {float(demand.epsilon):g} with delta = {float(demand.delta):g} is finer than"
        " noise of 128 bits can prove",
        way_out="take a smaller epsilon (below 40) or a larger delta (above 1e-25)",
    )


def _delta_at(family: Family, epsilon: float, reach: float, *, scale: float, shift: int) -> float:
    """delta(epsilon) of the table before it is frozen, in floats: sums of positive terms only.

    Below n = -shift / 2 the ratio of the two laws is less than 1, so those n have no term. The search may
    pass a table twice too large on its way to one that fits.
    """
    support = _support(reach, scale, shift, limit=2 * MAX_ENTRIES)
    first = shift // 2
    psi = family.psi(np.arange(-first, support + 1) / scale)
    mass = np.exp(-psi)
    loss = psi[shift:] - psi[:-shift]
    excess = mass[:-shift] @ np.maximum(-np.expm1(epsilon - loss), 0.0) + mass[-shift:].sum()
    return float(excess / (mass[first] + 2 * mass[first + 1 :].sum()))


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


def _support(reach: float, scale: float, shift: int, *, limit: int = MAX_ENTRIES) -> int:
    """K such that the `shift` outermost values, which a neighbour may never take, have mass beyond `reach`.

    Raises:
        PlanRefused: a table of -K..K would have more than `limit` entries.
    """
    support = math.ceil(reach * scale) + shift
    if 2 * support + 1 > limit:
        raise PlanRefused(
            "noise_table_size",
            f"the noise would need a table of about {2 * support + 1:.3g} values; at most {MAX_ENTRIES} fit",
            way_out="give more epsilon, fewer max_groups, closer bounds, or a coarser grid step for sums",
        )
    return support


def _variance(family: Family, scale: float, support: int) -> float:
    values = np.arange(support + 1)
    mass = np.exp(-family.psi(values / scale))
    return float(2 * (values.astype(np.float64) ** 2 @ mass) / (2 * mass.sum() - mass[0]))


def _step_below(scale: float) -> Fraction:
    """1 / scale, rounded down to a dyadic fraction: the scale rounds up."""
    mantissa, exponent = math.frexp(1 / scale)
    return Fraction(math.floor(mantissa * 2**_STEP_BITS)) * Fraction(2) ** (exponent - _STEP_BITS)


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
            " without bounds and is not supported",
            way_out="give delta > 0, well below 1 / number of units",
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
