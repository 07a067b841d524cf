"""Which prior for local reports: errors of estimators over synthetic truths, coverage of intervals, seconds.

OMP_NUM_THREADS=1 python benchmarks/uldp_prior.py

Truths inside the sensitive part are even, Zipf (exponents 1 and 1.5), geometric, a tenth of the cells,
Dirichlet(1/2), or one cell with half of all; its mass is 0.05, 0.2, 0.5 or 0.95. No real table is read: the
prior's strength was fixed by these figures. Every combination of sizes, people and epsilon is drawn in each
round with a truth by chance; all estimators are given the same reports, sampled from the exact channel.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from printing import arguments, head, line

from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats, Ids
from dp_spark.uldp.estimate import Blocks, Estimate, Observed
from dp_spark.uldp.evidence import Evidence
from dp_spark.uldp.likelihood import likelihood
from dp_spark.uldp.mode import most_likely, refitted
from dp_spark.uldp.prior import FixedPrior, LearnedPrior, relative_noise

SIZES = {(277, 35): 37, (277, 253): 257, (50, 10): 11, (20, 20): 23, (1000, 100): 101}  # (w, v) to a prime
PEOPLE = (2_000, 50_000, 1_000_000)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
MASSES = (0.05, 0.2, 0.5, 0.95)
SHAPES = ("even", "zipf 1", "zipf 1.5", "geometric", "sparse", "dirichlet", "heavy")
NEGLIGIBLE = 0.05  # of the linear decoder's error: regrets below it do not count
EM_STEPS = 300


@dataclass(frozen=True)
class Orbit:
    """All blocks {x : (a x + b) mod q < size}: windows on a circle for each a; with size 1, single points."""

    v: int
    q: int
    size: int

    @property
    def multipliers(self) -> int:
        """The number of circles."""
        return 1 if self.size == 1 else (self.q - 1) // 2

    @property
    def places(self) -> Ids:
        """Where each point stands on each circle, flat."""
        return _places(self)

    @property
    def circle(self) -> int:
        """Places on each circle."""
        return self.v if self.size == 1 else self.q

    @property
    def replication(self) -> int:
        """Blocks that hold a given point."""
        return self.multipliers * self.size

    @property
    def pairs(self) -> float:
        """Blocks that hold two given points."""
        return self.replication * (self.size - 1) / (self.q - 1)

    @property
    def n_blocks(self) -> int:
        """All blocks."""
        return self.multipliers * self.circle

    def sums(self, shares: Floats) -> Floats:
        """As `Incidence.sums`."""
        on_circles = np.zeros((self.multipliers, self.circle))
        on_circles.flat[self.places.ravel()] = np.broadcast_to(shares, self.places.shape).ravel()
        return self._windows(on_circles, ahead=True).ravel()

    def supports(self, weights: Floats) -> Floats:
        """As `Incidence.supports`."""
        windows = self._windows(weights.reshape(self.multipliers, self.circle), ahead=False)
        return windows.ravel()[self.places].sum(axis=0)

    def _windows(self, values: Floats, *, ahead: bool) -> Floats:
        if self.size == 1:
            return values
        more = self.size - 1
        parts = (values, values[:, :more]) if ahead else (values[:, self.circle - more :], values)
        sums = np.zeros((len(values), self.circle + self.size))
        np.cumsum(np.concatenate(parts, axis=1), axis=1, out=sums[:, 1:])
        return sums[:, self.size :] - sums[:, : -self.size]


@cache
def _places(orbit: Orbit) -> Ids:
    if orbit.size == 1:
        return np.arange(orbit.v)[None, :]
    multiplier = np.arange(1, orbit.multipliers + 1)[:, None]
    return multiplier * np.arange(orbit.v) % orbit.q + orbit.q * (multiplier - 1)


def orbit_for(w: int, v: int, epsilon: float) -> Orbit:
    """The orbit with the block size that is best at all people sensitive."""
    sizes = np.linspace(0.2, v - 0.2, 4_000)
    best = sizes[np.argmin((v + sizes * math.expm1(epsilon)) ** 2 / (sizes * (v - sizes)))]
    q = SIZES[w, v]
    return Orbit(v, q, 1 if best < 1.5 else round(best * q / v))


@dataclass(frozen=True)
class Scenario:
    """Sizes, and the form and the mass of the truth inside the sensitive part."""

    w: int
    v: int
    n: int
    epsilon: float
    shape: str
    mass: float


@dataclass(frozen=True)
class Drawn:
    """Reports of a scenario, with what they were drawn from."""

    scenario: Scenario
    truth: Floats
    orbit: Orbit
    rate: float  # probability of a block that does not hold the answer
    observed: Observed


def scenarios(rounds: int, random: np.random.Generator) -> Iterator[Scenario]:
    """Every combination of sizes, people and epsilon, in each round with a truth by chance."""
    for _, (w, v), n, epsilon in product(range(rounds), SIZES, PEOPLE, EPSILONS):
        mass = 1.0 if w == v else float(random.choice(MASSES))
        yield Scenario(w, v, n, epsilon, str(random.choice(SHAPES)), mass)


def truth_of(scenario: Scenario, random: np.random.Generator) -> Floats:
    """Shares of all categories."""
    v = scenario.v
    rank = np.arange(1.0, v + 1)
    shapes = {
        "even": np.ones(v),
        "zipf 1": 1 / rank,
        "zipf 1.5": rank**-1.5,
        "geometric": (0.8 if v < 60 else 0.97) ** rank,
        "sparse": (rank <= max(1, round(v / 10))).astype(float),
        "dirichlet": random.dirichlet(np.full(v, 0.5)),
        "heavy": np.where(rank == 1, float(v), 1.0),
    }
    shape = random.permutation(shapes[scenario.shape])
    others = random.dirichlet(np.ones(scenario.w - v)) if scenario.w > v else np.empty(0)
    return np.concatenate([scenario.mass * shape / shape.sum(), (1 - scenario.mass) * others])


def drawn(scenario: Scenario, random: np.random.Generator, truth: Floats | None = None) -> Drawn:
    """Reports of so many people."""
    truth = truth_of(scenario, random) if truth is None else truth
    v, growth = scenario.v, math.expm1(scenario.epsilon)
    orbit = orbit_for(scenario.w, v, scenario.epsilon)
    rate = 1 / (orbit.replication * growth + orbit.n_blocks)
    answer_rate = orbit.replication * growth * rate
    blocks = rate * (1 + growth * orbit.sums(truth[:v]))
    probabilities = np.concatenate([blocks, answer_rate * truth[v:]])
    counts = random.multinomial(scenario.n, probabilities / probabilities.sum())
    alone, answers = counts[: orbit.n_blocks], counts[orbit.n_blocks :]
    seen = Blocks(1.0, None, orbit, alone, np.zeros_like(alone))
    return Drawn(
        scenario,
        truth,
        orbit,
        rate,
        Observed(scenario.w, v, growth, answer_rate, (seen,), answers, scenario.n),
    )


def everything(given: Drawn, sensitive: Floats) -> Floats:
    """Shares of all categories from those of the sensitive ones."""
    answers = given.observed.answers
    return np.concatenate([sensitive, (1 - sensitive.sum()) * answers / max(answers.sum(), 1)])


def linear(given: Drawn) -> Floats:
    """The unbiased decoder."""
    seen, (observed, orbit) = given.observed.blocks[0], (given.observed, given.orbit)
    support = orbit.supports(seen.alone / observed.n)
    contrast = (support - support.mean()) / (given.rate * observed.growth * (orbit.replication - orbit.pairs))
    answered = observed.answers / (observed.n * observed.answer_rate)
    return np.concatenate([(1 - answered.sum()) / given.scenario.v + contrast, answered])


def clipped(shares: Floats) -> Floats:
    """Negative shares become 0, then all are divided by their sum."""
    kept = np.maximum(shares, 0)
    return kept / kept.sum()


def shrunk(given: Drawn) -> Floats:
    """The linear decoder's contrasts, shrunk by their variance less that of their noise, then clipped."""
    scenario, shares = given.scenario, linear(given)
    inside = shares[: scenario.v]
    contrast = inside - inside.mean()
    noise = (
        relative_noise(scenario.n, given.observed.growth, scenario.v) ** 2 * (scenario.v - 1) / scenario.v**2
    )
    kept = max(0.0, 1 - noise / max(float(contrast @ contrast), 1e-300))
    return clipped(np.concatenate([inside.mean() + kept * contrast, shares[scenario.v :]]))


