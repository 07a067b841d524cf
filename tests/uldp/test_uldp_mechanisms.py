"""Every mechanism is private as it claims, by its exact matrix; and draws that matrix, to the last word."""

import math
import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp import Estimate, Mechanism, MechanismName, ReportCounts, mechanism
from dp_spark.uldp.thresholds import block_thresholds, largest_ratio
from dp_spark.uldp.words import WORD, index_of, index_probability, least_and_largest

# (w, v, epsilon): one sensitive, some, all but one, all; epsilons small and large; one design and mixtures.
SIZES = [
    (2, 1, 1.0),
    (5, 1, 0.1),
    (4, 3, 0.5),
    (5, 2, 2.0),
    (6, 6, 1.0),
    (7, 5, 1.0),
    (8, 5, 4.0),
    (9, 7, 0.1),
    (9, 8, 8.0),
    (6, 4, 20.0),
    (6, 4, 0.0001),
]
EVERY = [(name, *sizes) for name in MechanismName for sizes in SIZES]


def small(name: str, w: int, v: int, epsilon: float) -> Mechanism:
    made = mechanism(name, w, v, epsilon)
    try:
        made.channel()
    except PlanRefused as refusal:
        if refusal.code != "channel_too_large":  # whatever else is refused here is a fault
            raise
        pytest.skip("its matrix is too large to be written out")
    return made


@pytest.mark.parametrize(("name", "w", "v", "epsilon"), EVERY)
def test_each_channel_is_utility_optimized_locally_private(name: str, w: int, v: int, epsilon: float) -> None:
    channel = small(name, w, v, epsilon).channel()
    ratio = channel.worst_ratio()
    assert channel.is_stochastic()
    assert channel.is_invertible(v)
    assert ratio is not None
    assert ratio <= largest_ratio(Fraction(repr(epsilon)))
    assert float(ratio) >= math.exp(epsilon) * (1 - 1e-8)  # nothing given away either
    assert (channel.matrix[:, channel.protected] > 0).all()


def test_the_ratio_is_below_e_to_the_epsilon_and_as_near_as_it_can_be() -> None:
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(20)):
        assert math.isclose(largest_ratio(epsilon), math.exp(epsilon), rel_tol=1e-15)
    digits = "2.718281828459045235360287471352662497757247093699959574966967627724076630353"
    assert 0 < Fraction(digits) - largest_ratio(Fraction(1)) < Fraction(1, 2**127)


@pytest.mark.parametrize("change", [1, 2**20])
def test_a_threshold_one_word_higher_would_exceed_the_ratio(change: int) -> None:
    """The proof has an edge: one word more inside, or one fewer for other inputs, and it fails."""
    ratio = largest_ratio(Fraction(1))
    drawn = block_thresholds(WORD, 4, 10, Fraction(1), index_words=1)
    (_, most), (least, _) = least_and_largest(4, 1), least_and_largest(6, 1)
    (any_least, _) = least_and_largest(10, 1)
    assert drawn.inside * most <= ratio * drawn.outside * least
    assert (drawn.inside + change) * most > ratio * (drawn.outside - change) * least
    assert drawn.inside * most <= ratio * drawn.protected * any_least
    assert drawn.inside * most > ratio * (drawn.protected - change) * any_least


