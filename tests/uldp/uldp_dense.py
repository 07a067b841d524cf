"""Explicit channels with their designs as matrices: every report that can occur, with all probabilities."""

import math
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.linalg import hadamard

from dp_spark.uldp.estimate import Blocks, Observed


@dataclass(frozen=True)
class Dense:
    """A design as its 0/1 matrix (b, v); also the incidence of all its blocks, in their order."""

    matrix: np.ndarray

    def __post_init__(self):
        together = self.matrix.T @ self.matrix
        off = together[~np.eye(self.n_points, dtype=bool)]
        assert len(set(np.diag(together).tolist())) == 1
        assert len(set(off.tolist())) <= 1

    @property
    def name(self):
        return f"dense{self.matrix.shape}"

    @property
    def n_points(self):
        return self.matrix.shape[1]

    @property
    def n_blocks(self):
        return self.matrix.shape[0]

    @property
    def replication(self):
        return int(self.matrix[:, 0].sum())

    @property
    def pairs(self):
        return int(self.matrix[:, 0] @ self.matrix[:, 1]) if self.n_points > 1 else 0

    def sums(self, shares):
        return self.matrix @ shares

    def supports(self, weights):
        return self.matrix.T @ weights


@dataclass(frozen=True)
class Bits:
    """Any sets of sensitive bits: an incidence, no design."""

    matrix: np.ndarray
    sums = Dense.sums
    supports = Dense.supports


def complete(v, k):
    return Dense(np.array([[x in block for x in range(v)] for block in combinations(range(v), k)], dtype=int))


def affine(v, q, size):
    orbit = product(range(1, max((q - 1) // 2, 1) + 1), range(q))
    return Dense(np.array([[(a * x + b) % q < size for x in range(v)] for a, b in orbit], dtype=int))


def columns(v):
    order = 2 ** math.ceil(math.log2(v + 1))
    return Dense((hadamard(order)[1 : v + 1].T == 1).astype(int))


def hashing(v, q, cells):
    cell = product(range(1, q), range(q), range(cells))
    return Dense(
        np.array([[(a * x + b) % q * cells // q == y for x in range(v)] for a, b, y in cell], dtype=int)
    )


@dataclass(frozen=True)
class World:
    """A mechanism written out.

    `block` (m,) numbers the block of a report in all components' blocks together, -1 for none; `answer` (m,)
    is the non-sensitive answer from 0, -1 for none; `matrix` (w, m) has rows that sum to 1.
    """

    w: int
    v: int
    epsilon: float
    components: tuple
    rate: float
    block: np.ndarray
    answer: np.ndarray
    matrix: np.ndarray

    def observed(self, counts):
        """The counts (m,) of all reports in the terms of the likelihood."""
        counts = np.asarray(counts, dtype=np.int64)
        sizes = [incidence.matrix.shape[0] for _, incidence in self.components]
        total = np.zeros((2, sum(sizes)), dtype=np.int64)
        has = self.block >= 0
        np.add.at(total, ((self.answer[has] >= 0).astype(int), self.block[has]), counts[has])
        answers = np.zeros(self.w - self.v, dtype=np.int64)
        clear = self.answer >= 0
        np.add.at(answers, self.answer[clear], counts[clear])
        ends = np.cumsum(sizes)
        blocks = tuple(
            Blocks(
                t,
                incidence if isinstance(incidence, Dense) else None,
                incidence,
                total[0, end - size : end],
                total[1, end - size : end],
            )
            for (t, incidence), size, end in zip(self.components, sizes, ends, strict=True)
        )
        return Observed(
            self.w, self.v, math.expm1(self.epsilon), self.rate, blocks, answers, int(counts.sum())
        )

    def one(self, report):
        return self.observed(np.eye(self.matrix.shape[1], dtype=np.int64)[report])


def block_world(w, v, epsilon, components):
    """Blocks of a mixture of designs, and answers alone."""
    g, e = math.expm1(epsilon), math.exp(epsilon)
    rows, leaving = [], 0.0
    for t, design in components:
        c = 1 / (design.replication * g + design.n_blocks)
        inside = t * c * (1 + g * design.matrix.T)
        rows.append(np.concatenate([inside, np.full((w - v, design.n_blocks), t * c)]))
        leaving += t * design.n_blocks * c
    rate = 1 - leaving
    assert np.isclose(e, g + 1)
    m = sum(design.n_blocks for _, design in components)
    rows.append(np.concatenate([np.zeros((v, w - v)), rate * np.eye(w - v)]))
    return World(
        w,
        v,
        epsilon,
        tuple(components),
        rate,
        np.concatenate([np.arange(m), np.full(w - v, -1)]),
        np.concatenate([np.full(m, -1), np.arange(w - v)]),
        np.concatenate(rows, axis=1),
    )


def subset_world(w, v, epsilon, k):
    """uSS as published: some subsets come beside an answer."""
    g, e, design = math.expm1(epsilon), math.exp(epsilon), complete(v, k)
    b = design.n_blocks
    some = v * (e * (k - 1) - k + v) / ((v - 1) * (k * g + v))
    beside = g * (k - 1) / (e * (k - 1) - k + v)
    alone = block_world(w, v, epsilon, [(1.0, design)]).matrix[:v, :b]
    alone = np.concatenate([alone, np.full((w - v, b), some * (1 - beside) / b)])
    paired = np.concatenate(
        [np.zeros((v, b * (w - v))), np.kron(np.eye(w - v), np.full(b, some * beside / b))]
    )
    lone = np.concatenate([np.zeros((v, w - v)), (1 - some) * np.eye(w - v)])
    block = np.concatenate([np.arange(b), np.tile(np.arange(b), w - v), np.full(w - v, -1)])
    answer = np.concatenate([np.full(b, -1), np.repeat(np.arange(w - v), b), np.arange(w - v)])
    return World(
        w,
        v,
        epsilon,
        ((1.0, design),),
        k * g / (k * g + v),
        block,
        answer,
        np.concatenate([alone, paired, lone], axis=1),
    )


def bit_world(w, v, epsilon, own, noise, rate):
    """uOUE and uRAP: all sensitive bits, and at most one other."""
    sets = np.array(list(product([0, 1], repeat=v)))
    b = len(sets)

    def likely(x):
        ones = np.full(v, noise)
        if x < v:
            ones[x] = own
        return np.prod(np.where(sets == 1, ones, 1 - ones), axis=1)

    bits = np.array([likely(x) for x in range(w)])
    other = np.arange(w) >= v
    alone = bits * np.where(other, 1 - rate, 1.0)[:, None]
    paired = np.kron(np.eye(w)[:, v:], np.ones(b)) * np.tile(bits, w - v) * rate
    block = np.concatenate([np.arange(b), np.tile(np.arange(b), w - v)])
    answer = np.concatenate([np.full(b, -1), np.repeat(np.arange(w - v), b)])
    return World(
        w, v, epsilon, ((1.0, Bits(sets)),), rate, block, answer, np.concatenate([alone, paired], axis=1)
    )
