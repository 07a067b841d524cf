"""Symmetric log-concave noise families: one small law each, all behind one Protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

Real = TypeVar("Real", arb, NDArray[np.float64])


class Family(Protocol):
    """A scale family of noise; the density of its standard member is proportional to exp(-psi).

    `psi` is even and convex, least at zero. It is written in operators that rigorous balls and float
    arrays share: balls make the tables, floats only search for the scale.

    Source: Vinterbo, arXiv 2202.11393v3, sections 1 and 2.
    """

    @property
    def name(self) -> str:
        """The name under which specs, tables and reports know the family."""
        ...

    def psi(self, x: Real) -> Real:
        """Minus the log density of the standard member at `x`, up to a constant."""
        ...


@dataclass(frozen=True, slots=True)
class Laplace:
    """psi(x) = abs(x); the standard member has variance 2."""

    name: ClassVar[str] = "laplace"

    def psi(self, x: Real) -> Real:
        """abs(x)."""
        return abs(x)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """psi(x) = x^2 / 2; the standard member has variance 1, so its scale is its std."""

    name: ClassVar[str] = "gaussian"

    def psi(self, x: Real) -> Real:
        """x^2 / 2."""
        return x * x / 2


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for family in (Laplace(), Gaussian())},
)