class Measured:
    """The probabilities of reports of one input, measured by bisection of the words that it is given."""

    def __init__(self, made: Mechanism, code: int) -> None:
        self.made, self.code = made, code

    def reports(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.made.randomize(np.full(len(words), self.code), words)

    def edges(self, place: int, fixed: NDArray[np.uint64], grid: int) -> NDArray[np.uint64]:
        """Where the report changes with the word in one place, the others fixed: first words of stretches."""

        def told(values: NDArray[np.uint64]) -> NDArray[np.int64]:
            words = np.repeat(fixed[None], len(values), axis=0)
            words[:, place] = values
            reports = self.reports(words)
            return reports if reports.ndim == 2 else reports[:, None]

        values = np.array([*numbers(grid), WORD - 1], dtype=np.uint64)
        found = told(values)
        change = np.flatnonzero((found[1:] != found[:-1]).any(axis=1))
        below, above, first = values[change], values[change + 1], found[change]
        for _ in range(64):
            middle = below + (above - below) // np.uint64(2)
            same = (told(middle) == first).all(axis=1)
            below, above = np.where(same, middle, below), np.where(same, above, middle)
        return np.array([0, *np.unique(below + np.uint64(1))], dtype=np.uint64)


def numbers(n: int) -> list[int]:
    return [i * WORD // n for i in range(n)]


def lengths(edges: NDArray[np.uint64]) -> list[Fraction]:
    ends = [*map(int, edges), WORD]
    return [Fraction(end - start, WORD) for start, end in pairwise(ends)]


def measured(made: Mechanism, code: int) -> dict[int, Fraction]:
    """Exact probabilities of a mechanism with two words, as a black box."""
    box = Measured(made, code)
    found: dict[int, Fraction] = {}
    firsts = [box.edges(0, np.array([0, other], dtype=np.uint64), 128) for other in numbers(32)]
    kinds = np.unique(np.concatenate(firsts))
    for kind, of_kind in zip(kinds, lengths(kinds), strict=True):
        edges = box.edges(1, np.array([kind, 0], dtype=np.uint64), 256)
        reports = box.reports(np.stack([np.full(len(edges), kind), edges], axis=1))
        for report, of_number in zip(reports.tolist(), lengths(edges), strict=True):
            found[report] = found.get(report, Fraction(0)) + of_kind * of_number
    return found


@pytest.mark.parametrize(
    ("name", "w", "v", "epsilon"),
    [
        (MechanismName.UBD, 7, 5, 1.0),
        (MechanismName.UBD, 5, 5, 0.3),
        (MechanismName.URR, 5, 3, 1.0),
        (MechanismName.UOLH, 4, 3, 0.5),
        (MechanismName.UHR, 5, 3, 1.0),
        (MechanismName.USS, 5, 4, 0.2),
    ],
)
def test_what_is_drawn_is_the_channel_to_the_last_word(name: str, w: int, v: int, epsilon: float) -> None:
    made = mechanism(name, w, v, epsilon)
    channel = made.channel()
    for code in range(w):
        row = zip(channel.reports.tolist(), channel.matrix[code], strict=True)
        assert measured(made, code) == {report: chance for report, chance in row if chance}


@pytest.mark.parametrize("name", [MechanismName.UOUE, MechanismName.URAP])
def test_every_bit_is_set_at_its_rate_to_the_last_word(name: str) -> None:
    made = mechanism(name, 11, 3, 1.0)
    never = np.full(made.n_words, WORD - 1, dtype=np.uint64)
    rates = {}
    for code in range(11):
        for place in range(made.n_words):
            edges = Measured(made, code).edges(place, never, 64)
            assert len(edges) <= 2
            rates[code, place] = int(edges[-1])
    own, other, answer = rates[0, 0], rates[0, 1], rates[3, 3]
    assert all(rates[x, bit] == (own if x == bit else other) for x in range(11) for bit in range(3))
    assert all(rates[x, 3] == (answer if x >= 3 else 0) for x in range(11))
    matrix, bits = made.channel().matrix, np.unpackbits(made.channel().reports, axis=1)[:, :11]
    for code in range(11):
        expected = [Fraction(own if bit == code else other, WORD) for bit in range(3)]
        expected += [Fraction(answer if bit == code else 0, WORD) for bit in range(3, 11)]
        assert [matrix[code][bits[:, bit] == 1].sum() for bit in range(11)] == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7, 2**32 - 1, 2**32, 2**32 + 1, 2**62 - 1, 2**62])
@pytest.mark.parametrize("n_words", [1, 2])
def test_numbers_are_the_product_of_word_and_size_to_the_last_bit(size: int, n_words: int) -> None:
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**64, size=(2000, n_words), dtype=np.uint64)
    words[:4] = [[0] * n_words, [2**64 - 1] * n_words, [2**32 - 1] * n_words, [2**32] * n_words]
    values = [sum(int(w) << 64 * (n_words - 1 - i) for i, w in enumerate(row)) for row in words]
    assert index_of(words, size).tolist() == [value * size >> 64 * n_words for value in values]


@pytest.mark.parametrize("size", [1, 3, 10, 64])
def test_probabilities_of_numbers_sum_to_one_within_their_bounds(size: int) -> None:
    least, largest = least_and_largest(size, 1)
    chances = [index_probability(i, size, 1) for i in range(size)]
    assert sum(chances) == 1
    assert least == min(chances)
    assert largest == max(chances)


@pytest.mark.parametrize("name", MechanismName)
def test_people_do_not_depend_on_each_other(name: str) -> None:
    rng = np.random.default_rng(3)
    made = mechanism(name, 40, 25, 1.0)
    codes = rng.integers(0, 40, size=9000)
    words = rng.integers(0, 2**64, size=(9000, made.n_words), dtype=np.uint64)
    order = rng.permutation(9000)
    together = made.randomize(codes, words)
    assert np.array_equal(together[order], made.randomize(codes[order], words[order]))
    assert np.array_equal(together[:1], made.randomize(codes[:1], words[:1]))
    assert made.randomize(codes[:0], words[:0]).shape == together[:0].shape
    assert made.observe(ReportCounts.of(together)).n == 9000


