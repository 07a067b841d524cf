"""Variance, std and ratio: what noisy totals give, how often their intervals hold the truth."""

from fractions import Fraction

import numpy as np
import pytest
from noisy import drawn, noisy, require_coverage, require_sound, smoothed

from dp_spark.queries import (
    ONE_ROW,
    Bounds,
    ClampedColumn,
    Count,
    Ids,
    Mean,
    NoisyTotal,
    Query,
    Ratio,
    Std,
    Sum,
    Values,
    Variance,
)

COLUMN = ClampedColumn("x", Fraction(-30), Fraction(30), Fraction(1))
WEIGHT = ClampedColumn("w", Fraction(0), Fraction(2), Fraction("0.5"))
VARIABLE = ClampedColumn("y", Fraction(-1), Fraction(1), Fraction("0.125"))
RADIUS = 30


def moments(rows: float, mean: float, variance: float, std: float) -> list[NoisyTotal]:
    """Totals of a variance that came out exact."""
    squares = rows * (variance + mean**2 - RADIUS**2 / 2)
    return [noisy([value], std, Fraction(1, 1000)) for value in (rows * mean, rows, squares)]


def test_mean_variance_and_std_need_the_same_totals() -> None:
    bounds = Bounds(2, 3)
    mean, variance, std = (kind(COLUMN, WEIGHT).totals(bounds) for kind in (Mean, Variance, Std))
    assert variance == std
    assert variance[:2] == mean
    assert [total.name for total in std] == ["centred_sum", "values", "squares"]


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_steps_are_worth_what_rows_add(weight: ClampedColumn | None) -> None:
    """Of values 3 and -30 with weights 2 and 1.5, from integers to numbers and back, by hand."""
    of, rows = ClampedColumn("x", Fraction(-30), Fraction(30), Fraction("0.5")), [(6, 4), (-60, 3)]
    totals = Variance(of, weight).totals(ONE_ROW)
    weights = [count if weight else 1 for _, count in rows]
    centred = [2 * value for value, _ in rows]
    span = of.upper_steps - of.lower_steps
    integers = [
        sum(w * c for w, c in zip(weights, centred, strict=True)),
        sum(weights),
        sum(w * (2 * c**2 - span**2) for w, c in zip(weights, centred, strict=True)),
    ]
    values, shares = np.array([3.0, -30.0]), np.array([2.0, 1.5]) if weight else np.ones(2)
    wanted = [shares @ values, shares.sum(), shares @ (values**2 - RADIUS**2 / 2)]
    assert [float(n * total.step) for n, total in zip(integers, totals, strict=True)] == pytest.approx(wanted)


def test_a_variance_is_the_mean_square_distance_from_the_mean() -> None:
    (variance,) = Variance(COLUMN).estimate(moments(100, 4, 25, 1e-4))
    (std,) = Std(COLUMN).estimate(moments(100, 4, 25, 1e-4))
    assert variance.value == pytest.approx([25], rel=1e-4)
    assert std.value == pytest.approx([5], rel=1e-4)
    assert std.low == pytest.approx(np.sqrt(variance.low))
    assert std.high == pytest.approx(np.sqrt(variance.high))
    assert std.std == pytest.approx(variance.std / 10, rel=1e-3)


@pytest.mark.parametrize(("query", "most"), [(Variance(COLUMN), 900.0), (Std(COLUMN), 30.0)], ids=repr)
def test_a_variance_of_hardly_anything_is_anything(query: Query, most: float) -> None:
    counts = [5.0, 0.0, -20.0, 9.0]
    values = ([0.0, 900.0, -900.0, 270.0], counts, [-2000.0, 5000.0, 0.0, -9000.0])
    (answer,) = query.estimate([noisy(each, 10.0) for each in values])
    require_sound([answer], 0.0, most)
    assert answer.low.tolist() == [0.0] * 4
    assert answer.high.tolist() == [most] * 4


