"""From entries of a spec to questions: defaults, limits of exactness, totals that are shared."""

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from test_query_specs import (
    BOUNDS,
    COUNT,
    EVERY,
    HISTOGRAM,
    MEAN,
    QUANTILES,
    RATIO,
    SUM,
    VARIANCE,
    WEIGHT,
    read,
)

from dp_spark.errors import PlanRefused
from dp_spark.queries import (
    ONE_ROW,
    ClampedColumn,
    Count,
    Extreme,
    Mean,
    Quantiles,
    Query,
    Ratio,
    Sum,
    Values,
    Variance,
)
from dp_spark.release.asking import LARGEST_ROW_INTEGER, query_of
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.stored import plan_from_bytes, plan_to_bytes

STD = VARIANCE | {"name": "std", "kind": "std"}


def asked(*queries: Any) -> list[Query]:
    spec = read(*queries)
    return [query_of(entry, spec) for entry in spec.queries]


def drawn(plan: ReleasePlan) -> list[tuple[str, str]]:
    return [(each.query, each.planned.total.name) for each in plan.drawn]


def test_mean_variance_std_and_count_share_what_they_have_in_common() -> None:
    plan = plan_release(read(MEAN, VARIANCE, STD, COUNT))
    assert drawn(plan) == [("m", "centred_sum"), ("m", "values"), ("v", "squares"), ("n", "rows")]
    assert len(plan.queries[2].totals) == 3


def test_a_ratio_costs_nothing() -> None:
    with_ratio, without = plan_release(read(COUNT, SUM, RATIO)), plan_release(read(COUNT, SUM))
    assert drawn(with_ratio) == drawn(without) == [("n", "rows"), ("s", "sum")]
    assert [each.planned.std for each in with_ratio.drawn] == [each.planned.std for each in without.drawn]


def test_a_histogram_of_the_same_edges_is_the_finest_level_of_quantiles() -> None:
    extremes = [
        QUANTILES | {"name": kind, "kind": kind, "at": at} for kind, at in (("min", 0.1), ("max", 0.9))
    ]
    plan = plan_release(read(HISTOGRAM, QUANTILES, *extremes))
    assert drawn(plan) == [("h", "bins_1"), ("q", "bins_4")]


def test_every_kind_is_planned_stored_and_read_back_and_every_noise_has_a_label_of_its_own() -> None:
    plan = plan_release(read(*EVERY))
    tables = {digest: table.to_bytes() for digest, table in plan.tables.items()}
    assert plan_from_bytes(plan_to_bytes(plan), tables) == plan
    assert max(Counter(drawn(plan)).values()) == 1
    names = [column.name for column in plan.columns]
    assert len(set(names)) == len(names)
    for name in ("h_1", "h_14_low", "q_p50", "q_p99_5_high", "low", "r_std"):
        assert name in names


def test_totals_of_one_query_have_names_of_their_own() -> None:
    for query in asked(*EVERY):
        if not isinstance(query, Ratio):
            names = [total.name for total in query.totals(ONE_ROW)]
            assert len(set(names)) == len(names)


def test_entries_become_the_questions_they_write() -> None:
    count, values, weighted, low, quantiles = asked(
        COUNT,
        COUNT | {"name": "c", "column": "x"},
        COUNT | {"name": "w", "weight": WEIGHT},
        QUANTILES | {"name": "low", "kind": "min", "at": "0.05"},
        QUANTILES,
    )
    assert (count, values) == (Count(), Values("x"))
    assert weighted == Count(ClampedColumn("w", Fraction(0), Fraction(10), Fraction("0.01")))
    assert isinstance(low, Extreme)
    assert isinstance(quantiles, Quantiles)
    assert (low.at, quantiles.at) == (Fraction(1, 20), (Fraction(1, 2), Fraction(199, 200)))


def test_a_ratio_is_of_the_questions_it_names_in_its_own_order() -> None:
    *_, ratio = asked(SUM, COUNT, RATIO)
    assert isinstance(ratio, Ratio)
    assert isinstance(ratio.numerator, Sum)
    assert ratio.denominator == Count()
    assert ratio.answers[0].says == "s / n"


def test_default_steps_cut_a_range_into_a_thousand_and_under_weighed_squares_into_a_hundred() -> None:
    mean, weighted, variance, squares = asked(
        MEAN,
        MEAN | {"name": "wm", "weight": WEIGHT},
        VARIANCE,
        VARIANCE | {"name": "wv", "weight": WEIGHT},
    )
    assert isinstance(mean, Mean)
    assert isinstance(weighted, Mean)
    assert mean.of.step == weighted.of.step == Fraction("0.1")
    assert isinstance(variance, Variance)
    assert isinstance(squares, Variance)
    assert squares.weight is not None
    assert (variance.of.step, squares.of.step, squares.weight.step) == (Fraction("0.1"), 1, Fraction("0.1"))


@pytest.mark.parametrize(
    ("query", "way_out"),
    [
        (VARIANCE | {"step": "0.001"}, "give a coarser `step`, or tighter `lower` and `upper`"),
        (SUM | {"step": "0.001", "weight": WEIGHT | {"step": "0.0001"}}, "or a coarser `weight.step`"),
        (MEAN | {"step": "0.001", "weight": WEIGHT | {"step": "0.0001"}}, "or a coarser `weight.step`"),
        (VARIANCE | {"step": "0.1", "weight": WEIGHT | {"step": "0.01"}}, "or a coarser `weight.step`"),
        (SUM | {"lower": "999999999999999", "upper": "1e15", "step": 1}, "give a coarser `step`"),
        (COUNT | {"weight": {"column": "w", "upper": "1000000000000.1"}}, "give a coarser `weight.step`"),
    ],
)
def test_what_would_not_stay_exact_is_refused_with_the_way_out(query: Any, way_out: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        asked(query)
    assert caught.value.code == "step_too_fine"
    assert f"queries {query['name']}: " in caught.value.message
    assert str(LARGEST_ROW_INTEGER) in caught.value.message
    assert way_out in caught.value.way_out


def test_the_most_that_stays_exact_is_taken() -> None:
    steps = 46_340  # the largest integer whose square is below 2^31
    asked(VARIANCE | {"lower": 0, "upper": steps, "step": 1})
    with pytest.raises(PlanRefused, match="which are squared"):
        asked(VARIANCE | {"lower": 0, "upper": steps + 1, "step": 1})
    asked({"name": "s", "kind": "sum", **BOUNDS, "lower": 0, "upper": 2**16, "step": 1, "weight": {
        "column": "w", "upper": 2**15, "step": 1}})  # fmt: skip