@pytest.mark.parametrize("name", MechanismName)
def test_mechanisms_travel_to_workers(name: str) -> None:
    made = mechanism(name, 60, 50, 1.0)
    sent = pickle.dumps(made)
    assert len(sent) < 4000
    assert pickle.loads(sent) == made


@pytest.mark.parametrize("name", [name for name in MechanismName if name not in ("urap", "uoue")])
def test_a_report_fits_a_bigint_at_any_size(name: str) -> None:
    for w, v in ((277, 253), (1000, 1000)):
        for epsilon in (0.1, 10.0):
            made = mechanism(name, w, v, epsilon)
            codes = np.arange(w)
            words = np.full((w, made.n_words), 2**64 - 1, dtype=np.uint64)
            reports = made.randomize(codes, words)
            assert reports.dtype == np.int64
            assert reports.min() >= 0
            assert made.observe(ReportCounts.of(reports)).n == w


@pytest.mark.parametrize(
    ("name", "w", "v", "epsilon", "told"),
    [
        ("rr", 5, 2, 1.0, "mechanism = 'rr' is none of ubd"),
        ("ubd", 1, 1, 1.0, "n_categories = 1"),
        ("ubd", 5, 0, 1.0, "n_sensitive = 0"),
        ("ubd", 5, 6, 1.0, "n_sensitive = 6"),
        ("ubd", 5, 2, 0.0, "epsilon = 0.0"),
        ("ubd", 5, 2, 21, "epsilon = 21"),
        ("ubd", 5, 2, float("nan"), "epsilon = nan"),
    ],
)
def test_what_no_mechanism_can_be_is_refused(name: str, w: int, v: int, epsilon: float, told: str) -> None:
    with pytest.raises(PlanRefused, match=told.replace(".", r"\.")):
        mechanism(name, w, v, epsilon)


@pytest.mark.parametrize("name", MechanismName)
def test_codes_words_and_reports_of_others_are_refused_and_not_quoted(name: str) -> None:
    made = mechanism(name, 9, 5, 1.0)
    words = np.zeros((2, made.n_words), dtype=np.uint64)
    for codes in (np.array([0, 9]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([[0, 1]])):
        with pytest.raises(PlanRefused, match="codes must be integers from 0 to 8") as refused:
            made.randomize(codes, words)
        assert "-1" not in str(refused.value)
    for wrong in (words[:, 1:], words.astype(np.int64), words[:1]):
        with pytest.raises(PlanRefused, match="words of type"):
            made.randomize(np.array([0, 1]), wrong)
    reports = made.randomize(np.array([0, 1]), words)
    for counts in (np.array([1]), np.array([1, -1]), np.array([0.5, 1])):
        with pytest.raises(PlanRefused, match="each report needs a whole number"):
            made.observe(ReportCounts(reports, counts))
    foreign = np.array([-1, 10**15]) if reports.ndim == 1 else reports[:, :1]
    with pytest.raises(PlanRefused, match="none of this mechanism's"):
        made.observe(ReportCounts(foreign, np.array([1, 1])))


@pytest.mark.parametrize("name", MechanismName)
def test_unknown_estimators_and_no_reports_are_refused(name: str) -> None:
    made = mechanism(name, 9, 5, 1.0)
    words = np.zeros((2, made.n_words), dtype=np.uint64)
    counted = ReportCounts.of(made.randomize(np.array([0, 1]), words))
    with pytest.raises(PlanRefused, match="method = 'best' is none of linear"):
        made.estimate(counted, method="best")
    with pytest.raises(PlanRefused, match="consistency = 'all' is none of none"):
        made.estimate(counted, consistency="all")
    with pytest.raises(PlanRefused, match="reports"):
        made.estimate(ReportCounts(counted.reports[:0], counted.counts[:0]))


def test_a_bitmap_with_two_answers_is_none() -> None:
    made = mechanism("uoue", 9, 5, 1.0)
    with pytest.raises(PlanRefused, match="none of this mechanism's"):
        made.observe(ReportCounts(np.packbits([[0, 0, 0, 0, 0, 1, 1, 0, 0]], axis=1), np.array([1])))


def reports_of(made: Mechanism, truth: NDArray[np.float64], n: int) -> ReportCounts:
    rng = np.random.default_rng(len(truth))
    codes = rng.choice(len(truth), n, p=truth)
    words = rng.integers(0, 2**64, (n, made.n_words), dtype=np.uint64)
    return ReportCounts.of(made.randomize(codes, words))


def mean_square(found: Estimate, truth: NDArray[np.float64]) -> float:
    """In units of the standard errors."""
    return float(np.mean(((found.shares - truth) / found.stds) ** 2))


@pytest.mark.parametrize("name", MechanismName)
@pytest.mark.parametrize(("w", "v", "epsilon"), [(12, 5, 1.0), (30, 23, 0.7), (6, 6, 2.0), (5, 1, 1.0)])
def test_estimates_recover_the_truth(name: str, w: int, v: int, epsilon: float) -> None:
    """n = 100,000, seeds fixed: the words of reports are the only chance. The next test shows the power."""
    truth = np.random.default_rng(w).dirichlet(np.ones(w))
    made = mechanism(name, w, v, epsilon)
    counted = reports_of(made, truth, 100_000)
    for method in ("linear", "likelihood"):
        found = made.estimate(counted, method=method)
        assert mean_square(found, truth) < 3
        assert (found.low <= found.shares).all()
        assert (found.shares <= found.high).all()
    assert np.isclose(found.shares.sum(), 1)


@pytest.mark.parametrize("name", ["urr", "uhr", "urap", "uoue"])
@pytest.mark.parametrize("error", [0.9, 1.1])
def test_reports_of_another_epsilon_are_told_by_their_estimates(name: str, error: float) -> None:
    truth = np.random.default_rng(12).dirichlet(np.ones(12))
    counted = reports_of(mechanism(name, 12, 5, 1.0), truth, 100_000)
    assert mean_square(mechanism(name, 12, 5, error).estimate(counted, method="linear"), truth) > 3


@pytest.mark.parametrize("name", MechanismName)
def test_only_plain_arrays_are_randomized_and_everybody_is(name: str) -> None:
    made = mechanism(name, 20, 12, 1.0)
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 20, 500)
    words = rng.integers(0, 2**64, (500, made.n_words), dtype=np.uint64)
    expected = made.randomize(codes, words)
    shuffled = pd.Series(codes, index=rng.permutation(500))
    assert np.array_equal(made.randomize(shuffled, words), expected)
    assert np.array_equal(made.randomize(codes.tolist(), np.asfortranarray(words)), expected)
    masked = np.ma.masked_array(words, np.repeat((codes > 3)[:, None], made.n_words, axis=1))
    for given in ((codes, masked), (np.ma.masked_array(codes, codes > 3), words)):
        with pytest.raises(PlanRefused, match="masked array"):
            made.randomize(*given)


