"""What could still be gained: other block sizes, channels for one truth, better priors; synthetic truths.

python benchmarks/uldp_further.py [--runs 16] [--seed 1] [--parts sizes channels simulated priors]

All estimates are by the likelihood of the reports with the learned prior unless a column says otherwise;
"+-" is one standard error over the runs, or over draws of truths. MSE is summed over all categories.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from printing import arguments, head, line
from uldp_optimal import Truth

from dp_spark.uldp import Affine, Design, Trivial, limit
from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import Blocks, Observed
from dp_spark.uldp.evidence import Evidence
from dp_spark.uldp.incidence import dense
from dp_spark.uldp.likelihood import likelihood
from dp_spark.uldp.linear import block_scores, linear_estimate
from dp_spark.uldp.prior import FixedPrior

Random = np.random.Generator
Estimator = Callable[[Observed], Floats]
SHAPES: dict[str, Callable[[int, Random], Floats]] = {
    "uniform": lambda v, _: np.ones(v),
    "Zipf": lambda v, _: 1 / np.arange(1.0, v + 1),
    "geometric": lambda v, _: np.exp(-8 * np.arange(v) / v),
    "sparse": lambda v, _: (np.arange(v) < max(2, v // 8)).astype(float),
    "Dirichlet(1)": lambda v, random: random.dirichlet(np.ones(v)),
    "one heavy": lambda v, _: np.concatenate([[v - 1.0], np.ones(v - 1)]),
}
SKEWED = [name for name in SHAPES if name != "uniform"]
MASS = 0.6  # of the sensitive categories
CASES = ((31, 0.5, 10_000), (31, 2.0, 10_000), (101, 1.0, 30_000))
FACTORS = (0.4, 0.7, 1.4, 2.0)  # of the minimax block size
OTHERS = 20  # non-sensitive categories


@dataclass(frozen=True)
class Survey:
    """A truth and the designs, each with its probability, by which people report."""

    truth: Floats
    components: tuple[tuple[float, Design], ...]
    growth: float
    n: int

    @cached_property
    def chances(self) -> tuple[list[Floats], Floats, float]:
        """Probabilities of the blocks of each component, of the answers in clear, and tau."""
        v, g = self.components[0][1].n_points, self.growth
        blocks, protected = [], 0.0
        for share, design in self.components:
            sums = design.incidence(np.arange(design.n_blocks)).sums(self.truth[:v])
            rate = share / (design.replication * g + design.n_blocks)
            blocks.append(rate * (1 + g * sums))
            protected += rate * design.n_blocks
        return blocks, (1 - protected) * self.truth[v:], 1 - protected

    def observed(self, random: Random) -> Observed:
        """The reports of n people."""
        blocks, answers, tau = self.chances
        whole = np.concatenate([*blocks, answers])
        counts = random.multinomial(self.n, whole / whole.sum())
        parts = np.split(counts, np.cumsum([len(block) for block in blocks]))
        seen = [np.flatnonzero(part) for part in parts[:-1]]
        found = tuple(
            Blocks(share, design, design.incidence(these), part[these], np.zeros_like(these))
            for (share, design), part, these in zip(self.components, parts[:-1], seen, strict=True)
        )
        v = self.components[0][1].n_points
        return Observed(len(self.truth), v, self.growth, tau, found, parts[-1], self.n)

    def errors(self, random: Random, runs: int, *estimators: Estimator) -> Floats:
        """Summed squared errors, (estimators, runs)."""
        surveys = [self.observed(random) for _ in range(runs)]
        return np.array([[((by(one) - self.truth) ** 2).sum() for one in surveys] for by in estimators])


def truth_of(shape: str, v: int, random: Random) -> Floats:
    """Shares of v sensitive categories with this shape, MASS together, and of OTHERS alike."""
    sensitive = SHAPES[shape](v, random)
    return np.concatenate([MASS * sensitive / sensitive.sum(), np.full(OTHERS, (1 - MASS) / OTHERS)])


def by_likelihood(observed: Observed) -> Floats:
    """Shares under the learned prior."""
    return likelihood(observed).shares


def mean(values: Floats) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def ratio(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """The ratio of two independent means and its standard error."""
    (top, top_error), (bottom, bottom_error) = mean(ours), mean(theirs)
    return top / bottom, top / bottom * math.hypot(top_error / top, bottom_error / bottom)


def together(ratios: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The geometric mean of independent ratios and its standard error."""
    average = math.exp(sum(math.log(value) for value, _ in ratios) / len(ratios))
    return average, average * math.hypot(*(error / value for value, error in ratios)) / len(ratios)


