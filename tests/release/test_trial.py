"""Trials of bounds: expected totals against simulated bounding, noise against plans, the search itself."""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dp_spark.errors import InputRefused, PlanRefused
from dp_spark.frames.bound import kept_rows
from dp_spark.frames.identity import identities
from dp_spark.queries import Bounds, ClampedColumn, Measure, MeasureKind
from dp_spark.release.planner import level_bounds, plan_release, query_of
from dp_spark.release.spec import ReleaseSpec
from dp_spark.release.trial import Sample, Totals, tried_bounds
from dp_spark.release.trial.grids import around, common_multiple, round_numbers, whole_numbers
from dp_spark.release.trial.noise import NoiseSearch

GROUPS, KEYS = 5, 800
EUROS = ClampedColumn("euros", Fraction(0), Fraction(60), Fraction(1))
UNIT_EUROS = ClampedColumn("euros", Fraction(0), Fraction(60), Fraction(1), per_unit=True)


def sample(units: int = 60, *, seed: int = 7, rate: float = 1.0) -> Sample:
    """Units of 1 to 5 groups with 1 to 6 rows in each; every tenth value is missing."""
    draw = np.random.default_rng(seed)
    pairs = [
        (unit, group, rows)
        for unit in range(units)
        for group in draw.permutation(GROUPS)[: draw.integers(1, GROUPS + 1)]
        for rows in [draw.integers(1, 7)]
    ]
    unit, group, rows = (np.array(each, dtype=np.int64) for each in zip(*pairs, strict=True))
    values = np.floor(draw.lognormal(3, 1, rows.sum()))
    values[::10] = np.nan
    return Sample(np.repeat(unit, rows), np.repeat(group, rows), {"euros": values}, {}, GROUPS, rate)