def stopped(given: Drawn) -> Floats:
    """EM of 300 steps from equal shares, the background shared out among all."""
    observed, orbit, v = given.observed, given.orbit, given.scenario.v
    shares = np.full(given.scenario.w, 1 / given.scenario.w)
    alone = observed.blocks[0].alone
    for _ in range(EM_STEPS):
        weights = alone / (1 + observed.growth * orbit.sums(shares[:v]))
        shares[:v] *= (weights.sum() + observed.growth * orbit.supports(weights)) / observed.n
        shares[v:] = (observed.answers + shares[v:] * weights.sum()) / observed.n
    return shares


def any_prior(given: Drawn) -> Floats:
    """Posterior means under the most likely prior of any form (Kiefer, Wolfowitz)."""
    evidence = Evidence.of(given.observed)
    shares = most_likely(evidence, strength=0.3 * evidence.n_sensitive)
    mass = shares.sum()
    atoms = np.unique(np.concatenate([[0.0], np.geomspace(1e-5 * mass, mass, 100), shares]))
    cells = Cells.near(evidence, shares)
    logs = cells.log_likelihood(np.broadcast_to(atoms, (len(shares), len(atoms))), cells.level)
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(atoms), 1 / len(atoms))
    for _ in range(200):
        posterior = likely * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior.mean(axis=0)
    return everything(given, refitted(evidence, posterior @ atoms))


