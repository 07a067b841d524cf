"""Mechanisms that report a bit for each category: RAPPOR and optimized unary encoding, utility-optimized.

Every sensitive bit is set at random, that of the input more often. Of the other bits only that of the input
can be set; where it is, the report is invertible. Every report has the same length.

Source: Murakami, Kawamoto 2019 (uRAP); Wang, Blocki, Li, Jha 2017 (OUE).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Ids
from dp_spark.uldp.thresholds import BitThresholds
from dp_spark.uldp.words import WORD, Words

Bitmaps = NDArray[np.uint8]

_AT_ONCE = 2**12  # reports whose bits are in memory as bytes


@dataclass(frozen=True, slots=True)
class BitSampler:
    """Draws bitmaps by exact thresholds.

    Attributes:
        n_categories: w, the bits of a report, first the sensitive ones.
        n_sensitive: v.
        thresholds: of the words that set bits.
    """

    n_categories: int
    n_sensitive: int
    thresholds: BitThresholds

    @property
    def n_words(self) -> int:
        """One for each sensitive bit, one for the answer's."""
        return self.n_sensitive + 1

    @property
    def width(self) -> int:
        """Bytes of a report."""
        return -(-self.n_categories // 8)

    def draw(self, codes: Ids, words: Words) -> Bitmaps:
        """One bitmap for each code: (n,) and (n, n_words) to (n, width)."""
        drawn = np.empty((len(codes), self.width), dtype=np.uint8)
        for start in range(0, len(codes), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            drawn[here] = np.packbits(self._bits(codes[here], words[here]), axis=1)
        return drawn

    def _bits(self, codes: Ids, words: Words) -> NDArray[np.bool_]:
        v, thresholds = self.n_sensitive, self.thresholds
        bits = np.zeros((len(codes), self.n_categories), dtype=np.bool_)
        np.less(words[:, :v], np.uint64(thresholds.other), out=bits[:, :v])
        own = np.flatnonzero(codes < v)
        bits[own, codes[own]] = words[own, codes[own]] < np.uint64(thresholds.own)
        others = np.flatnonzero(codes >= v)
        bits[others, codes[others]] = words[others, v] < np.uint64(thresholds.answer)
        return bits

    def bits(self, reports: Bitmaps) -> NDArray[np.bool_]:
        """The bits of reports: (m, width) to (m, w)."""
        return np.unpackbits(reports, axis=1, count=self.n_categories).astype(np.bool_)

    def every_report(self) -> Bitmaps:
        """All reports that can occur: (2^v (w - v + 1), width)."""
        v, w = self.n_sensitive, self.n_categories
        answers = np.vstack([np.zeros(w - v, dtype=np.bool_), np.eye(w - v, dtype=np.bool_)])
        sensitive = np.array(list(product([False, True], repeat=v)), dtype=np.bool_).reshape(-1, v)
        bits = np.hstack([np.repeat(sensitive, w - v + 1, axis=0), np.tile(answers, (len(sensitive), 1))])
        return np.packbits(bits, axis=1)

    def probability(self, code: int, bits: NDArray[np.bool_]) -> Fraction:
        """The exact probability that an input gives a report with these w bits."""
        chances = zip(self._chances(code), bits.tolist(), strict=True)
        return prod((chance if bit else 1 - chance for chance, bit in chances), start=Fraction(1))

    def _chances(self, code: int) -> Iterator[Fraction]:
        """Of every bit of the report of one input to be set."""
        for bit in range(self.n_categories):
            if bit >= self.n_sensitive:
                yield Fraction(self.thresholds.answer if bit == code else 0, WORD)
            else:
                yield Fraction(self.thresholds.own if bit == code else self.thresholds.other, WORD)