def spec(**changed: Any) -> ReleaseSpec:
    written: dict[str, Any] = {
        "release": "visits",
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": 2, "max_rows_per_group": 3},
        "group_by": ["place"],
        "groups": {"public": list("abcde")},
        "guarantee": {"epsilon": 1, "delta": "1e-6"},
        "noise": "laplace",
        "queries": [
            {"name": "visits", "kind": "count"},
            {"name": "people", "kind": "ids"},
            {"name": "spent", "kind": "sum", "column": "euros", "lower": 0, "upper": 1000},
            {"name": "mean_spent", "kind": "mean", "column": "euros", "lower": 0, "upper": 1000},
        ],
        "budget": {"population": "town_people"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }
    return ReleaseSpec(**{**written, **changed})


MEASURES = [
    Measure(MeasureKind.ROWS),
    Measure(MeasureKind.UNITS),
    Measure(MeasureKind.NON_NULL, EUROS),
    Measure(MeasureKind.VALUE, EUROS),
]


def simulated(rows: Sample, bounds: Bounds) -> np.ndarray:
    """The totals of MEASURES that the engine keeps, by key, shape (keys, measures, groups)."""
    ids = identities([pa.array(rows.unit)], bytes(32))
    values, group = rows.numbers["euros"], rows.group.astype(np.uint16)
    codes = np.nan_to_num(values, nan=2**15).astype(np.uint16)
    clamped = np.nan_to_num(np.clip(values, 0, 60))
    found = []
    for number in range(KEYS):
        kept = kept_rows(ids, group, [codes], key=number.to_bytes(32, "big"), bounds=bounds)
        added = (np.ones(len(kept.rows)), kept.first, ~np.isnan(values[kept.rows]), clamped[kept.rows])
        found.append([np.bincount(rows.group[kept.rows], each, GROUPS) for each in added])
    return np.array(found)


@pytest.mark.parametrize(
    "bounds", [Bounds(2, 3), Bounds(1, 1), Bounds(9, 2), Bounds(None, None, 4), Bounds(None, 2, 3)], ids=str
)
def test_expected_totals_are_those_of_the_engine_on_average(bounds: Bounds) -> None:
    """800 keys, 20 means within 5 of their standard errors: a false alarm in 80,000 choices of keys.

    A standard error is at most 0.7 % of the number of rows: 6 % more or less would be seen.
    """
    rows = sample()
    totals, engine = Totals(rows, apart=True), simulated(rows, bounds)
    expected = np.array([totals.expected(measure, totals.kept(bounds)[0]) for measure in MEASURES])
    error = engine.std(axis=0) / np.sqrt(KEYS)
    assert (np.abs(engine.mean(axis=0) - expected) <= 5 * error + 1e-9).all()
    for wrong in (0.94, 1.06):
        assert not (np.abs(engine.mean(axis=0) - wrong * expected) <= 5 * error).all()


def test_a_bound_on_all_rows_that_depends_on_the_chosen_groups_is_met_nearly() -> None:
    rows, bounds = sample(), Bounds(2, 4, 5)
    totals, engine = Totals(rows, apart=True), simulated(rows, bounds).mean(axis=0)
    expected = np.array([totals.expected(measure, totals.kept(bounds)[0]) for measure in MEASURES])
    assert expected == pytest.approx(engine, rel=0.03)


@pytest.mark.parametrize("bounds", [Bounds(2, 3), Bounds(1, 1), Bounds(9, 2)], ids=str)
def test_pairs_that_bounds_treat_alike_are_one_cell(bounds: Bounds) -> None:
    together, apart = (Totals(sample(), apart=each) for each in (False, True))
    assert len(together.cells.group) < len(apart.cells.group)
    for measure in MEASURES:
        found = [each.expected(measure, each.kept(bounds)[0]) for each in (together, apart)]
        assert found[0] == pytest.approx(found[1])
    assert together.kept(bounds)[1] == pytest.approx(apart.kept(bounds)[1])


def test_totals_of_units_are_clamped_after_they_are_added() -> None:
    rows = Sample(
        unit=np.array([0, 0, 0, 1, 2]),
        group=np.array([0, 0, 1, 0, 0]),
        numbers={"euros": np.array([50.0, 30.0, 10.0, 5.0, np.nan])},
        present={},
        groups=2,
    )
    totals, measure = Totals(rows, apart=True), Measure(MeasureKind.UNIT_VALUE, UNIT_EUROS)
    assert totals.true(measure).tolist() == [85, 10]
    assert totals.expected(measure, totals.kept(Bounds(2, 2))[0]).tolist() == [65, 10]
    assert totals.expected(measure, totals.kept(Bounds(1, 2))[0]).tolist() == [35, 5]


def test_a_weight_multiplies_and_a_row_without_one_counts_for_nothing() -> None:
    numbers = {"euros": np.array([10.0, 100.0, 7.0]), "weight": np.array([2.0, 9.0, np.nan])}
    rows = Sample(np.arange(3), np.zeros(3, dtype=np.int64), numbers, {}, 1)
    weight = ClampedColumn("weight", Fraction(0), Fraction(4), Fraction(1))
    totals, measure = Totals(rows, apart=False), Measure(MeasureKind.VALUE, EUROS, weight=weight)
    assert totals.true(measure).tolist() == [20 + 900]
    assert totals.expected(measure, totals.kept(Bounds(1, 1))[0]).tolist() == [20 + 4 * 60]


def test_infinite_values_count_as_the_largest_finite_one() -> None:
    rows = Sample(np.arange(3), np.zeros(3, dtype=np.int64), {"euros": np.array([1, 50, np.inf])}, {}, 1)
    assert Totals(rows, apart=False).true(Measure(MeasureKind.VALUE, EUROS)).tolist() == [101]


@pytest.mark.parametrize(
    "changed",
    [
        {
            "noise": "auto",
            "queries": [{"name": "visits", "kind": "count"}, {"name": "people", "kind": "ids"}],
        },
        {
            "bounds": {"max_groups": 4, "max_rows_per_group": 5, "max_rows": 6},
            "neighbours": "replace",
            "noise": "gaussian",
        },
        {"rollup": [[]]},
    ],
    ids=str,
)
def test_noise_is_about_that_of_the_plan(changed: dict[str, Any]) -> None:
    asked = spec(**changed)
    needed = [
        [total for entry in asked.queries for total in query_of(entry, asked).totals(bounds)]
        for bounds in level_bounds(asked)
    ]
    found = NoiseSearch().stds(asked, needed)
    planned = [total for query in plan_release(asked).queries for total in query.totals]
    assert {each.total for each in planned} == set(found)
    for each in planned:
        assert found[each.total] == pytest.approx(each.std, rel=0.15)


def test_the_suggestion_is_the_best_of_all_that_was_tried_and_better_than_a_bad_spec() -> None:
    asked = spec(bounds={"max_groups": 1, "max_rows_per_group": 1})
    trial = tried_bounds(asked, sample(2000))
    everything = [*trial.bounds, *(each for tried in trial.clamps for each in tried)]
    assert trial.suggested.relative == min(each.relative for each in everything) < 0.8
    assert trial.as_written.relative == 1
    assert trial.as_written.max_groups == 1
    (clamped,) = trial.suggested.clamps
    assert clamped.queries == ("spent", "mean_spent")
    assert 0 <= clamped.lower < clamped.upper < 1000


def test_bounds_that_are_best_already_stay() -> None:
    asked = spec(bounds={"max_groups": 1, "max_rows_per_group": 1})
    best = tried_bounds(asked, sample(2000)).suggested
    ends = {"lower": best.clamps[0].lower, "upper": best.clamps[0].upper}
    written = [
        {"name": "visits", "kind": "count"},
        {"name": "people", "kind": "ids"},
        {"name": "spent", "kind": "sum", "column": "euros", **ends},
        {"name": "mean_spent", "kind": "mean", "column": "euros", **ends},
    ]
    bounds = {"max_groups": best.max_groups, "max_rows_per_group": best.max_rows_per_group}
    again = tried_bounds(spec(bounds=bounds, queries=written), sample(2000))
    assert again.suggested.relative > 0.99


def test_a_sample_of_a_tenth_of_the_units_has_ten_times_the_bias_of_its_rows() -> None:
    whole, tenth = (tried_bounds(spec(), sample(rate=rate)).as_written for rate in (1.0, 0.1))
    for query in ("visits", "people", "spent"):
        one, other = (next(each for each in tried.errors if each.query == query) for tried in (whole, tenth))
        assert other.bias == pytest.approx(10 * one.bias)
        assert other.noise == one.noise
    means = [tried.errors[3] for tried in (whole, tenth)]
    assert means[0].bias == pytest.approx(means[1].bias)  # of a mean, noise is what shrinks
    assert means[1].noise < means[0].noise


def test_a_row_as_unit_has_clamps_alone_to_choose() -> None:
    rows = sample()
    asked = spec(unit={"row": "true"}, bounds=None)
    trial = tried_bounds(asked, Sample(np.arange(len(rows.unit)), rows.group, rows.numbers, {}, GROUPS))
    assert len(trial.bounds) == 1
    assert trial.suggested.kept == 1
    assert len(trial.clamps[0]) > 1


def test_the_bound_on_all_rows_is_left_as_written() -> None:
    trial = tried_bounds(spec(bounds={"max_rows": 4}), sample())
    assert trial.max_rows == 4
    assert trial.as_written.max_groups is None
    assert all(each.kept <= trial.as_written.kept + 1e-9 for each in trial.bounds)


def test_clamps_keep_to_the_step_of_the_query() -> None:
    query = {"name": "spent", "kind": "sum", "column": "euros", "lower": 0, "upper": 700, "step": 7}
    trial = tried_bounds(spec(queries=[query]), sample())
    ends = [end for tried in trial.clamps[0] for end in (tried.clamps[0].lower, tried.clamps[0].upper)]
    assert all(end % 7 == 0 for end in ends)


def test_a_sample_without_rows_in_groups_is_refused() -> None:
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(InputRefused, match="no row"):
        tried_bounds(spec(), Sample(none, none, {"euros": np.zeros(0)}, {}, GROUPS))


def test_a_guarantee_from_the_budget_is_refused_with_the_way_out() -> None:
    asked = spec(guarantee="from_budget", budget={"population": "town_people", "horizon": 7})
    with pytest.raises(PlanRefused, match="guarantee"):
        tried_bounds(asked, sample())


def test_grids_are_round_and_reach_the_largest() -> None:
    assert whole_numbers(1) == (1,)
    assert whole_numbers(6) == (1, 2, 3, 5, 8)
    assert whole_numbers(130)[-4:] == (50, 80, 120, 200)
    assert around(0) == (0, 0)
    assert around(173) == (150, 200)
    assert around(-0.013) == (Fraction(-15, 1000), Fraction(-12, 1000))
    assert around(9.5) == (8, 10)
    assert round_numbers([0, 173], Fraction(40)) == (0, 120, 160, 200)
    assert common_multiple([Fraction(1, 4), Fraction(3, 10)]) == Fraction(3, 2)
    assert common_multiple([]) is None