def fixed(pseudo: float, power: int) -> Callable[[Drawn], Floats]:
    """The mode under pseudo reports a category, times a power of the relative noise where that is below 1."""

    def estimated(given: Drawn) -> Floats:
        noise = min(1.0, relative_noise(given.scenario.n, given.observed.growth, given.scenario.v))
        strength = pseudo * given.scenario.v * noise**power
        return likelihood(given.observed, FixedPrior(strength)).shares

    return estimated


CHOSEN = "learned spread"
FIXED = {f"fixed {pseudo:g}, noise^{power}": fixed(pseudo, power)
         for pseudo, power in product((0.03, 0.1, 0.3, 1.0, 3.0), (0, 1, 2))}  # fmt: skip
ESTIMATORS: dict[str, Callable[[Drawn], Floats]] = {
    "linear, clipped": lambda given: clipped(linear(given)),
    "shrunk by moments": shrunk,
    "most likely": lambda given: likelihood(given.observed, FixedPrior(0.0)).shares,
    "300 steps of EM": stopped,
    **FIXED,
    "any prior": any_prior,
    CHOSEN: lambda given: likelihood(given.observed, LearnedPrior()).shares,
}


def errors(rounds: int, random: np.random.Generator) -> tuple[list[Scenario], dict[str, Floats]]:
    """Summed squared errors of each estimator in each scenario."""
    tried, found = [], {name: [] for name in ESTIMATORS}
    for scenario in scenarios(rounds, random):
        given = drawn(scenario, random)
        tried.append(scenario)
        for name, estimator in ESTIMATORS.items():
            found[name].append(float(((estimator(given) - given.truth) ** 2).sum()))
    return tried, {name: np.array(values) for name, values in found.items()}


def print_ratios(title: str, tried: list[Scenario], found: dict[str, Floats], below: str) -> None:
    """Means over truths of an error in units of another estimator's, by epsilon."""
    print(f"\n{title}\n\n{head('estimator', *(f'epsilon {epsilon:g}' for epsilon in EPSILONS))}")
    for name, values in found.items():
        ratios = values / np.maximum(found[below], 1e-300)
        of_epsilon = [ratios[[one.epsilon == epsilon for one in tried]] for epsilon in EPSILONS]
        print(line(name, *(f"{part.mean():.3f} ({np.quantile(part, 0.95):.2f})" for part in of_epsilon)))


