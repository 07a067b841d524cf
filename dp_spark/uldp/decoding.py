"""From counted reports to shares: the estimator that a method names."""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from dp_spark.errors import PlanRefused
from dp_spark.uldp.estimate import Consistency, Estimate, Method, Observed
from dp_spark.uldp.likelihood import likelihood
from dp_spark.uldp.linear import adaptive_estimate, linear_estimate
from dp_spark.uldp.scores import Scores

_Name = TypeVar("_Name", bound=StrEnum)


def decode(
    observed: Observed, published: Callable[[], Scores], *, mass: float, method: str, consistency: str
) -> Estimate:
    """The shares of all categories.

    Args:
        observed: counted reports.
        published: makes the scores of the mechanism's own linear decoder.
        mass: of the sensitive categories, at which `Method.ADAPTIVE` begins.
        method: one of `Method`.
        consistency: one of `Consistency`; `Method.LIKELIHOOD` is consistent whatever it says.

    Raises:
        PlanRefused: there is no such method or consistency, there are no reports, or the mechanism has no
            design to which weights could adapt.
    """
    way, after = _named(Method, "method", method), _named(Consistency, "consistency", consistency)
    match way:
        case Method.LINEAR:
            return linear_estimate(observed, published(), consistency=after)
        case Method.ADAPTIVE:
            return adaptive_estimate(observed, mass, consistency=after)
        case Method.LIKELIHOOD:
            return replace(likelihood(observed), consistency=after)


def _named(names: type[_Name], parameter: str, given: str) -> _Name:
    if given not in set(names):
        raise PlanRefused(
            "unknown_estimator",
            f"{parameter} = {given!r} is none of {', '.join(names)}",
            way_out=f"leave {parameter} out unless you compare estimators",
        )
    return names(given)
