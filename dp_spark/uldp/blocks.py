"""Mechanisms that report a block of sensitive categories, or a non-sensitive answer in clear.

For x sensitive, block B with probability c e^epsilon if x lies in B, else c; for x not sensitive each block
with probability c, and x itself with the rest. With several designs, public weights choose one first.

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_spark.uldp.designs import Design, Ids
from dp_spark.uldp.thresholds import BlockThresholds, block_thresholds, split
from dp_spark.uldp.words import WORD, Words, index_of, index_probability, words_for


class Component(NamedTuple):
    """A design and the public weight with which it is used."""

    weight: Fraction
    design: Design


class Part(NamedTuple):
    """What one stretch of the first word leads to.

    Attributes:
        words: the length of the stretch.
        component: whose block is reported, or None for an answer alone.
        inside: whether the block contains the input, where that is fixed.
        beside: whether the answer goes with the block.
    """

    words: int
    component: int | None
    inside: bool | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class BlockReports:
    """The numbers that stand for reports: blocks of each component, then answers, then blocks beside answers.

    Attributes:
        n_blocks: of each component.
        n_answers: non-sensitive categories.
        beside: whether blocks are reported beside answers.
    """

    n_blocks: tuple[int, ...]
    n_answers: int
    beside: bool

    def starts(self) -> tuple[int, ...]:
        """The first report of each component, then of the answers, then of the blocks beside answers."""
        return tuple(accumulate((*self.n_blocks, self.n_answers), initial=0))

    @property
    def size(self) -> int:
        """How many reports there are."""
        return self.starts()[-1] + self.beside * sum(self.n_blocks) * self.n_answers


@dataclass(frozen=True, slots=True)
class BlockSampler:
    """Draws reports by exact thresholds.

    Attributes:
        n_categories: w.
        n_sensitive: v.
        epsilon: of each report.
        components: designs with their weights; one where blocks are reported beside answers.
        beside: the probability that a non-sensitive answer goes with a block that says nothing.
    """

    n_categories: int
    n_sensitive: int
    epsilon: Fraction
    components: tuple[Component, ...]
    beside: Fraction = Fraction(0)

    @property
    def index_words(self) -> int:
        """Words that choose a block."""
        return words_for(max(design.n_blocks for _, design in self.components))

    @property
    def n_words(self) -> int:
        """Words of one report: one chooses the kind of it, the others the block."""
        return 1 + self.index_words

    @property
    def reports(self) -> BlockReports:
        """The numbers of the reports."""
        n_blocks = tuple(design.n_blocks for _, design in self.components)
        return BlockReports(n_blocks, self.n_categories - self.n_sensitive, self.beside > 0)

    def draw(self, codes: Ids, words: Words) -> Ids:
        """One report for each code: (n,) and (n, n_words) to (n,)."""
        drawn = np.full(len(codes), -1, dtype=np.int64)
        is_sensitive = codes < self.n_sensitive
        for sensitive in (True, False):
            parts = stretches(self, sensitive=sensitive)
            among = is_sensitive if sensitive else ~is_sensitive
            for part, chosen in zip(parts, _within(words[:, 0], parts), strict=True):
                people = np.flatnonzero(among & chosen)
                drawn[people] = self._reports(part, codes[people], words[people, 1:])
        if (drawn < 0).any():  # never a report that was not drawn
            raise RuntimeError("internal error: somebody was given no report, so nobody was")
        return drawn

    def _reports(self, part: Part, codes: Ids, words: Words) -> Ids:
        answers = codes - self.n_sensitive
        starts = self.reports.starts()
        if part.component is None:
            return starts[-2] + answers
        blocks = _blocks(self.components[part.component].design, part.inside, codes, words)
        if part.beside:
            return starts[-1] + blocks * self.reports.n_answers + answers
        return starts[part.component] + blocks

    def probabilities(self, code: int) -> dict[int, Fraction]:
        """The exact probability of each report of one input."""
        sensitive = code < self.n_sensitive
        found: dict[int, Fraction] = {}
        for part in stretches(self, sensitive=sensitive):
            size = self._block_count(part)
            index = np.arange(size, dtype=np.int64)
            words = np.zeros((size, self.index_words), dtype=np.uint64)
            words[:, 0] = [-(-int(i) * WORD // size) for i in index]
            reports = self._reports(part, np.full(size, code), words)
            for i, report in zip(index, reports, strict=True):
                chance = Fraction(part.words, WORD) * index_probability(int(i), size, self.index_words)
                found[int(report)] = found.get(int(report), Fraction(0)) + chance
        return found

    def _block_count(self, part: Part) -> int:
        if part.component is None:
            return 1
        design = self.components[part.component].design
        return _choices(design, part.inside)


@cache
def stretches(sampler: BlockSampler, *, sensitive: bool) -> tuple[Part, ...]:
    """The stretches of the first word, for an input of this kind; together 2^64 words."""
    found: list[Part] = []
    for i, threshold in enumerate(_thresholds(sampler)):
        if sensitive:
            found += [Part(threshold.inside, i, inside=True), Part(threshold.outside, i, inside=False)]
        else:
            found.append(Part(threshold.protected, i))
    left = WORD - sum(part.words for part in found)
    if not sensitive:
        beside = min(left, round(sampler.beside * WORD))
        found += [Part(beside, 0, beside=True), Part(left - beside, None)]
    return tuple(part for part in found if part.words)


def _thresholds(sampler: BlockSampler) -> Iterator[BlockThresholds]:
    chosen = split(tuple(weight for weight, _ in sampler.components))
    for words, (_, design) in zip(chosen, sampler.components, strict=True):
        yield block_thresholds(
            words, design.replication, design.n_blocks, sampler.epsilon, index_words=sampler.index_words
        )


def _choices(design: Design, inside: bool | None) -> int:
    if inside is None:
        return design.n_blocks
    return design.replication if inside else design.n_blocks - design.replication


def _blocks(design: Design, inside: bool | None, codes: Ids, words: Words) -> Ids:
    index = index_of(words, _choices(design, inside))
    if inside is None:
        return index
    return design.containing(codes, index) if inside else design.missing(codes, index)


def _within(words: NDArray[np.uint64], parts: tuple[Part, ...]) -> list[NDArray[np.bool_]]:
    """Which words lie in each stretch; the last ends at 2^64, which no word holds."""
    ends = [np.uint64(end) for end in list(accumulate(part.words for part in parts))[:-1]]
    below = [
        np.zeros(len(words), dtype=np.bool_),
        *(words < end for end in ends),
        np.ones(len(words), np.bool_),
    ]
    return [upper & ~lower for lower, upper in pairwise(below)]