def regrets(found: dict[str, Floats]) -> dict[str, Floats]:
    """Errors in units of the least of all estimators' in the same scenario."""
    floor = NEGLIGIBLE * found["linear, clipped"]
    least = np.min(list(found.values()), axis=0) + floor
    return {name: (values + floor) / least for name, values in found.items()}


def print_regrets(tried: list[Scenario], found: dict[str, Floats]) -> None:
    """How far each estimator is from the best of all."""
    print("\nError over the least of all estimators in the same scenario: geometric mean, 95 %, worst;")
    print("geometric mean by shape\n")
    print(head("estimator", "mean", "95 %", "worst", *SHAPES))
    for name, values in regrets(found).items():
        by_shape = [values[[one.shape == shape for one in tried]] for shape in SHAPES]
        shown = (f"{np.exp(np.log(part).mean()):.2f}" for part in (values, *by_shape))
        mean, *rest = shown
        print(line(name, mean, f"{np.quantile(values, 0.95):.1f}", f"{values.max():.1f}", *rest))


def print_coverage(runs: int, random: np.random.Generator) -> None:
    """How often 95 % intervals hold the truth, on average over cells, and in the cell that fares worst."""
    print(f"\nCoverage of the 95 % intervals, {runs} runs each: sensitive cells, others, worst cell\n")
    print(head("w", "v", "people", "epsilon", "shape", "learned spread", "most likely"))
    cases = product([(60, 35), (20, 20), (50, 10)], PEOPLE[:2], (0.5, 2.0, 5.0), ("even", "zipf 1", "heavy"))
    for (w, v), n, epsilon, shape in cases:
        SIZES.setdefault((w, v), 37)
        scenario = Scenario(w, v, n, epsilon, shape, 1.0 if w == v else 0.5)
        truth = truth_of(scenario, random)
        held: list[list[np.ndarray]] = [[], []]
        for _ in range(runs):
            given = drawn(scenario, random, truth)
            for which, prior in enumerate((LearnedPrior(), FixedPrior(0.0))):
                held[which].append(holds(likelihood(given.observed, prior), truth))
        print(line(w, v, n, epsilon, shape, *(_shown(np.mean(part, axis=0), v) for part in held)))


def holds(estimate: Estimate, truth: Floats) -> np.ndarray:
    """Which intervals hold the truth."""
    return (estimate.low <= truth + 1e-12) & (truth <= estimate.high + 1e-12)


def _shown(held: Floats, v: int) -> str:
    others = f"{held[v:].mean():.3f}" if len(held) > v else "-"
    return f"{held[:v].mean():.3f}, {others}, {held.min():.2f}"


def print_seconds(random: np.random.Generator) -> None:
    """Time the largest case."""
    print("\nSeconds of one estimate, 253 of 277 sensitive, 10,000,000 people, Zipf 1\n")
    print(head("epsilon", "blocks", "learned spread", "most likely"))
    for epsilon in EPSILONS:
        given = drawn(Scenario(277, 253, 10_000_000, epsilon, "zipf 1", 0.5), random)
        times = []
        for prior in (LearnedPrior(), FixedPrior(0.0)):
            likelihood(given.observed, prior)
            began = time.perf_counter()
            likelihood(given.observed, prior)
            times.append(time.perf_counter() - began)
        print(line(epsilon, given.orbit.n_blocks, *(f"{seconds:.3f}" for seconds in times)))


def main() -> None:
    """Draw, estimate and print."""
    parser = arguments(__doc__, runs=None)
    parser.add_argument("--rounds", type=int, default=6, help="truths of each size, people and epsilon")
    parser.add_argument("--coverage", type=int, default=30, help="runs of each case of intervals")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    tried, found = errors(asked.rounds, random)
    print_ratios(
        "Error over that of the linear decoder, clipped: mean (95 %)", tried, found, "linear, clipped"
    )
    print_ratios("Error over that of the most likely shares: mean (95 %)", tried, found, "most likely")
    print_regrets(tried, found)
    print_coverage(asked.coverage, random)
    print_seconds(random)


if __name__ == "__main__":
    main()
