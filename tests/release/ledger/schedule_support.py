"""Noise tables, schedules and the adaptive adversary of the design for the tests of accounts."""

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.noise import Family, Gaussian, Laplace, NoiseTable, Part, freeze
from dp_spark.noise.composition import table_law
from dp_spark.release.ledger.schedule import Draw, ReleaseNoise, Schedule


def pair(epsilon, delta="1e-6"):
    return PrivacyGuarantee(Fraction(epsilon), Fraction(delta))


def table(family: Family, scale, support: int, sensitivity: int = 1) -> NoiseTable:
    return freeze(family, 1 / Fraction(scale), support, sensitivity=sensitivity, max_groups=1)


def noise(
    *tables: NoiseTable, cells: int = 1, overlap=None, neighbours=Neighbours.ADD_REMOVE
) -> ReleaseNoise:
    parts = [Part(each.sensitivity, cells, overlap=overlap) for each in tables]
    return ReleaseNoise(neighbours, tuple(map(Draw, tables, parts)))


def schedule(release: ReleaseNoise, slots: int, name: str = "nightly") -> Schedule:
    return Schedule(name, release, slots)


def gaussian_night() -> NoiseTable:
    """Least Gaussian noise of (1, 1e-7) alone, at sensitivity 32; the cut costs less than 1e-13."""

    def excess(d: float) -> float:
        return norm.cdf(d / 2 - 1 / d) - math.e * norm.cdf(-d / 2 - 1 / d) - 1e-7

    scale = Fraction(32 / brentq(excess, 0.1, 1))
    return table(Gaussian(), scale, int(8 * scale), 32)


FIRST = table(Gaussian(), 10, 150)
BRANCHES = [
    table(family, scale, support)
    for family, scale, support in (
        (Gaussian(), "4.665", 70),
        (Laplace(), "1.634", 60),
        (Laplace(), "5", 58),
    )
]


def adaptive_delta(first: NoiseTable, branches: list[NoiseTable], epsilon: float) -> float:
    """The delta, exactly, of looking at `first` and then drawing from whichever branch hurts most."""
    look, laws = table_law(first, 1), [table_law(branch, 1) for branch in branches]
    left = epsilon - look.losses[:, None]
    after = [
        law.infinite - np.sum(law.masses * np.expm1(-np.maximum(law.losses - left, 0.0)), axis=1)
        for law in laws
    ]
    return look.infinite + float(np.sum(look.masses * np.max(after, axis=0)))
