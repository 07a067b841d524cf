"""Shares by the likelihood: conditions of its maximum, an independent optimiser, exact means, coverage."""

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from dp_spark.errors import PlanRefused
from dp_spark.uldp import mode, shapes
from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import Blocks, Estimate, Method, Observed
from dp_spark.uldp.evidence import Evidence
from dp_spark.uldp.likelihood import likelihood
from dp_spark.uldp.mode import em_step, gain, most_likely
from dp_spark.uldp.posterior import mean_shares
from dp_spark.uldp.prior import FixedPrior, LearnedPrior, fixed_prior
from dp_spark.uldp.shapes import Shape, means_given

MOST_LIKELY = FixedPrior(0.0)
PRIORS = (LearnedPrior(), MOST_LIKELY, FixedPrior(7.0))


@dataclass(frozen=True)
class Dense:
    """Blocks written out: (m, v)."""

    members: Floats

    def sums(self, shares: Floats) -> Floats:
        return self.members @ shares

    def supports(self, weights: Floats) -> Floats:
        return weights @ self.members


def subsets(v: int, k: int) -> Floats:
    return np.array([[float(x in block) for x in range(v)] for block in combinations(range(v), k)])


def windows(q: int, v: int, size: int) -> Floats:
    a, b, x = np.ogrid[1 : (q + 1) // 2, 0:q, 0:v]
    return ((a * x + b) % q < size).reshape(-1, v).astype(float)


@dataclass(frozen=True)
class Channel:
    """One regular balanced family, or bitmaps: each set of bits with a probability of its own."""

    members: Floats
    rates: Floats  # of each block under an answer that it does not hold
    w: int
    epsilon: float

    @property
    def growth(self) -> float:
        return math.expm1(self.epsilon)

    @property
    def v(self) -> int:
        return self.members.shape[1]

    @property
    def answer_rate(self) -> float:
        return float(1 - self.rates.sum())

    def probabilities(self, shares: Floats) -> Floats:
        blocks = self.rates * (1 + self.growth * self.members @ shares[: self.v])
        return np.concatenate([blocks, self.answer_rate * shares[self.v :]])

    def observed(self, counts: Floats) -> Observed:
        whole = np.asarray(counts, dtype=np.int64)
        alone = whole[: len(self.members)]
        seen = Blocks(1.0, None, Dense(self.members), alone, np.zeros_like(alone))
        answers = whole[len(self.members) :]
        return Observed(self.w, self.v, self.growth, self.answer_rate, (seen,), answers, int(whole.sum()))

    def drawn(self, shares: Floats, n: int, random: np.random.Generator) -> Observed:
        probabilities = self.probabilities(shares)
        return self.observed(random.multinomial(n, probabilities / probabilities.sum()))

    def expected(self, shares: Floats, n: int) -> Observed:
        return self.observed(np.rint(n * self.probabilities(shares)))

    def covariance(self, shares: Floats, n: int) -> Floats:
        """The inverse Fisher information of n reports, the sum held at 1."""
        slopes = np.zeros((len(self.rates) + self.w - self.v, self.w))
        slopes[: len(self.rates), : self.v] = self.growth * self.rates[:, None] * self.members
        slopes[len(self.rates) :, self.v :] = self.answer_rate * np.eye(self.w - self.v)
        tangent = np.vstack([np.eye(self.w - 1), -np.ones(self.w - 1)])
        turned = (slopes @ tangent) / np.sqrt(self.probabilities(shares))[:, None]
        return tangent @ np.linalg.inv(n * turned.T @ turned) @ tangent.T


def of_design(members: Floats, w: int, epsilon: float) -> Channel:
    replication, growth = members.sum(axis=0)[0], math.expm1(epsilon)
    return Channel(members, np.full(len(members), 1 / (replication * growth + len(members))), w, epsilon)


def bitmaps(v: int, w: int, epsilon: float) -> Channel:
    """uOUE: sensitive bits are set with 1/2 where own, else with 1/(e^epsilon + 1)."""
    members = np.vstack([subsets(v, k) if k else np.zeros((1, v)) for k in range(v + 1)])
    q, sizes = 1 / (math.exp(epsilon) + 1), members.sum(axis=1)
    noise = q**sizes * (1 - q) ** (v - sizes)
    # With own bit set: (1/2)/q times as probable, unset (1/2)/(1 - q); the ratio of both is e^epsilon.
    return Channel(members, noise / (2 * (1 - q)), w, epsilon)


CHANNELS = {
    "randomized response": of_design(subsets(5, 1), 9, 1.5),
    "pairs of six": of_design(subsets(6, 2), 10, 1.0),
    "windows": of_design(windows(11, 10, 4), 14, 0.7),
    "windows, all sensitive": of_design(windows(11, 11, 3), 11, 1.2),
    "bitmaps": bitmaps(4, 7, 1.0),
    "one sensitive": of_design(subsets(1, 1), 4, 1.0),
}


def skewed(channel: Channel) -> Floats:
    shares = np.concatenate([1 / np.arange(1.0, channel.v + 1), np.full(channel.w - channel.v, 0.4)])
    return shares / shares.sum()


def random_evidence(seed: int, *, v: int = 6, blocks: int = 25, answered: int = 40) -> Evidence:
    """Reports of no design: blocks of any sizes, seen any number of times."""
    random = np.random.default_rng(seed)
    members = (random.random((blocks, v)) < random.uniform(0.2, 0.8, size=(blocks, 1))).astype(float)
    counts = random.integers(0, 30, size=blocks)
    seen = Blocks(1.0, None, Dense(members), counts, np.zeros_like(counts))
    n = int(counts.sum()) + answered
    return Evidence.of(Observed(v + 1, v, 2.0, 0.4, (seen,), np.array([answered]), n))


def objective(evidence: Evidence, shares: Floats, strength: float) -> float:
    if shares.sum() >= 1:
        return -1e9
    prior = strength / len(shares) * np.log(shares / shares.sum()).sum() if strength else 0.0
    return evidence.log_likelihood(shares) + prior


@pytest.mark.parametrize("strength", [0.0, 3.0, 200.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_maximum_meets_its_conditions(seed: int, strength: float) -> None:
    evidence = random_evidence(seed)
    shares = most_likely(evidence, strength)
    pseudo, mass = strength / len(shares), shares.sum()
    slopes = evidence.slopes(shares)
    inside = shares > 0
    rises = slopes.slope + np.where(inside, pseudo / np.maximum(shares, 1e-300), 0) - strength / mass
    excess = (rises - evidence.answered / (1 - mass)) / np.sqrt(slopes.curvature)
    assert np.abs(excess[inside]).max() < 1e-3
    assert (excess < 1e-3).all()


@pytest.mark.parametrize("strength", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_an_independent_optimiser_finds_the_same(seed: int, strength: float) -> None:
    evidence = random_evidence(seed)
    v = evidence.n_sensitive
    found = minimize(
        lambda shares: -objective(evidence, shares, strength),
        np.full(v, 0.5 / v),
        method="SLSQP",
        bounds=[(1e-10, 1)] * v,
        constraints={"type": "ineq", "fun": lambda shares: 1 - 1e-9 - shares.sum()},
        options={"ftol": 1e-14, "maxiter": 2_000},
    )
    ours = most_likely(evidence, strength)
    assert objective(evidence, np.maximum(ours, 1e-12), strength) >= -found.fun - 1e-6
    assert ours == pytest.approx(found.x, abs=2e-4)


@pytest.mark.parametrize("strength", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_step_lowers_the_likelihood(seed: int, strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = random_evidence(seed)
    reached = []
    for steps in range(1, 8):
        monkeypatch.setattr(mode, "_STEPS", steps)
        reached.append(objective(evidence, np.maximum(most_likely(evidence, strength), 1e-300), strength))
    assert (np.diff(reached) >= -1e-9).all()


@pytest.mark.parametrize("seed", range(4))
def test_steps_of_em_never_lower_it_and_lead_to_the_same(seed: int) -> None:
    evidence = random_evidence(seed)
    shares = np.full(evidence.n_sensitive, 0.1)
    for _ in range(3_000):
        stepped = em_step(evidence, shares, pseudo=0.5)
        assert gain(evidence, shares, stepped, pseudo=0.5) >= -1e-9
        shares = stepped
    assert most_likely(evidence, 0.5 * evidence.n_sensitive) == pytest.approx(shares, abs=1e-4)


def test_a_step_that_is_too_long_gives_way_to_one_of_em() -> None:
    evidence = random_evidence(1)
    shares = most_likely(evidence, 1.0)
    away = np.array([0.9, *[0.01] * 5])
    pseudo = 1 / 6
    raised = mode._raised(evidence, away, np.array([*[1e-12] * 5, 1.0]) * 0.99, pseudo)
    assert gain(evidence, away, raised, pseudo) > 0
    assert gain(evidence, raised, shares, pseudo) > 0


@pytest.mark.parametrize("name", CHANNELS)
def test_the_start_changes_nothing(name: str) -> None:
    channel = CHANNELS[name]
    random = np.random.default_rng(3)
    evidence = Evidence.of(channel.drawn(skewed(channel), 3_000, random))
    once = most_likely(evidence)
    stds = 1 / np.sqrt(evidence.slopes(once).curvature)
    for start in random.dirichlet(np.full(channel.v, 0.3), size=5) + 1e-6:
        assert (np.abs(most_likely(evidence, start=start) - once) <= 1e-3 * stds + 1e-12).all()


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_with_very_many_reports_every_prior_finds_the_truth(name: str, prior: FixedPrior) -> None:
    channel = CHANNELS[name]
    truth = skewed(channel)
    estimate = likelihood(channel.expected(truth, 10**9), prior)
    assert estimate.shares == pytest.approx(truth, abs=2e-4)
    assert estimate.shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", CHANNELS)
def test_standard_errors_are_those_of_the_exact_information(name: str) -> None:
    channel = CHANNELS[name]
    truth = skewed(channel)
    exact = np.sqrt(np.diag(channel.covariance(truth, 10**7)))
    estimate = likelihood(channel.expected(truth, 10**7), MOST_LIKELY)
    assert estimate.stds == pytest.approx(exact, rel=0.03)


def test_randomized_response_inside_the_simplex_is_solved_in_closed_form() -> None:
    channel = of_design(subsets(5, 1), 5, 1.0)
    counts = np.array([400.0, 300, 240, 250, 350])
    rate = channel.rates[0]
    closed = (counts / counts.sum() / rate - 1) / channel.growth
    assert likelihood(channel.observed(counts), MOST_LIKELY).shares == pytest.approx(closed, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(
    "kind", ["one block", "one answer", "answers only", "blocks only", "last block only"]
)
def test_any_counts_give_shares(name: str, kind: str, prior: FixedPrior) -> None:
    channel = CHANNELS[name]
    blocks, answers = len(channel.members), channel.w - channel.v
    counts = np.zeros(blocks + answers)
    match kind:
        case "one block":
            counts[blocks // 2] = 1
        case "one answer":
            counts[-1] = 1
        case "answers only":
            counts[blocks:] = 50
            counts[0] = 1 if answers == 0 else 0
        case "blocks only":
            counts[:blocks] = 30
        case _:
            counts[blocks - 1] = 1_000
    check(likelihood(channel.observed(counts), prior), channel)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("epsilon", [1e-4, 20.0])
@pytest.mark.parametrize("n", [1, 40, 10**9])
def test_any_epsilon_and_any_number_of_reports_give_shares(n: int, epsilon: float, prior: FixedPrior) -> None:
    random = np.random.default_rng(n)
    for members, w in ((subsets(6, 1), 9), (windows(7, 7, 3), 7), (np.ones((1, 3)), 5)):
        channel = of_design(members, w, epsilon)
        check(likelihood(channel.drawn(skewed(channel), n, random), prior), channel)


def check(estimate: Estimate, channel: Channel) -> None:
    assert estimate.shares.shape == estimate.stds.shape == (channel.w,)
    assert np.isfinite([estimate.shares, estimate.stds, estimate.low, estimate.high]).all()
    assert estimate.shares.sum() == pytest.approx(1) or not estimate.shares[channel.v :].any()
    assert (estimate.low >= 0).all()
    assert (estimate.low <= estimate.shares + 1e-12).all()
    assert (estimate.shares <= estimate.high + 1e-12).all()
    assert (estimate.high <= 1).all()
    assert (estimate.boundary == (estimate.low <= 0)).all()
    assert estimate.method is Method.LIKELIHOOD


def test_answers_alone_mean_that_nobody_is_sensitive() -> None:
    channel = CHANNELS["pairs of six"]
    estimate = likelihood(channel.observed([0] * 15 + [10, 20, 30, 40]))
    assert not estimate.shares[:6].any()
    assert estimate.shares[6:] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert estimate.boundary[:6].all()


def test_no_report_is_refused() -> None:
    with pytest.raises(PlanRefused, match="at least 1"):
        likelihood(CHANNELS["bitmaps"].observed(np.zeros(16 + 3)))


def test_blocks_beside_an_answer_say_nothing_more() -> None:
    channel = CHANNELS["pairs of six"]
    observed = channel.drawn(skewed(channel), 500, np.random.default_rng(0))
    beside = replace(observed.blocks[0], beside=np.arange(15))
    assert (likelihood(replace(observed, blocks=(beside,))).shares == likelihood(observed).shares).all()


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_components_are_added(prior: FixedPrior) -> None:
    """One family, its reports split over two components, says what it says whole."""
    channel = CHANNELS["windows"]
    observed = channel.drawn(skewed(channel), 2_000, np.random.default_rng(1))
    (whole,) = observed.blocks
    cut = len(whole.alone) // 3
    parts = tuple(
        Blocks(0.5, None, Dense(channel.members[part]), whole.alone[part], whole.beside[part])
        for part in (slice(cut), slice(cut, None))
    )
    split = likelihood(replace(observed, blocks=parts), prior)
    assert split.shares == pytest.approx(likelihood(observed, prior).shares, abs=1e-9)


def conditional(channel: Channel, counts: Floats, spread: float) -> tuple[Floats, float]:
    """Exact means and log-probability of randomized response under one spread, by convolution on a grid."""
    points = 4_000
    theta = (np.arange(points) + 0.5) / points
    logs = np.log(theta * channel.v)
    prior = np.exp(-((logs + spread**2 / 2) ** 2) / (2 * spread**2)) / theta
    prior /= prior.sum()
    likely = counts[:, None] * np.log1p(channel.growth * theta) - counts.sum() * np.log1p(channel.growth / 5)
    cells = prior * np.exp(likely - (peaks := likely.max(axis=1, keepdims=True)))
    # Midpoints: v of them sum to 1 where their indices sum to this.
    last = round(points - channel.v / 2)

    def at_sum(weights: list[Floats]) -> float:
        total = np.ones(1)
        for weight in weights:
            total = np.convolve(total, weight)[: last + 1]
        return float(total[last])

    whole = at_sum(list(cells))
    means = [
        at_sum([cell * theta if y == x else cell for y, cell in enumerate(cells)]) / whole
        for x in range(channel.v)
    ]
    return np.array(means), math.log(whole) + peaks.sum() - math.log(at_sum([prior] * channel.v))


def test_means_and_weights_of_spreads_are_those_of_the_exact_integral() -> None:
    channel = of_design(subsets(6, 1), 6, 1.0)
    counts = np.array([60.0, 40, 45, 52, 38, 30])
    evidence = Evidence.of(channel.observed(counts))
    cells = Cells.near(evidence, most_likely(evidence, 2.0))
    spreads = (0.12, 0.3, 0.75, 1.5)
    exact = [conditional(channel, counts, spread) for spread in spreads]
    ours = [means_given(Shape(spread, 0.0), cells) for spread in spreads]
    for (means, _), tilted in zip(exact, ours, strict=True):
        assert tilted.means == pytest.approx(means, abs=0.006)
    differences = np.array([tilted.log_density for tilted in ours]) - [log for _, log in exact]
    assert differences == pytest.approx(np.full(4, differences.mean()), abs=0.3)


@pytest.mark.parametrize("n", [500, 50_000])
def test_thirty_times_as_many_nodes_give_the_same_shares(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a twentieth of a standard error, which adds a part in 400 to the squared error."""
    channel = CHANNELS["windows"]
    evidence = Evidence.of(channel.drawn(skewed(channel), n, np.random.default_rng(4)))
    shares = mean_shares(evidence)
    monkeypatch.setattr(shapes, "_PRIOR_NODES", 999)
    monkeypatch.setattr(shapes, "_REPORT_NODES", 999)
    shapes._log_prior_of_sum.cache_clear()
    exact = mean_shares(evidence)
    shapes._log_prior_of_sum.cache_clear()
    error = np.abs(shares - exact) * np.sqrt(Cells.near(evidence, exact).curvature)
    assert 0 < error.max() < 0.05


def test_where_the_search_for_a_tilt_starts_changes_nothing() -> None:
    channel = CHANNELS["windows"]
    evidence = Evidence.of(channel.drawn(skewed(channel), 5_000, np.random.default_rng(4)))
    cells = Cells.near(evidence, most_likely(evidence, 2.0))
    found = means_given(Shape(0.75, 0.5), cells)
    for start in (found.tilt, found.tilt + 300.0, found.tilt - 300.0):
        again = means_given(Shape(0.75, 0.5), cells, start)
        assert again.means == pytest.approx(found.means, abs=1e-3 * float(found.means.std()))
        assert again.log_density == pytest.approx(found.log_density, abs=1e-3)


def test_names_of_categories_do_not_matter() -> None:
    channel = CHANNELS["windows"]
    observed = channel.drawn(skewed(channel), 2_000, np.random.default_rng(5))
    order = np.random.default_rng(6).permutation(channel.v)
    renamed = replace(observed.blocks[0], incidence=Dense(channel.members[:, order]))
    expected = mean_shares(Evidence.of(observed))[order]
    assert mean_shares(Evidence.of(replace(observed, blocks=(renamed,)))) == pytest.approx(expected, abs=1e-9)


def summed_errors(channel: Channel, truth: Floats, n: int, runs: int) -> Floats:
    """Mean summed squared errors under each prior, the same reports for all."""
    random = np.random.default_rng(11)
    found = []
    for _ in range(runs):
        observed = channel.drawn(truth, n, random)
        priors = (LearnedPrior(), MOST_LIKELY, fixed_prior(n, channel.growth, channel.v))
        found.append([((likelihood(observed, prior).shares - truth) ** 2).sum() for prior in priors])
    return np.mean(found, axis=0)


def test_a_learned_prior_helps_where_reports_say_little_and_costs_nothing_where_they_say_much() -> None:
    """Orders of magnitude at even shares and a fifth at skewed ones; under 2 % lost at a high epsilon."""
    noisy = of_design(windows(23, 20, 11), 30, 0.3)
    even = np.concatenate([np.full(20, 0.6 / 20), np.full(10, 0.04)])
    learned, likely, fixed = summed_errors(noisy, even, 20_000, 20)
    assert learned < 0.1 * likely
    assert fixed < likely
    learned, likely, fixed = summed_errors(noisy, skewed(noisy), 20_000, 20)
    assert learned < 0.85 * likely
    assert fixed < 0.9 * likely
    clear = of_design(subsets(20, 1), 30, 8.0)
    learned, likely, fixed = summed_errors(clear, skewed(clear), 20_000, 20)
    assert learned < 1.02 * likely
    assert fixed < 1.02 * likely


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_two_categories_that_hold_all_are_found_where_most_shapes_are_ruled_out(epsilon: float) -> None:
    """Under such shapes no tilt is found: they count for nothing."""
    channel = of_design(subsets(20, 1), 20, epsilon)
    truth = np.zeros(20)
    truth[[3, 8]] = 0.5
    estimate = likelihood(channel.expected(truth, 10**6))
    assert (np.abs(estimate.shares - truth) <= estimate.stds).all()
    even = means_given(
        Shape(0.03, 0.0), Cells.near(Evidence.of(channel.expected(truth, 10**6)), truth + 1e-6)
    )
    assert np.isfinite(even.means).all()
    assert even.means.sum() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("prior", [LearnedPrior(), MOST_LIKELY], ids=str)
@pytest.mark.parametrize(("name", "n"), [("windows", 3_000), ("pairs of six", 3_000), ("bitmaps", 20_000)])
def test_intervals_cover(name: str, n: int, prior: FixedPrior) -> None:
    """At least 93 % on average over cells.

    100 runs of at least 7 cells. Were the cells of a run independent, with 95 % covered the mean would fall
    below 0.93 once in 130, and with 90 % covered stay above it once in 250. The seed is fixed: the test does
    not fail by chance. Intervals of 1.2 standard errors, 77 % of which hold the truth, do not pass.
    """
    channel = CHANNELS[name]
    truth = skewed(channel)
    random = np.random.default_rng(17)
    estimates = [likelihood(channel.drawn(truth, n, random), prior) for _ in range(100)]
    held = [(estimate.low <= truth) & (truth <= estimate.high) for estimate in estimates]
    assert np.mean(held) >= 0.93
    narrower = [np.abs(estimate.shares - truth) <= 1.2 * estimate.stds for estimate in estimates]
    assert np.mean(narrower) < 0.93 or isinstance(prior, LearnedPrior)


def test_what_the_prior_moves_is_said() -> None:
    channel = CHANNELS["windows"]
    observed = channel.drawn(skewed(channel), 300, np.random.default_rng(2))
    learned, free = likelihood(observed), likelihood(observed, MOST_LIKELY)
    assert learned.biased[: channel.v].any()
    assert not learned.biased[channel.v :].any()
    assert not likelihood(channel.expected(skewed(channel), 10**6), MOST_LIKELY).biased.any()
    assert free.biased[: channel.v][free.shares[: channel.v] == 0].all()


def test_the_fixed_strength_falls_as_reports_say_more() -> None:
    strengths = [fixed_prior(n, math.expm1(1.0), 35).strength for n in (10, 10**4, 10**6, 10**8)]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] == pytest.approx(0.3 * 35)
    assert fixed_prior(100, 1.0, 1).strength == 0
