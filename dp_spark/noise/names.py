"""Noise families by name: those without a parameter, and any from the text of its name."""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

from dp_spark.errors import PlanRefused
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic, Subbotin, TruncatedLaplace
from dp_spark.noise.hyperbolic import Hyperbolic

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for family in (Laplace(), Logistic(), Gaussian())},
)
_WITH_PARAMETER: Mapping[str, Callable[[Fraction], Family]] = MappingProxyType(
    {"subbotin": Subbotin, "truncated_laplace": TruncatedLaplace, "hyperbolic": Hyperbolic},
)


def family_named(text: str) -> Family:
    """The family of this name: `laplace`, `logistic`, `gaussian`, or one with its parameter, `subbotin(1.5)`.

    Raises:
        PlanRefused: there is none, or its parameter is out of range.
    """
    call = re.fullmatch(r"([a-z_]+)\(([0-9]+(?:[./][0-9]+)?)\)", text)
    if text in FAMILIES:
        return FAMILIES[text]
    if call and call[1] in _WITH_PARAMETER and not re.search(r"/0+$", call[2]):
        return _WITH_PARAMETER[call[1]](Fraction(call[2]))
    known = ", ".join([*FAMILIES, *(f"{name}(number)" for name in _WITH_PARAMETER)])
    raise PlanRefused(
        "noise_unknown", f"there is no noise family {text[:80]!r}", way_out=f"take one of: {known}"
    )
