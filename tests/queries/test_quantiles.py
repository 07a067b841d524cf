"""Quantiles, minimum and maximum from noisy histograms."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from noisy import drawn, noisy, require_coverage, require_sound, smoothed
from numpy.typing import NDArray

from dp_spark.queries import Bounds, ClampedColumn, DerivedEstimate, Edges, Extreme, NoisyTotal, Quantiles

Floats = NDArray[np.float64]
ONE = Bounds(1, 1, 1)
HALF = (Fraction(1, 2),)


def edges(bins: int, width: Fraction = Fraction(1)) -> Edges:
    return Edges("x", tuple(place * width for place in range(bins + 1)))


def levels(query: Quantiles, counts: Sequence[float] | Floats) -> list[Floats]:
    """The exact total of each level."""
    merged = [total.measure.merged for total in query.totals(ONE)]
    return [np.add.reduceat(np.asarray(counts, dtype=float), np.arange(0, len(counts), m)) for m in merged]


def exact(query: Quantiles, counts: Sequence[float]) -> list[NoisyTotal]:
    """Totals with hardly any noise, of one group."""
    return [noisy(level[None] if len(level) > 1 else level, 1e-9) for level in levels(query, counts)]


def shaped(bins: int, shape: str, rows: int) -> Floats:
    place = (np.arange(bins) + 0.5) / bins
    density = {
        "flat": np.ones(bins),
        "bell": np.exp(-0.5 * ((place - 0.4) / 0.1) ** 2),
        "exp": np.exp(-6 * place),
    }
    return np.rint(density[shape] / density[shape].sum() * rows)


def truth_of(of: Edges, counts: Floats, share: float) -> float:
    cumulated = np.concatenate([[0], np.cumsum(counts)])
    return float(np.interp(share * cumulated[-1], cumulated, [float(edge) for edge in of.edges]))


def test_without_noise_a_quantile_is_where_the_share_lies_below() -> None:
    query = Quantiles(edges(4, Fraction(5)), (Fraction(1, 8), Fraction(1, 2), Fraction(9, 10)))
    answers = query.estimate(exact(query, [1, 3, 0, 4]))
    assert [answer.value[0] for answer in answers] == pytest.approx([5.0, 10.0, 19.0], abs=1e-6)
    for answer in (answers[0], answers[2]):
        assert answer.low == pytest.approx(answer.value, abs=1e-6)
        assert answer.high == pytest.approx(answer.value, abs=1e-6)


def test_an_answer_is_named_by_its_share() -> None:
    query = Quantiles(edges(3), (Fraction(1, 2), Fraction(199, 200), Fraction(1, 1000)))
    assert [answer.suffix for answer in query.answers] == ["_p50", "_p99_5", "_p0_1"]
    assert query.answers[1].says == "0.995 quantile of x"


def test_an_extreme_is_a_quantile_and_says_which_and_why() -> None:
    low, high = (Extreme(edges(7), Fraction(at, 100)) for at in (1, 99))
    quantiles = Quantiles(edges(7), (low.at, high.at))
    assert low.totals(ONE) == high.totals(ONE) == quantiles.totals(ONE)
    noisy_levels = exact(quantiles, [5, 0, 2, 9, 9, 1, 30])
    for one, both in zip((low, high), quantiles.estimate(noisy_levels), strict=True):
        assert one.estimate(noisy_levels)[0].value == both.value
    assert [each.answers[0].suffix for each in (low, high)] == ["", ""]
    assert low.answers[0].says == "0.01 quantile of x, for the minimum, which hangs on one row"
    assert high.answers[0].says == "0.99 quantile of x, for the maximum, which hangs on one row"


def test_levels_are_histograms_of_their_own_and_the_finest_is_a_histogram_of_the_bins() -> None:
    finest, *coarser = Quantiles(edges(42), HALF).totals(Bounds(3, 5))
    assert (finest.name, finest.bins, finest.measure.merged) == ("bins_1", 42, 1)
    assert [(total.bins, total.measure.merged) for total in coarser] == [(11, 4), (3, 16)]
    assert {(total.sensitivity, total.cells, total.in_all) for total in (finest, *coarser)} == {(5, 3, 15)}


@pytest.mark.parametrize("bins", [1, 2, 14, 210])
@pytest.mark.parametrize("std", [1.0, 30.0, 1e6])
def test_whatever_the_noise_answers_are_within_the_edges_and_in_order(bins: int, std: float) -> None:
    rng, of = np.random.default_rng(3), edges(bins, Fraction("0.1"))
    query = Quantiles(of, tuple(Fraction(at, 100) for at in (1, 25, 50, 75, 99)))
    totals = [
        noisy(rng.normal(0, std, (500, total.bins) if total.bins > 1 else 500), std)
        for total in query.totals(ONE)
    ]
    answers = query.estimate(totals)
    require_sound(answers, float(of.edges[0]), float(of.edges[-1]))
    assert np.all(np.diff([answer.value for answer in answers], axis=0) >= 0)


def test_where_there_seem_to_be_no_rows_everything_is_possible() -> None:
    query = Quantiles(edges(4), (Fraction(1, 4),))
    (answer,) = query.estimate([noisy([[-3.0, 1.0, -2.0, 0.0]], 2.0)])
    assert (answer.low.tolist(), answer.value.tolist(), answer.high.tolist()) == ([0.0], [1.0], [4.0])


def test_a_std_for_every_cell_gives_what_one_for_all_gives() -> None:
    rng, query = np.random.default_rng(4), Quantiles(edges(42), (Fraction(1, 2), Fraction(9, 10)))
    totals = [
        drawn(level, family="gaussian", std_steps=9.0, draws=50, rng=rng, grid=Fraction(1))
        for level in levels(query, shaped(42, "bell", 900))
    ]
    for one, other in zip(query.estimate(totals), query.estimate(list(map(smoothed, totals))), strict=True):
        for name in ("value", "std", "low", "high"):
            assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_many_groups_are_decoded_in_blocks_as_each_by_itself() -> None:
    rng, query = np.random.default_rng(5), Quantiles(edges(210), HALF)
    totals = [noisy(rng.normal(20, 9, (2000, total.bins)), 9.0) for total in query.totals(ONE)]
    (together,) = query.estimate(totals)
    (last,) = query.estimate([noisy(total.values[-1:], 9.0) for total in totals])
    assert (together.value[-1], together.low[-1], together.high[-1]) == pytest.approx(
        (last.value[0], last.low[0], last.high[0])
    )


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("std", [5.0, 20.0])
@pytest.mark.parametrize(
    ("bins", "shape", "share"),
    [(14, "bell", Fraction(1, 2)), (14, "exp", Fraction(9, 10)), (42, "flat", Fraction(1, 4))],
)
def test_intervals_cover_what_they_say(
    family: str, std: float, bins: int, shape: str, share: Fraction
) -> None:
    """60,000 draws: coverage 94.4 to 96.0 %; the truth lies from 95.0 to 95.5 %.

    Either end is 6.2 standard errors (0.09 %) away or more: false alarms below 1e-9. Intervals a tenth
    narrower (93.0 %) or wider (96.8 %) fall outside, which is asserted too.
    """
    rng, query, counts = (
        np.random.default_rng(6),
        Quantiles(edges(bins), (share,)),
        shaped(bins, shape, 20_000),
    )
    totals = [
        drawn(level, family=family, std_steps=std, draws=60_000, rng=rng, grid=Fraction(1))
        for level in levels(query, counts)
    ]
    (answer,) = query.estimate(totals)
    require_coverage(answer, truth_of(query.of, counts, float(share)), 0.944, 0.960)


@pytest.mark.parametrize(("family", "least", "most"), [("laplace", 0.934, 0.948), ("gaussian", 0.946, 0.962)])
def test_an_interval_that_hangs_on_two_noises_covers_what_they_allow(
    family: str, least: float, most: float
) -> None:
    """100,000 draws: the truth is 94.1 % of Laplace noise, 95.4 % of Gaussian noise.

    Either end is 9 standard errors (0.075 %) away: a false alarm is out of the question. Intervals a tenth
    narrower (92.1 %, 92.8 %) or wider (95.7 %, 97.2 %) fall outside, which is asserted too.
    """
    rng, query, counts = np.random.default_rng(7), Quantiles(edges(2), HALF), np.array([15_000.0, 5_000.0])
    total = drawn(counts, family=family, std_steps=20.0, draws=100_000, rng=rng, grid=Fraction(1))
    (answer,) = query.estimate([total])
    require_coverage(answer, truth_of(query.of, counts, 0.5), least, most)


def test_the_std_is_the_spread_of_the_value() -> None:
    """20,000 draws: a std of the value is known to 0.5 %, and said to 5 %."""
    rng, query, counts = np.random.default_rng(8), Quantiles(edges(14), HALF), shaped(14, "bell", 20_000)
    totals = [
        drawn(level, family="gaussian", std_steps=10.0, draws=20_000, rng=rng, grid=Fraction(1))
        for level in levels(query, counts)
    ]
    (answer,) = query.estimate(totals)
    assert isinstance(answer, DerivedEstimate)
    assert np.std(answer.value) == pytest.approx(np.median(answer.std), rel=0.05)


def test_weights_are_counted_as_rows_are() -> None:
    weight = ClampedColumn("w", Fraction(0), Fraction(2), Fraction("0.5"))
    (total, *_) = Quantiles(edges(3), HALF, weight).totals(Bounds(3, 5))
    assert (total.step, total.sensitivity, total.in_all) == (Fraction(1, 2), 20, 60)
    assert total.measure.weight == weight