def shown(pair: tuple[float, float], digits: int = 2) -> str:
    """As "1.02 +- 0.03"."""
    return f"{round(pair[0], digits) + 0.0:.{digits}f} +- {pair[1]:.{digits}f}"  # no -0.0


def of_size(v: int, size: int) -> Design:
    """A design of a prime number of points whose blocks have this size."""
    return Trivial.singletons(v) if size == 1 else Affine(v, v, size)


def designs_of(v: int, epsilon: float) -> dict[str, tuple[tuple[float, Design], ...]]:
    """The minimax mixture first, then other sizes and mixtures of them."""
    weights = limit(v + OTHERS, v, epsilon).block_weights
    best = max(weights, key=lambda size: weights[size])
    found = {"k*": tuple((share, of_size(v, size)) for size, share in weights.items())}
    for factor in FACTORS:
        found[f"{factor} k*"] = ((1.0, of_size(v, max(1, round(factor * best)))),)
    wide = (of_size(v, max(1, round(0.4 * best))), of_size(v, min(v - 1, round(2 * best))))
    return {**found, "0.4 and 2 k*": ((0.5, wide[0]), (0.5, wide[1]))}


def block_sizes(runs: int, random: Random) -> Iterator[str]:
    """MSE at other block sizes in units of that at the minimax size."""
    yield "## Block sizes: MSE over that of the minimax size k* (below 1: better)\n"
    names = [*designs_of(31, 1.0)][1:]
    skewed: dict[tuple[int, float, int], list[tuple[float, float]]] = {}
    yield head("v", "epsilon", "n", "k*", "truth", *names)
    for case in CASES:
        v, epsilon, n = case
        designs, totals = designs_of(v, epsilon), {}
        for shape in SHAPES:
            truth = truth_of(shape, v, random)
            at_best, *surveys = (Survey(truth, parts, math.expm1(epsilon), n) for parts in designs.values())
            first = at_best.errors(random, 3 * runs, by_likelihood)[0]
            totals[shape] = [ratio(each.errors(random, runs, by_likelihood)[0], first) for each in surveys]
            yield line(*case, _sizes(designs["k*"]), shape, *map(shown, totals[shape]))
        skewed[case] = [together([totals[shape][i] for shape in SKEWED]) for i in range(len(names))]
        yield line(*case, _sizes(designs["k*"]), "**all skewed**", *map(shown, skewed[case]))
    everywhere = [together([found[i] for found in skewed.values()]) for i in range(len(names))]
    yield line("all", "", "", "", "**all skewed**", *map(shown, everywhere))


def _sizes(components: tuple[tuple[float, Design], ...]) -> str:
    return ", ".join(f"{round(d.n_points * d.replication / d.n_blocks)}" for _, d in components)


def best_channels(random: Random) -> Iterator[str]:
    """What a channel made for one truth gains over uBD there, for many reports."""
    yield "\n## Non-uniform designs: n x MSE of uBD over that of the best channel, less 1, in %\n"
    yield "Known: made for the truth. Roughly: for shares wrong by a factor of exp(0.3 z). Reversed: for the"
    yield "shares in reverse order. Uniform: for p uniform, the same mass. Means over 5 draws where +-.\n"
    yield head("v", "others", "epsilon", "truth", "known", "roughly", "reversed", "uniform")
    for v, others, epsilon in [
        *((8, others, epsilon) for others in (0, 8) for epsilon in ("0.5", "1", "2", "3")),
        (10, 0, "2"),
    ]:
        for shape in SHAPES:
            draws = 5 if "Dirichlet" in shape and v < 10 else 1
            gains = [_gains(v, others, Fraction(epsilon), shape, random) for _ in range(draws)]
            cells = [
                shown(mean(column), 1) if draws > 1 else f"{round(column[0], 1) + 0.0:.1f}"
                for column in np.array(gains).T
            ]
            yield line(v, others, epsilon, shape, *cells)


