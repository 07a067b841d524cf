"""What noise is asked to meet, and which demands are refused before any search."""

from dataclasses import dataclass
from fractions import Fraction

from dp_spark.errors import PlanRefused
from dp_spark.noise.composition import dominating_shift
from dp_spark.noise.lattice import RESOLVED_LOG

_LEAST_DELTA = 1e-30


@dataclass(frozen=True, slots=True)
class Demand:
    """What a table must meet: `sensitivity` is in grid steps and per cell, for at most `max_groups` cells."""

    epsilon: Fraction
    delta: Fraction
    sensitivity: int
    max_groups: int

    @property
    def shift(self) -> int:
        """The shift of one coordinate that stands for all cells of a unit."""
        return dominating_shift(self.sensitivity, self.max_groups)


def checked_demand(
    epsilon: Fraction | float, delta: Fraction | float, sensitivity: int, max_groups: int
) -> Demand:
    """The demand of a caller.

    Raises:
        PlanRefused: a parameter is out of range.
    """
    return Demand(
        checked_epsilon(epsilon),
        checked_delta(delta),
        checked_count("sensitivity", sensitivity),
        checked_count("max_groups", max_groups),
    )


def checked_epsilon(epsilon: Fraction | float) -> Fraction:
    """Epsilon, exact.

    Raises:
        PlanRefused: it is not in (0, 88], beyond which 128 bits resolve nothing.
    """
    if not 0 < epsilon <= RESOLVED_LOG:
        raise PlanRefused(
            "epsilon_range",
            f"epsilon = {epsilon} must be above 0 and at most {RESOLVED_LOG}",
            way_out="choose a positive epsilon; 0.1 to 2 for one release is usual",
        )
    return Fraction(epsilon)


def checked_delta(delta: Fraction | float) -> Fraction:
    """Delta, exact.

    Raises:
        PlanRefused: it is not in [1e-30, 1 - 1e-9].
    """
    if not _LEAST_DELTA <= delta <= 1 - 1e-9:
        raise PlanRefused(
            "delta_range",
            f"delta = {delta} must lie in [{_LEAST_DELTA}, 1 - 1e-9]: pure epsilon (delta = 0) needs noise"
            " without bounds, which no table of finitely many values is",
            way_out="give delta > 0, well below 1 / number of units; or take `pure_epsilon_table`",
        )
    return Fraction(delta)


def checked_count(name: str, value: int, *, way_out: str = "") -> int:
    """`value`, if it is a whole number of at least 1.

    Raises:
        PlanRefused: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PlanRefused(
            f"{name}_range",
            f"{name} = {value} must be a whole number, at least 1",
            way_out=way_out or f"give {name} as an integer; sums are counted in steps of their grid",
        )
    return value


def unresolved(demand: Demand) -> PlanRefused:
    """The refusal of a demand that no weights of 2^-128 can be shown to meet."""
    return PlanRefused(
        "noise_resolution",
        f"epsilon = {float(demand.epsilon):g} with delta = {float(demand.delta):g} is finer than"
        " noise of 128 bits can prove",
        way_out="take a smaller epsilon (below 40) or a larger delta (above 1e-25)",
    )
