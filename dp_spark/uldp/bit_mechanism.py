"""Randomizer, reading and estimator of the mechanisms that report a bit for each category."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_spark.uldp.bitmaps import Bitmaps, BitSampler
from dp_spark.uldp.channel import Channel, checked_matrix
from dp_spark.uldp.decoding import decode
from dp_spark.uldp.designs import Ids
from dp_spark.uldp.estimate import Blocks, Consistency, Estimate, Method, Observed, ReportCounts
from dp_spark.uldp.given import answered, checked_bitmaps, checked_codes
from dp_spark.uldp.incidence import dense
from dp_spark.uldp.names import MechanismName
from dp_spark.uldp.published import rappor_scores, unary_scores
from dp_spark.uldp.words import WORD, Words


@dataclass(frozen=True, slots=True)
class BitMechanism:
    """A mechanism whose report is a bitmap of all categories.

    Attributes:
        name: which one it is.
        epsilon: of each report.
        sampler: sizes and thresholds.
    """

    name: MechanismName
    epsilon: Fraction
    sampler: BitSampler

    @property
    def n_categories(self) -> int:
        """The number w of categories."""
        return self.sampler.n_categories

    @property
    def n_sensitive(self) -> int:
        """The number v of sensitive ones."""
        return self.sampler.n_sensitive

    @property
    def n_words(self) -> int:
        """Uniform words of one report."""
        return self.sampler.n_words

    def randomize(self, codes: Ids, words: Words) -> Bitmaps:
        """One bitmap for each code: (n,) and (n, n_words) to (n, width).

        Raises:
            PlanRefused: a code lies outside 0..w-1, or the words have another shape or type.
        """
        return self.sampler.draw(*checked_codes(codes, words, self.n_categories, self.n_words))

    def observe(self, report_counts: ReportCounts) -> Observed:
        """Counted reports in the terms of the likelihood.

        Raises:
            PlanRefused: a report is none of this mechanism's.
        """
        v, w = self.n_sensitive, self.n_categories
        reports, counts = checked_bitmaps(report_counts, self.sampler.width)
        bits = self.sampler.bits(reports)
        in_clear = answered(bits[:, v:])
        blocks = Blocks(
            probability=1.0,
            design=None,
            incidence=dense(bits[:, :v]),
            alone=np.where(in_clear, 0, counts),
            beside=np.where(in_clear, counts, 0),
        )
        return Observed(
            n_categories=w,
            n_sensitive=v,
            growth=float(np.expm1(float(self.epsilon))),
            answer_rate=self.sampler.thresholds.answer / WORD,
            blocks=(blocks,),
            answers=counts @ bits[:, v:].astype(np.int64),
            n=int(counts.sum()),
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
        scores = unary_scores if self.name is MechanismName.UOUE else rappor_scores
        return decode(
            self.observe(report_counts),
            lambda: scores(self.epsilon),
            mass=1.0,
            method=method,
            consistency=consistency,
        )

    def channel(self) -> Channel:
        """The exact matrix of reports.

        Raises:
            PlanRefused: it has more than a million entries.
        """
        v, w = self.n_sensitive, self.n_categories
        checked_matrix(w, 2**v * (w - v + 1))
        reports = self.sampler.every_report()
        bits = self.sampler.bits(reports)
        matrix = np.array(
            [[self.sampler.probability(code, row) for row in bits] for code in range(w)], dtype=object
        )
        return Channel(reports, bits[:, v:].sum(axis=1) == 0, matrix)