def _gains(v: int, others: int, epsilon: Fraction, shape: str, random: Random) -> list[float]:
    """In %; each share is mixed with 2 % of an even one, so that none is 0."""
    sensitive = SHAPES[shape](v, random)
    sensitive = 0.98 * sensitive / sensitive.sum() + 0.02 / v
    noise = np.exp(0.3 * random.standard_normal(v))
    supposed = (sensitive, sensitive * noise / (sensitive * noise).sum(), sensitive[::-1], np.full(v, 1 / v))
    mass = 0.5 if others else 1.0
    spread = np.full(others, (1 - mass) / max(others, 1))
    truth, *wrong = (Truth(mass * each, spread, math.expm1(float(epsilon))) for each in supposed)
    ours = truth.error(truth.ubd(epsilon))
    return [100 * (ours / truth.error(made.best()) - 1) for made in (truth, *wrong)]


def simulated_channels(runs: int, random: Random) -> Iterator[str]:
    """The best channels with the likelihood decoder, at a finite number of people."""
    yield "\n## The same by simulation: MSE of uBD over that of the channel made for the truth (8 and 8)\n"
    yield head("epsilon", "n", *SKEWED)
    for epsilon, n in (("1", 10_000), ("2", 10_000)):
        cells = []
        for shape in SKEWED:
            sensitive = SHAPES[shape](8, random)
            sensitive = 0.5 * (0.98 * sensitive / sensitive.sum() + 0.02 / 8)
            truth = Truth(sensitive, np.full(8, 1 / 16), math.expm1(float(epsilon)))
            channels = (truth.ubd(Fraction(epsilon)), truth.best())
            cells.append(shown(ratio(*(_errors(truth, each, n, runs, random) for each in channels))))
        yield line(epsilon, f"{n:,}", *cells)


def _errors(truth: Truth, chances: Floats, n: int, runs: int, random: Random) -> Floats:
    """Squared errors of the likelihood by reports of one channel, (runs,)."""
    v, w = len(truth.sensitive), len(truth.sensitive) + len(truth.others)
    blocks = chances * (1 + truth.growth * (truth.members @ truth.sensitive))
    tau = 1 - chances.sum()
    whole = np.concatenate([blocks, tau * truth.others])
    shares = np.concatenate([truth.sensitive, truth.others])
    errors = []
    for counts in random.multinomial(n, whole / whole.sum(), runs):
        seen = np.flatnonzero(counts[: len(blocks)])
        found = Blocks(1.0, None, dense(truth.members[seen] > 0), counts[seen], np.zeros_like(seen))
        observed = Observed(w, v, truth.growth, tau, (found,), counts[len(blocks) :], n)
        errors.append(((by_likelihood(observed) - shares) ** 2).sum())
    return np.array(errors)


def priors(runs: int, random: Random) -> Iterator[str]:
    """What better priors could still give."""
    yield "\n## Priors: MSE over that of the learned prior (above 1: worse), at k*\n"
    yield "No prior: the most likely shares. Line: the linear estimate drawn to the even share by the factor"
    yield "that is best for this truth. Free: any distribution as prior, the most likely one. Oracle: each"
    yield "share's posterior mean, the truth's own sorted values being the prior. Error: of a sensitive share"
    yield "under the learned prior, root of the mean square, in even shares.\n"
    yield head("v", "epsilon", "n", "truth", "linear", "no prior", "line", "free", "oracle", "error")
    for case in CASES:
        v, epsilon, n = case
        found = []
        for shape in SHAPES:
            truth = truth_of(shape, v, random)
            survey = Survey(truth, designs_of(v, epsilon)["k*"], math.expm1(epsilon), n)
            ways = (by_likelihood, linear, without, _line(truth), free, _oracle(truth))
            first, *rest = survey.errors(random, runs, *ways)
            found.append([_paired(each, first) for each in rest])
            error = math.sqrt(first.mean() / v) / (MASS / v)
            yield line(*case, shape, *map(shown, found[-1]), f"{error:.2f}")
        average = (together(column) for column in zip(*found[1:], strict=True))
        yield line(*case, "**all skewed**", *map(shown, average), "")