@pytest.mark.parametrize(("w", "v", "epsilon"), [(9, 5, 16.0), (9, 5, 20.0), (4, 2, 14.0), (60, 50, 8.0)])
def test_hashes_with_more_cells_than_categories_are_read_right(w: int, v: int, epsilon: float) -> None:
    """Most cells are empty: their reports say nothing, and must not drown the others in rounding."""
    truth = np.random.default_rng(w).dirichlet(np.ones(w))
    made = mechanism("uolh", w, v, epsilon)
    found = made.estimate(reports_of(made, truth, 5000))
    assert np.isclose(found.shares.sum(), 1)
    assert mean_square(found, truth) < 3


@pytest.mark.parametrize("words", [1, 5, 2**32, WORD])
@pytest.mark.parametrize("n_blocks", [2, 7, 2**31, 2**62])
@pytest.mark.parametrize("replication", [1, 2, 3])
def test_thresholds_hold_the_ratio_or_are_refused(words: int, n_blocks: int, replication: int) -> None:
    """Whatever the sizes: also where a component has few words, or numbers are as rough as they can be."""
    for epsilon in (Fraction(1, 10_000), Fraction(1), Fraction(20)):
        ratio = largest_ratio(epsilon)
        try:
            drawn = block_thresholds(words, min(replication, n_blocks), n_blocks, epsilon, index_words=1)
        except PlanRefused:
            assert words < WORD or n_blocks == 2**62  # all words, and numbers that are fine: never refused
            continue
        r = min(replication, n_blocks)
        inside, every = least_and_largest(r, 1), least_and_largest(n_blocks, 1)
        chances = [drawn.inside * each for each in inside] + [drawn.protected * each for each in every]
        if n_blocks > r:
            chances += [drawn.outside * each for each in least_and_largest(n_blocks - r, 1)]
        assert 0 < max(chances) <= ratio * min(chances)


def test_counts_that_no_float_holds_are_refused() -> None:
    made = mechanism("urr", 5, 3, 1.0)
    for counts in (np.array([2**62, 2**62]), np.array([2**63 + 10, 5], dtype=np.uint64)):
        with pytest.raises(PlanRefused, match="more than"):
            made.estimate(ReportCounts(np.array([0, 1]), counts))
    found = made.estimate(ReportCounts(np.arange(5), np.full(5, 10**15)), method="linear")
    assert np.isfinite(found.low).all()


def test_a_million_categories_take_memory_for_one_vector_each() -> None:
    made = mechanism("ubd", 1_000_000, 999_999, 1.0)
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1_000_000, 300)
    reports = made.randomize(codes, rng.integers(0, 2**64, (300, made.n_words), dtype=np.uint64))
    assert made.estimate(ReportCounts.of(reports), method="linear").n == 300
