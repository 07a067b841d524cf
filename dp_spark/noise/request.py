"""What a joint calibration is asked to meet, and the shapes of noise that it tries."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.cutting import CUT_SHARE
from dp_spark.noise.demand import checked_count, checked_delta, checked_epsilon
from dp_spark.noise.families import Family
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.neighbours import Case, Part, worst_cases


@dataclass(frozen=True, slots=True)
class Shape:
    """A family and the share of delta that the cut of its tails may expose."""

    family: Family
    cut_share: float = CUT_SHARE

    @property
    def name(self) -> str:
        """The name of the family, after `truncated` where its cut spends a share of delta."""
        cut = self.cut_share > CUT_SHARE
        return f"truncated {self.family.name}" if cut else self.family.name

    @property
    def kind(self) -> str:
        """The name without a parameter."""
        return self.name.partition("(")[0]


class Fixed(NamedTuple):
    """A table that is what it is, and what one unit moves of what it is added to."""

    table: NoiseTable
    part: Part


@dataclass(frozen=True, slots=True)
class Request:
    """What `horizon` releases of all parts have to meet together, checked.

    Attributes:
        parts: whose tables are wanted.
        epsilon: of the guarantee.
        delta: of the guarantee.
        horizon: how many releases.
        cases: what moves in all of them: of each part, then of each part of `fixed`.
        fixed: tables that are drawn beside them and are what they are, with their parts.
    """

    parts: tuple[Part, ...]
    epsilon: float
    delta: float
    horizon: int
    cases: tuple[Case, ...]
    fixed: tuple[Fixed, ...] = ()

    @property
    def draws(self) -> int:
        """How many independent losses there are, in the case with most of them."""
        return max(sum(moved.cells for moves in case for moved in moves) for case in self.cases)

    def rough_scale(self) -> float:
        """The std of Gaussian noise, per unit of shift, by zCDP: within a factor of two for any family."""
        squares = max(
            sum(
                moved.cells * (moved.shift / part.sensitivity * part.weight) ** 2
                for part, moves in zip(self.parts, case[: len(self.parts)], strict=True)
                for moved in moves
            )
            for case in self.cases
        )
        log = math.log(1 / self.delta)
        return math.sqrt(squares / 2) / (math.sqrt(log + self.epsilon) - math.sqrt(log))


@dataclass(frozen=True, slots=True)
class Found:
    """A shape, the lambda that meets the request, and the mean variance per squared shift there."""

    shape: Shape
    scale: float
    variance: float


def checked(
    parts: Sequence[Part], guarantee: PrivacyGuarantee, horizon: int, fixed: Sequence[Fixed] = ()
) -> Request:
    """The request of a caller.

    Raises:
        PlanRefused: there is no part, or a parameter is out of range.
    """
    if not parts:
        raise PlanRefused("parts_missing", "there is no total to plan", way_out="ask at least one query")
    checked_count("horizon", horizon, way_out="give the number of releases that the budget is for")
    epsilon, delta = checked_epsilon(guarantee.epsilon), checked_delta(guarantee.delta)
    cases = worst_cases([*parts, *(each.part for each in fixed)], horizon)
    return Request(tuple(parts), float(epsilon), float(delta), horizon, cases, tuple(fixed))