@pytest.mark.parametrize("std", [1.0, 30.0, 1e6])
def test_whatever_the_noise_answers_are_finite_and_within_public_bounds(std: float) -> None:
    rng = np.random.default_rng(2)
    totals = [noisy(rng.normal(0, std * scale, 2000), std * scale) for scale in (30, 1, 450)]
    require_sound(Variance(COLUMN).estimate(totals), 0.0, 900.0)
    require_sound(Std(COLUMN).estimate(totals), 0.0, 30.0)
    require_sound(Mean(COLUMN).estimate(totals[:2]), -30.0, 30.0)
    for denominator in (Count(), Sum(VARIABLE)):
        query = Ratio(Sum(COLUMN), denominator, Fraction("-0.1"), Fraction("29.7"))
        require_sound(query.estimate(totals[:2]), -0.1, 29.7)


@pytest.mark.parametrize(("family", "least", "most"), [("laplace", 0.936, 0.953), ("gaussian", 0.945, 0.963)])
@pytest.mark.parametrize(("rows", "mean", "variance"), [(1000, 0, 400), (1000, 10, 100), (10_000, -25, 5)])
@pytest.mark.parametrize("kind", [Variance, Std])
def test_the_interval_of_a_variance_covers_what_it_says(
    kind: type[Variance | Std],
    family: str,
    least: float,
    most: float,
    rows: int,
    mean: int,
    variance: int,
) -> None:
    """200,000 draws, noise of 5 grid steps: the truth is 94.1 to 94.8 % of Laplace, 95.4 % of Gaussian noise.

    Either end is 9 standard errors (0.05 %) away: a false alarm is out of the question. Intervals a tenth
    narrower (at most 92.6 and 92.8 %) or wider (at least 95.6 and 97.2 %) fall outside, as is asserted.
    """
    rng, answers = np.random.default_rng(3), (rows * mean, rows, rows * (variance + mean**2 - 450))
    totals = [
        drawn(value, family=family, std_steps=5.0, draws=200_000, rng=rng, grid=Fraction(grid))
        for value, grid in zip(answers, (60, 2, 900), strict=True)
    ]
    (answer,) = kind(COLUMN).estimate(totals)
    truth = variance if kind is Variance else np.sqrt(variance)
    require_coverage(answer, float(truth), least, most)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize(("top", "bottom"), [(3000, 300), (-9000, 300), (5000, 10_000), (600, 60)])
def test_the_interval_of_a_ratio_covers_what_it_says(family: str, top: int, bottom: int) -> None:
    """200,000 draws, noise of 5 grid steps: coverage 94.7 to 96.3 %; the truth lies from 95.3 to 96.0 %.

    Either end is 7 standard errors (0.045 %) away: false alarms below 1e-9. Intervals a tenth narrower
    (94.3 % at most) or wider (96.7 % at least) fall outside, which is asserted too.
    """
    rng = np.random.default_rng(4)
    totals = [
        drawn(value, family=family, std_steps=5.0, draws=200_000, rng=rng, grid=Fraction(grid))
        for value, grid in ((top, 60), (bottom, 2))
    ]
    for denominator, sign in ((Count(), 1), (Sum(VARIABLE), -1)):
        query = Ratio(Sum(COLUMN), denominator, Fraction(-200), Fraction(200))
        turned = NoisyTotal(sign * totals[1].steps, totals[1].grid, totals[1].std, totals[1].half_width)
        (answer,) = query.estimate([totals[0], turned])
        require_coverage(answer, sign * top / bottom, 0.947, 0.963)


@pytest.mark.parametrize("query", [Variance(COLUMN), Std(COLUMN), Mean(COLUMN, WEIGHT)], ids=repr)
def test_a_std_for_every_group_gives_what_one_for_all_gives(query: Query) -> None:
    needed = len(query.totals(ONE_ROW))
    totals = moments(100, 4, 25, 3.0)[:needed]
    ((one,), (other,)) = (query.estimate(each) for each in (totals, list(map(smoothed, totals))))
    for name in ("value", "std", "low", "high"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_a_ratio_needs_the_totals_of_its_queries_and_no_other() -> None:
    bounds = Bounds(2, 3)
    for numerator, denominator in ((Sum(COLUMN), Count()), (Ids(), Count(WEIGHT)), (Values("x"), Ids())):
        query = Ratio(numerator, denominator, Fraction(0), Fraction(1))
        assert query.totals(bounds) == numerator.totals(bounds) + denominator.totals(bounds)
