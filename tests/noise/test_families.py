"""The contract that every family meets; a new one joins through FAMILIES."""

import numpy as np
import pytest
from flint import arb

from dp_spark.noise import FAMILIES, Family, Gaussian, Laplace

GRID = np.linspace(-12, 12, 481)
VARIANCE = {"laplace": 2.0, "gaussian": 1.0}

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def test_families_are_found_by_their_own_name() -> None:
    assert dict(FAMILIES) == {"laplace": Laplace(), "gaussian": Gaussian()}


@every_family
def test_psi_is_even_convex_and_least_at_zero(family: Family) -> None:
    psi = family.psi(GRID)
    np.testing.assert_array_equal(psi, family.psi(-GRID))
    assert np.all(np.diff(psi, 2) >= -1e-12)
    assert psi.argmin() == len(GRID) // 2


@every_family
def test_psi_of_balls_contains_psi_of_floats(family: Family) -> None:
    for x in (-3.5, 0.0, 0.125, 7.0):
        assert family.psi(arb(x)).contains(arb(float(family.psi(np.array([x]))[0])))


@every_family
def test_standard_member_has_the_variance_that_the_docstring_states(family: Family) -> None:
    x = np.linspace(-60, 60, 240_001)
    mass = np.exp(-family.psi(x))
    assert (x**2 @ mass) / mass.sum() == pytest.approx(VARIANCE[family.name], rel=1e-6)
