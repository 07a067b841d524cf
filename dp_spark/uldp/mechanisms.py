"""Mechanisms of utility-optimized local privacy (ULDP), by name.

Of w categories the first v are sensitive. An output is protected, or invertible: then exactly one input can
give it, and that input is not sensitive. On protected outputs the probabilities of any two inputs, sensitive
or not, have a ratio of at most e^epsilon.

Source: Murakami, Kawamoto 2019 (ULDP, uRR, uRAP); Yoon, Park, Nam, Lee, arXiv 2509.24173 (uBD; the others as
in its evaluation).
"""

from fractions import Fraction
from functools import cache
from math import exp
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp.bit_mechanism import BitMechanism
from dp_spark.uldp.bitmaps import BitSampler
from dp_spark.uldp.block_mechanism import BlockMechanism
from dp_spark.uldp.blocks import BlockSampler, Component
from dp_spark.uldp.channel import Channel
from dp_spark.uldp.checking import checked_epsilon, checked_sizes
from dp_spark.uldp.choice import best_designs
from dp_spark.uldp.designs import Design, Ids
from dp_spark.uldp.estimate import Consistency, Estimate, Method, Observed, ReportCounts
from dp_spark.uldp.hadamard import Hadamard
from dp_spark.uldp.hashing import Hashing
from dp_spark.uldp.names import MechanismName
from dp_spark.uldp.primes import least_prime
from dp_spark.uldp.subset_selection import beside_probability, subset_design
from dp_spark.uldp.thresholds import bit_thresholds, largest_ratio
from dp_spark.uldp.trivial import Trivial
from dp_spark.uldp.words import Words

Reports = NDArray[np.int64] | NDArray[np.uint8]


class Mechanism(Protocol):
    """A randomizer of one categorical answer, and the estimator that belongs to it."""

    @property
    def name(self) -> MechanismName:
        """Which one it is."""

    @property
    def n_categories(self) -> int:
        """The number w of categories."""

    @property
    def n_sensitive(self) -> int:
        """The number v of sensitive ones, which are the first."""

    @property
    def epsilon(self) -> Fraction:
        """Of each report."""

    @property
    def n_words(self) -> int:
        """Uniform words of 64 bits that one report uses."""

    def randomize(self, codes: Ids, words: Words) -> Reports:
        """One report for each code: (n,) and (n, n_words) to (n,), or (n, width) bytes of a bitmap."""

    def observe(self, report_counts: ReportCounts) -> Observed:
        """Counted reports in the terms of the likelihood."""

    def estimate(
        self,
        report_counts: ReportCounts,
        *,
        method: str = Method.LIKELIHOOD,
        consistency: str = Consistency.NONE,
    ) -> Estimate:
        """Shares of all categories, with their errors."""

    def channel(self) -> Channel:
        """The exact matrix, for mechanisms that are small enough to write it out."""


def mechanism(name: str, n_categories: int, n_sensitive: int, epsilon: Fraction | float) -> Mechanism:
    """The mechanism of this name for the first `n_sensitive` of `n_categories` categories being sensitive.

    Args:
        name: one of `MechanismName`.
        n_categories: w, at least 2.
        n_sensitive: v, from 1 to w; w for plain local privacy.
        epsilon: of each report, from 0.0001 to 20.

    Raises:
        PlanRefused: there is no such mechanism, or a number is out of range.
    """
    if name not in set(MechanismName):
        raise PlanRefused(
            "unknown_mechanism",
            f"mechanism = {name!r} is none of {', '.join(MechanismName)}",
            way_out="take `ubd` unless you compare mechanisms",
        )
    checked_sizes(n_categories, n_sensitive)
    return _made(MechanismName(name), n_categories, n_sensitive, checked_epsilon(epsilon))


@cache
def _made(name: MechanismName, w: int, v: int, epsilon: Fraction) -> Mechanism:
    if name in (MechanismName.URAP, MechanismName.UOUE):
        own, other = _bit_probabilities(name, epsilon)
        return BitMechanism(name, epsilon, BitSampler(w, v, bit_thresholds(own, other, epsilon)))
    if name is MechanismName.UBD:
        return BlockMechanism(name, BlockSampler(w, v, epsilon, best_designs(w, v, epsilon).components))
    if name is MechanismName.USS:
        subsets = subset_design(w, v, epsilon)
        beside = beside_probability(subsets, epsilon)
        return BlockMechanism(name, BlockSampler(w, v, epsilon, _only(subsets), beside))
    return BlockMechanism(name, BlockSampler(w, v, epsilon, _only(_design(name, v, epsilon))))


def _bit_probabilities(name: MechanismName, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Of a sensitive input's own bit to be set, and of any other sensitive bit."""
    if name is MechanismName.UOUE:
        return Fraction(1, 2), 1 / (1 + largest_ratio(epsilon))
    other = 1 / (1 + largest_ratio(epsilon / 2))
    return 1 - other, other


def _design(name: MechanismName, v: int, epsilon: Fraction) -> Design:
    if name is MechanismName.UOLH:
        return Hashing(v, least_prime(max(v, 2)), round(exp(epsilon)) + 1)
    return Hadamard(v, first=True) if name is MechanismName.UHR else Trivial.singletons(v)


def _only(design: Design) -> tuple[Component, ...]:
    return (Component(Fraction(1), design),)
