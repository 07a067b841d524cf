"""What noisy totals are decoded to."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dp_spark.queries import (
    ClampedColumn,
    Count,
    DerivedEstimate,
    Distinct,
    Edges,
    Histogram,
    Ids,
    LatticeEstimate,
    Listed,
    Mean,
    NoisyTotal,
    Query,
    SmoothedTotal,
    Sum,
    Values,
)

COLUMNS = [
    ClampedColumn("x", Fraction(-3), Fraction(5), Fraction(1)),
    ClampedColumn("x", Fraction(1), Fraction(2), Fraction("0.5")),
    ClampedColumn("x", Fraction(-4), Fraction(-2), Fraction(1)),
]


def noisy(values: Sequence[float], std: float, grid: Fraction = Fraction(1)) -> NoisyTotal:
    steps = np.array([round(value / float(grid)) for value in values], dtype=np.int64)
    return NoisyTotal(steps, grid, std, half_width=int(2.12 * std / float(grid)))


WEIGHT = ClampedColumn("w", Fraction(0), Fraction(2), Fraction("0.5"))
TOTALS: list[Query] = [
    Count(),
    Count(WEIGHT),
    Values("x"),
    Ids(),
    Sum(COLUMNS[0]),
    Sum(COLUMNS[0], WEIGHT),
    Distinct(Listed("x", ("a", "b"))),
    Histogram(Edges("x", (Fraction(0), Fraction(1)))),
]


@pytest.mark.parametrize("query", TOTALS, ids=repr)
def test_an_answer_that_is_a_total_stays_on_its_lattice(query: Query) -> None:
    (answer,) = query.estimate([noisy([7, -3], std=4.0, grid=Fraction(1, 2))])
    assert isinstance(answer, LatticeEstimate)
    assert (answer.grid, answer.std) == (Fraction(1, 2), 4.0)
    assert answer.steps.tolist() == [14, -6]
    assert (
        (answer.high_steps - answer.steps).tolist() == (answer.steps - answer.low_steps).tolist() == [16, 16]
    )


def test_a_mean_is_the_midpoint_plus_the_ratio() -> None:
    (answer,) = Mean(COLUMNS[0]).estimate([noisy([200.0], 1e-9), noisy([100.0], 1e-9)])
    assert answer.value == pytest.approx([3.0])
    assert answer.low == pytest.approx([3.0])
    assert answer.high == pytest.approx([3.0])


def test_a_mean_of_hardly_anything_stays_within_the_public_bounds_and_says_nothing() -> None:
    (answer,) = Mean(COLUMNS[0]).estimate([noisy([900.0, -900.0, 0.0], 40.0), noisy([-3.0, 0.0, 5.0], 10.0)])
    assert answer.value.tolist() == [5.0, -3.0, 1.0]
    assert answer.low.tolist() == [-3.0] * 3
    assert answer.high.tolist() == [5.0] * 3
    assert np.all(answer.std <= 4.0)
    assert np.all(np.isfinite([answer.value, answer.std, answer.low, answer.high]))


@pytest.mark.parametrize("count", [300, 3000])
def test_the_interval_of_a_mean_covers_what_it_says(count: int) -> None:
    """200,000 draws of Laplace noise: coverage 95.0 to 96.0 %; the truth, from 2 million draws, is 95.46 %.

    Either end is 10 standard errors (0.046 %) away: a false alarm is out of the question. Intervals a tenth
    narrower (93.5 %) or wider (96.7 %) fall outside, which is asserted too.
    """
    rng = np.random.default_rng(7)
    scale, truth, draws = 10.0, 2.0, 200_000
    std, half = scale * np.sqrt(2), int(np.ceil(2.9957 * scale))
    column = ClampedColumn("x", Fraction(-30), Fraction(30), Fraction(1))
    centred = np.rint(truth * count + rng.laplace(0, scale, draws)).astype(np.int64)
    counts = np.rint(count + rng.laplace(0, scale, draws)).astype(np.int64)
    (answer,) = Mean(column).estimate(
        [NoisyTotal(centred, Fraction(1), std, half), NoisyTotal(counts, Fraction(1), std, half)]
    )

    def coverage(factor: float) -> float:
        low, high = (answer.value + factor * (end - answer.value) for end in (answer.low, answer.high))
        return float(np.mean((low <= truth) & (truth <= high)))

    assert 0.950 <= coverage(1.0) <= 0.960
    assert coverage(0.9) < 0.950
    assert coverage(1.1) > 0.960


def test_a_histogram_answers_for_each_bin_on_the_lattice_and_says_what_lies_in_it() -> None:
    query = Histogram(Edges("delay", tuple(map(Fraction, ("-30", "0", "7.5", "180")))))
    total = NoisyTotal(np.array([[1, 2, 3], [4, 5, 6]]), Fraction(1, 2), 3.0, half_width=12)
    answers = query.estimate([total])
    assert [answer.suffix for answer in query.answers] == ["_1", "_2", "_3"]
    assert [answer.total for answer in query.answers] == [0, 0, 0]
    assert [answer.says for answer in query.answers] == [
        "rows with delay in [-30, 0) or below",
        "rows with delay in [0, 7.5)",
        "rows with delay in [7.5, 180] or above",
    ]
    for place, answer in enumerate(answers):
        assert isinstance(answer, LatticeEstimate)
        assert answer.steps.tolist() == [place + 1, place + 4]
        assert (answer.high_steps - answer.steps).tolist() == [12, 12]
        assert (answer.grid, answer.std) == (Fraction(1, 2), 3.0)


def test_a_smoothed_histogram_keeps_the_std_of_each_cell() -> None:
    query, values = Histogram(Edges("x", tuple(map(Fraction, range(3))))), np.array([[1.0, 2.0], [3.0, 4.0]])
    for std, wanted in ((2.0, [2.0, 2.0]), (np.array([[1.0, 5.0], [3.0, 7.0]]), [5.0, 7.0])):
        _, answer = query.estimate([SmoothedTotal(values, std, 2.0)])
        assert isinstance(answer, DerivedEstimate)
        assert answer.value.tolist() == [2.0, 4.0]
        assert answer.std.tolist() == wanted
        assert (answer.high - answer.value).tolist() == [2 * each for each in wanted]


def test_what_is_weighted_says_so() -> None:
    edges = Edges("x", tuple(map(Fraction, range(3))))
    assert Count(WEIGHT).answers[0].says == "sum of the rows' weights"
    assert Sum(COLUMNS[0], WEIGHT).answers[0].says == "weighted sum"
    assert Mean(COLUMNS[0], WEIGHT).answers[0].says == "weighted mean"
    assert Histogram(edges, WEIGHT).answers[0].says == "sum of the weights of rows with x in [0, 1) or below"
