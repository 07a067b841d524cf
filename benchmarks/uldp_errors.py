"""Squared errors of ULDP mechanisms on the same people, by decoder, in the parts that the limit has.

The squared error of a category, averaged over all, splits into the shape inside the sensitive categories, the
mass of them, and the shape of the others; their limits are M1, M3 and M2 (`dp_spark/uldp/limit.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from acs import Acs, Case
from numpy.typing import NDArray

from dp_spark.uldp import Consistency, Mechanism, Method, ReportCounts

Shares = NDArray[np.float64]
Decoders = Mapping[str, tuple[Method, Consistency]]

PUBLISHED = "published"  # the decoder of the mechanism's authors, clipped at 0 and divided by its sum
LIKELIHOOD = "likelihood"  # ours
DECODERS: Decoders = {
    PUBLISHED: (Method.LINEAR, Consistency.CLIP),
    LIKELIHOOD: (Method.LIKELIHOOD, Consistency.NONE),
}
FLOORS = {
    "mass and the others known": (False, False),
    "mass known": (False, True),
    "the others known": (True, False),
    "both estimated": (True, True),
}
_PEOPLE_AT_ONCE = 5_000  # a bitmap takes a word for each category of each person


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean squared errors of replicates.

    Attributes:
        parts: (R, 3) of the shape inside the sensitive categories, of their mass, of the others' shape.
    """

    parts: NDArray[np.float64]

    @property
    def totals(self) -> NDArray[np.float64]:
        """(R,) of each replicate."""
        return self.parts.sum(axis=1)

    @property
    def mean(self) -> float:
        """Over the replicates."""
        return float(self.totals.mean())

    @property
    def std(self) -> float:
        """Of one replicate."""
        return float(self.totals.std(ddof=1))


def drawn_people(acs: Acs, replicates: int, seed: int) -> list[NDArray[np.int64]]:
    """The labels of the people of each replicate."""
    return [acs.people(np.random.default_rng((seed, replicate))) for replicate in range(replicates)]


def error_parts(case: Case, shares: Shares) -> NDArray[np.float64]:
    """(3,) parts of the mean squared error of (w,) shares."""
    off = shares - case.truth
    inside, outside = off[: case.n_sensitive], off[case.n_sensitive :]
    mass = inside.sum() ** 2 / len(inside) + outside.sum() ** 2 / len(outside)
    return np.array([inside.var() * len(inside), mass, outside.var() * len(outside)]) / len(off)


def sampling_errors(case: Case, people: list[NDArray[np.int64]]) -> Errors:
    """Of the shares among the people who were drawn: no privacy."""
    counts = (np.bincount(case.code_of[labels], minlength=len(case.truth)) for labels in people)
    return Errors(np.array([error_parts(case, count / count.sum()) for count in counts]))


def counted_reports(mechanism: Mechanism, codes: NDArray[np.int64], rng: np.random.Generator) -> ReportCounts:
    """What people with these categories report."""
    parts = np.split(codes, range(_PEOPLE_AT_ONCE, len(codes), _PEOPLE_AT_ONCE))
    sizes = ((len(part), mechanism.n_words) for part in parts)
    words = (rng.integers(0, 2**64, size, dtype=np.uint64) for size in sizes)
    return ReportCounts.of(np.concatenate(list(map(mechanism.randomize, parts, words))))


def estimates(
    mechanism: Mechanism,
    case: Case,
    people: list[NDArray[np.int64]],
    seed: tuple[int, ...],
    decoders: Decoders = DECODERS,
) -> Iterator[dict[str, Shares]]:
    """For each replicate the shares by decoder, of the very same reports."""
    for replicate, labels in enumerate(people):
        rng = np.random.default_rng((*seed, replicate))
        reports = counted_reports(mechanism, case.code_of[labels], rng)
        yield {
            name: mechanism.estimate(reports, method=method, consistency=consistency).shares
            for name, (method, consistency) in decoders.items()
        }


def decoder_errors(case: Case, found: list[dict[str, Shares]]) -> dict[str, Errors]:
    """By decoder, of what `estimates` gives."""
    return {
        name: Errors(np.array([error_parts(case, shares[name]) for shares in found])) for name in found[0]
    }


def floor_errors(case: Case, found: list[Shares]) -> dict[str, Errors]:
    """Of shares that are even inside the sensitive categories, by what else is known.

    What is not known is as in `found`.
    """
    return {
        name: Errors(np.array([error_parts(case, _even(case, shares, *which)) for shares in found]))
        for name, which in FLOORS.items()
    }


def _even(case: Case, shares: Shares, mass_estimated: bool, others_estimated: bool) -> Shares:
    v = case.n_sensitive
    mass = (shares if mass_estimated else case.truth)[:v].sum()
    others = (shares if others_estimated else case.truth)[v:]
    return np.concatenate([np.full(v, mass / v), others * (1 - mass) / others.sum()])