def _paired(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """The ratio of the means of paired values, and its standard error."""
    value = float(ours.mean() / theirs.mean())
    return value, float((ours - value * theirs).std(ddof=1) / math.sqrt(len(ours)) / theirs.mean())


def linear(observed: Observed) -> Floats:
    """The published decoder."""
    return linear_estimate(observed, block_scores(observed, 1.0)).shares


def without(observed: Observed) -> Floats:
    """The most likely shares."""
    return likelihood(observed, FixedPrior(0.0)).shares


def _line(truth: Floats) -> Estimator:
    """The linear estimate's sensitive shares on the way from even ones that ends nearest to the truth."""

    def shares(observed: Observed) -> Floats:
        found, v = linear(observed), observed.n_sensitive
        even = found[:v].mean()
        apart = found[:v] - even
        factor = np.clip(apart @ (truth[:v] - even) / (apart @ apart), 0, 1)
        return np.concatenate([even + factor * apart, found[v:]])

    return shares


def free(observed: Observed) -> Floats:
    """Posterior means under the prior on a grid that makes the cells' likelihoods most likely, by EM."""
    given, v = likelihood(observed).shares, observed.n_sensitive
    evidence, mass = Evidence.of(observed), float(given[:v].sum())
    sensitive = given[:v]
    for _ in range(5):
        cells = Cells.near(evidence, np.maximum(sensitive, 1e-9))
        own = np.maximum(cells.moved(cells.level), 0.0)
        nodes = np.sort(np.concatenate([[0.0], np.geomspace(1e-3, 1.2, 100) * own.max(), own]))
        logs = cells.log_likelihood(np.broadcast_to(nodes, (v, len(nodes))), cells.level)
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        prior = np.full(len(nodes), 1 / len(nodes))
        for _ in range(300):
            posterior = likely * prior
            posterior /= posterior.sum(axis=1, keepdims=True)
            prior = posterior.mean(axis=0)
        sensitive = _means(posterior, nodes, mass)
    return np.concatenate([sensitive, given[v:]])


def _means(posterior: Floats, values: Floats, mass: float) -> Floats:
    """Means of cells, moved to the sum `mass` as far as each is unsure."""
    means = posterior @ values
    unsure = np.maximum(posterior @ values**2 - means**2, 0.0) + 1e-12
    return np.maximum(means + (mass - means.sum()) * unsure / unsure.sum(), 0.0)


def _oracle(truth: Floats) -> Estimator:
    """Posterior means under the truth's own values, given each cell's likelihood near the truth."""

    def shares(observed: Observed) -> Floats:
        given, v = likelihood(observed).shares, observed.n_sensitive
        cells = Cells.near(Evidence.of(observed), truth[:v])
        logs = cells.log_likelihood(np.broadcast_to(truth[:v], (v, v)), cells.level)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        posterior = weights / weights.sum(axis=1, keepdims=True)
        return np.concatenate([_means(posterior, truth[:v], float(given[:v].sum())), given[v:]])

    return shares


def main() -> None:
    """Run all and print."""
    parser = arguments(__doc__, runs=None)
    parser.add_argument("--runs", type=int, default=16, help="surveys of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parts = ("sizes", "channels", "simulated", "priors")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    given = parser.parse_args()
    random = [np.random.default_rng([given.seed, number]) for number in range(len(parts))]
    found = (
        block_sizes(given.runs, random[0]),
        best_channels(random[1]),
        simulated_channels(8 * given.runs, random[2]),
        priors(given.runs, random[3]),
    )
    for name, lines in zip(parts, found, strict=True):
        if name in given.parts:
            for text in lines:
                print(text, flush=True)


if __name__ == "__main__":
    main()
