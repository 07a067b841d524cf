"""Randomizer, reading and estimator of the mechanisms that report a block or an answer."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.blocks import BlockReports, BlockSampler
from dp_spark.uldp.channel import Channel, checked_matrix
from dp_spark.uldp.decoding import decode
from dp_spark.uldp.designs import Ids
from dp_spark.uldp.estimate import Blocks, Consistency, Estimate, Method, Observed, ReportCounts
from dp_spark.uldp.given import checked_codes, checked_numbers
from dp_spark.uldp.limit import limit
from dp_spark.uldp.linear import block_scores
from dp_spark.uldp.names import MechanismName
from dp_spark.uldp.published import balanced_scores, subset_scores
from dp_spark.uldp.scores import Scores
from dp_spark.uldp.words import Words


@dataclass(frozen=True, slots=True)
class BlockMechanism:
    """A mechanism whose report is one number: of a block, of an answer, or of both.

    Attributes:
        name: which one it is.
        sampler: designs, their weights, epsilon.
    """

    name: MechanismName
    sampler: BlockSampler

    @property
    def n_categories(self) -> int:
        """The number w of categories."""
        return self.sampler.n_categories

    @property
    def n_sensitive(self) -> int:
        """The number v of sensitive ones."""
        return self.sampler.n_sensitive

    @property
    def epsilon(self) -> Fraction:
        """Of each report."""
        return self.sampler.epsilon

    @property
    def n_words(self) -> int:
        """Uniform words of one report."""
        return self.sampler.n_words

    def randomize(self, codes: Ids, words: Words) -> Ids:
        """One report for each code: (n,) and (n, n_words) to (n,).

        Raises:
            PlanRefused: a code lies outside 0..w-1, or the words have another shape or type.
        """
        return self.sampler.draw(*checked_codes(codes, words, self.n_categories, self.n_words))

    def observe(self, report_counts: ReportCounts) -> Observed:
        """Counted reports in the terms of the likelihood.

        Raises:
            PlanRefused: a report is none of this mechanism's.
        """
        space = self.sampler.reports
        reports, counts = checked_numbers(report_counts, space.size)
        growth = float(np.expm1(float(self.epsilon)))
        answers = _answers(space, reports, counts)
        return Observed(
            n_categories=self.n_categories,
            n_sensitive=self.n_sensitive,
            growth=growth,
            answer_rate=self._answer_rate(growth),
            blocks=tuple(self._blocks(i, reports, counts) for i in range(len(space.n_blocks))),
            answers=answers,
            n=int(counts.sum()),
        )

    def _answer_rate(self, growth: float) -> float:
        total = sum(weight for weight, _ in self.sampler.components)
        rates = (
            float(weight / total) * growth * share / (1 + growth * share)
            for weight, design in self.sampler.components
            for share in [design.replication / design.n_blocks]
        )
        return sum(rates)

    def _blocks(self, i: int, reports: Ids, counts: Ids) -> Blocks:
        space, (weight, design) = self.sampler.reports, self.sampler.components[i]
        starts = space.starts()
        alone = (reports >= starts[i]) & (reports < starts[i + 1])
        beside = (reports >= starts[-1]) if space.beside else np.zeros(len(reports), dtype=np.bool_)
        numbers = np.concatenate(
            [reports[alone] - starts[i], (reports[beside] - starts[-1]) // max(space.n_answers, 1)]
        )
        seen, place = np.unique(numbers, return_inverse=True)
        return Blocks(
            probability=float(weight / sum(weight for weight, _ in self.sampler.components)),
            design=design,
            incidence=design.incidence(seen),
            alone=_sums(place[: alone.sum()], counts[alone], len(seen)),
            beside=_sums(place[alone.sum() :], counts[beside], len(seen)),
        )

    def estimate(
        self,
        report_counts: ReportCounts,
        *,
        method: str = Method.LIKELIHOOD,
        consistency: str = Consistency.NONE,
    ) -> Estimate:
        """Shares of all categories, with their errors.

        Raises:
            PlanRefused: a report is none of this mechanism's, there are none, or the estimator is unknown.
        """
        observed = self.observe(report_counts)
        mass = limit(self.n_categories, self.n_sensitive, self.epsilon).alpha
        return decode(
            observed,
            lambda: self._published(observed, mass),
            mass=mass,
            method=method,
            consistency=consistency,
        )

    def _published(self, observed: Observed, mass: float) -> Scores:
        """The scores of the mechanism's own linear decoder."""
        if self.name is MechanismName.UBD:
            return block_scores(observed, mass)
        ((_, design),) = self.sampler.components
        if self.name is MechanismName.USS:
            return subset_scores(design, self.epsilon)
        return balanced_scores(design, self.epsilon)

    def channel(self) -> Channel:
        """The exact matrix of reports.

        Raises:
            PlanRefused: it has more than a million entries.
        """
        size, rows = self.sampler.reports.size, range(self.n_categories)
        checked_matrix(self.n_categories, size)
        matrix = np.full((self.n_categories, size), Fraction(0), dtype=object)
        for code in rows:
            for report, chance in self.sampler.probabilities(code).items():
                matrix[code, report] = chance
        reports = np.arange(size, dtype=np.int64)
        return Channel(reports, reports < self.sampler.reports.starts()[-2], matrix)


def _answers(space: BlockReports, reports: Ids, counts: Ids) -> Ids:
    """How often each answer was given in clear, alone or beside a block."""
    *_, first, last = space.starts()
    clear = reports >= first
    answers = np.where(reports < last, reports - first, (reports - last) % max(space.n_answers, 1))
    return _sums(answers[clear], counts[clear], space.n_answers)


def _sums(places: NDArray[np.int64], counts: Ids, size: int) -> Ids:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, places, counts)
    return sums
