"""The least noise that meets (epsilon, delta): search in floats, certify on the frozen table."""

import math
from fractions import Fraction

from dp_spark.errors import PlanRefused
from dp_spark.noise.cells import table_over_cells
from dp_spark.noise.cutting import masses, spend, support_within
from dp_spark.noise.demand import Demand, checked_demand, unresolved
from dp_spark.noise.families import Family, Laplace
from dp_spark.noise.freezing import step_below
from dp_spark.noise.lattice import MAX_ENTRIES, Mass, NoiseTable
from dp_spark.noise.names import FAMILIES
from dp_spark.noise.scales import Found, default_cut, frozen, search

_ATTEMPTS = 4


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
    delta by `composed_delta`. `sensitivity` is in grid steps and per cell, for at most `max_groups` cells.

    Raises:
        PlanRefused: a parameter is out of range, or no table of 2^22 entries and 128 bits can meet it.
    """
    demand = checked_demand(epsilon, delta, sensitivity, max_groups)
    return _calibrated(search(family, demand, mass), demand)


def least_variance_noise(
    epsilon: Fraction | float, delta: Fraction | float, sensitivity: int, max_groups: int
) -> NoiseTable:
    """The table of `calibrate_lattice` of least variance among the families without a parameter.

    Raises:
        PlanRefused: as in `calibrate_lattice`, if no family has a table that fits.
    """
    demand = checked_demand(epsilon, delta, sensitivity, max_groups)
    found, refusals = [], []
    for family in FAMILIES.values():
        try:
            found.append(search(family, demand))
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
    demand = checked_demand(epsilon, delta, 1, 1)
    scale = 1 / float(demand.epsilon)
    reach = max(0.0, math.log(-math.expm1(-float(demand.epsilon)) / 2 / float(demand.delta))) + 1.0
    support = support_within(math.ceil(reach * scale) + 1)
    table = _spent(Laplace(), Mass.POINT, demand.epsilon, support, demand)
    if table is None:
        raise unresolved(demand)
    return table


def _calibrated(found: Found, demand: Demand) -> NoiseTable:
    one_coordinate = _certified(found, demand)
    if demand.max_groups == 1:
        return one_coordinate
    return table_over_cells(found, demand, one_coordinate)


def _certified(found: Found, demand: Demand) -> NoiseTable:
    """The frozen table that spends delta by its own profile; with a scale a little larger if it must.

    Raises:
        PlanRefused: the weights of 2^-128 are too coarse for this epsilon and delta.
    """
    step = step_below(found.scale)
    for attempt in range(_ATTEMPTS):
        cut = default_cut(found.family, found.reach, 1 / float(step), demand.shift)
        spare = demand.shift + cut.support // 8
        support = min(cut.support + spare, (MAX_ENTRIES - 1) // 2)
        table = _spent(found.family, found.mass, step, support, demand)
        if table is not None:
            return table
        step *= 1 - Fraction(8**attempt, 2**24)
    raise unresolved(demand)


def _spent(family: Family, mass: Mass, step: Fraction, support: int, demand: Demand) -> NoiseTable | None:
    whole = masses(family, mass, 1 / float(step), support)
    return spend(
        whole,
        demand.shift,
        demand.epsilon,
        demand.delta,
        lambda cut: frozen(family, mass, step, cut, demand),
    )
