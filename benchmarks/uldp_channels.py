"""Why uBD need not be the best channel of a table: other block sizes, and the truth for which it is best.

Outside the sensitive categories the likelihood has an error of closed form, for n (1 - alpha) tau people have
answered in clear: (1 - alpha) (1 - sum of q^2) / (n tau), with the shares q among the others. It falls
in tau, the rate of answers in clear, which is larger for larger blocks.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from acs import PEOPLE, Case
from numpy.typing import NDArray
from printing import head, line
from uldp_against import paired_ratio
from uldp_errors import LIKELIHOOD, Decoders, Errors, decoder_errors, estimates

from dp_spark.uldp import (
    Affine,
    Consistency,
    Design,
    Mechanism,
    MechanismName,
    Method,
    ReportCounts,
    Trivial,
    limit,
    mechanism,
)
from dp_spark.uldp.block_mechanism import BlockMechanism
from dp_spark.uldp.blocks import BlockSampler, Component
from dp_spark.uldp.primes import least_prime

EPSILONS = (0.5, 1.0, 2.0, 3.0)
_PARTS_OF_V = (0.25, 0.5, 0.75, 1.0)
_UNBIASED = "unbiased"
_ONLY_LIKELIHOOD: Decoders = {LIKELIHOOD: (Method.LIKELIHOOD, Consistency.NONE)}
_ONLY_UNBIASED: Decoders = {_UNBIASED: (Method.LINEAR, Consistency.NONE)}


def block_sizes(case: Case, people: list[NDArray[np.int64]], seed: int) -> None:
    """Print the likelihood's errors with single designs of other block sizes than uBD has."""
    print(f"\n**{case.name}: other blocks than uBD has, by the likelihood.** Errors x 1e6; tau: the rate of")
    print("answers in clear; the last column is the closed form of the error outside.\n")
    print(head("epsilon", "block / v", "tau", "/ uBD", "shape inside", "mass", "outside", "closed form"))
    w, v = len(case.truth), case.n_sensitive
    for i, epsilon in enumerate(EPSILONS):
        ubd = mechanism(MechanismName.UBD, w, v, epsilon)
        expected = _errors(ubd, case, people, (seed, v, i), _ONLY_LIKELIHOOD)
        sizes = limit(w, v, epsilon).block_weights
        mean = sum(size * weight for size, weight in sizes.items()) / sum(sizes.values())
        print(_row(epsilon, f"{mean / v:.2f} (uBD)", case, _answer_rate(ubd), expected, "1"))
        for part in _PARTS_OF_V:
            made = _with_blocks(w, v, epsilon, part)
            found = _errors(made, case, people, (seed, v, i), _ONLY_LIKELIHOOD)
            beside = paired_ratio(found, expected)
            print(_row(epsilon, f"{part:.2f}", case, _answer_rate(made), found, str(beside)))


def _with_blocks(w: int, v: int, epsilon: float, part: float) -> BlockMechanism:
    q = least_prime(v)
    design: Design = Trivial.whole(v) if part == 1 else Affine(v, q, round(part * q))
    components = (Component(Fraction(1), design),)
    return BlockMechanism(MechanismName.UBD, BlockSampler(w, v, Fraction(epsilon), components))


def _answer_rate(mechanism: Mechanism) -> float:
    words = np.random.default_rng(0).integers(0, 2**64, (1, mechanism.n_words), dtype=np.uint64)
    report = mechanism.randomize(np.array([0]), words)
    return mechanism.observe(ReportCounts.of(report)).answer_rate


def _row(epsilon: float, size: str, case: Case, rate: float, found: Errors, beside: str) -> str:
    others = case.truth[case.n_sensitive :]
    closed = (others.sum() - (others**2).sum() / others.sum()) / (PEOPLE * rate * len(case.truth))
    parts = (f"{1e6 * part:.3g}" for part in found.parts.mean(axis=0))
    return line(f"{epsilon:g}", size, f"{rate:.3f}", beside, *parts, f"{1e6 * closed:.3g}")


def _errors(
    mechanism: Mechanism,
    case: Case,
    people: list[NDArray[np.int64]],
    seed: tuple[int, ...],
    decoders: Decoders,
) -> Errors:
    (errors,) = decoder_errors(case, list(estimates(mechanism, case, people, seed, decoders))).values()
    return errors


def hardest_truth(w: int, v: int, replicates: int, seed: int) -> None:
    """Print the unbiased decoders' errors, in units of the limit, at the truth where the limit is reached."""
    print(f"\n**w = {w}, v = {v}: unclipped published decoders at the hardest truth.** Error / limit.\n")
    print(head("epsilon", *MechanismName))
    for i, epsilon in enumerate(EPSILONS):
        hardest = limit(w, v, epsilon)
        truth = _even(w, v, hardest.alpha)
        case = Case("hardest", v, truth, np.arange(w))
        rng = np.random.default_rng((seed, v, i))
        people = [rng.choice(w, PEOPLE, p=truth) for _ in range(replicates)]
        row = []
        for name in MechanismName:
            found = _errors(mechanism(name, w, v, epsilon), case, people, (seed, v, i), _ONLY_UNBIASED)
            row.append(_in_units(found, hardest.mse / (PEOPLE * w)))
        print(line(f"{epsilon:g}", *row))


def _even(w: int, v: int, mass: float) -> NDArray[np.float64]:
    shares: Sequence[float] = [mass / v] * v + [(1 - mass) / (w - v)] * (w - v)
    return np.array(shares)


def _in_units(errors: Errors, unit: float) -> str:
    error = errors.std / len(errors.totals) ** 0.5
    return f"{errors.mean / unit:.2f} ± {error / unit:.2f}"
