"""What plan and statement say of every kind of query, of private groups and of rollups."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dp_spark.queries import DerivedEstimate, SmoothedTotal
from dp_spark.report import facts_html, facts_text, group_words, phrases, release_facts
from dp_spark.report.picture import rulers

EDGES = "edges: {start: 0, stop: 100, step: 10}"
QUERIES = f"""
  - {{name: visits, kind: count}}
  - {{name: priced, kind: count, column: euros}}
  - {{name: weighed, kind: count, weight: {{column: weight, upper: 2}}}}
  - {{name: people, kind: ids}}
  - {{name: spent, kind: sum, column: euros, lower: 0, upper: 100}}
  - {{name: mean_spent, kind: mean, column: euros, lower: 0, upper: 100}}
  - {{name: spread, kind: variance, column: euros, lower: 0, upper: 100}}
  - {{name: deviation, kind: std, column: euros, lower: 0, upper: 100}}
  - {{name: kinds, kind: distinct, column: kind, values: [x, y]}}
  - {{name: shape, kind: histogram, column: euros, {EDGES}}}
  - {{name: part, kind: quantiles, column: euros, {EDGES}, at: [0.1, 0.5]}}
  - {{name: least, kind: min, column: euros, {EDGES}}}
  - {{name: most, kind: max, column: euros, {EDGES}}}
  - {{name: each, kind: ratio, numerator: spent, denominator: people, lower: 0, upper: 400}}"""
LATTICE = ["visits", "priced", "weighed", "people", "spent", "kinds", "shape"]
ROLLUP = "{public: {origin: [a, b], carrier: [c, d]}}\nrollup: [[origin], []]"


@pytest.fixture(scope="module")
def every_plan(plan_of):
    return plan_of(queries=QUERIES)


@pytest.fixture(scope="module")
def every(every_plan):
    return release_facts(every_plan)


def query(facts, name):
    return next(each for each in facts.queries if each.name == name)


def test_answers_that_are_totals_have_a_constant_std_and_others_have_references(every_plan, every):
    constants = {column.name: column.constant for column in every_plan.columns}
    for each in every.queries:
        stds = {constants[name] for name in each.columns if name.endswith("_std")}
        assert stds == {each.std}
        assert (each.std is None) == bool(each.references) == (each.name not in LATTICE)


def test_every_answer_of_a_query_has_its_references(every):
    assert [each.answer for each in query(every, "part").references] == ["part_p10"] * 3 + ["part_p50"] * 3


@pytest.mark.parametrize("name", ["mean_spent", "spread", "deviation", "part", "least", "each"])
def test_from_the_useful_size_on_the_std_is_a_tenth_of_what_it_is_compared_with(every, name):
    """Std falls as 1 / size in large groups, so the largest reference tells it too."""
    compared = {"spread": 100**2 / 12, "deviation": 100 / 12**0.5, "each": 200}.get(name, 50)
    found = query(every, name)
    largest = max(each.std for each in found.references if each.size == 1_000_000)
    assert found.useful.least == pytest.approx(1_000_000 * largest / (0.1 * compared), rel=0.01)


def test_references_of_a_variance_are_what_its_estimate_says_of_even_values(every_plan, every):
    planned = next(each for each in every_plan.queries if each.name == "spread")
    size = 10_000
    true = (0.0, size, size * (50**2 / 3 - 50**2 / 2))
    noisy = [
        SmoothedTotal(np.array([float(value)]), np.array([total.std]), total.half_width / total.std)
        for value, total in zip(true, planned.totals, strict=True)
    ]
    (answer,) = planned.query.estimate(noisy)
    assert isinstance(answer, DerivedEstimate)
    assert answer.value[0] == pytest.approx(100**2 / 12)
    (reference,) = [each for each in query(every, "spread").references if each.size == size]
    assert reference.std == pytest.approx(answer.std[0])


def test_a_shared_total_is_named_once_with_all_that_use_it(every):
    users = {(each.query, each.component): each.queries for each in every.totals}
    assert users["mean_spent", "centred_sum"] == ("mean_spent", "spread", "deviation")
    assert users["spent", "sum"] == ("spent", "each")
    assert users["shape", "bins_1"] == ("shape", "part", "least", "most")
    assert not any(each.query == "each" for each in every.totals)


def test_totals_say_what_they_count(every):
    told = {phrases.total_name(each): each.counts for each in every.totals}
    assert told["shape: bins_1"] == "rows in each of 10 bins of euros"
    assert told["spread: squares"] == "squares of euros less the middle of its bounds"
    assert told["kinds: distinct"] == "listed values of kind"
    assert told["weighed: weights"] == "weight"


def test_bounds_and_bins_stand_once_for_all_queries_that_have_them(every):
    told = [text for name, text in phrases.promise(every) if name in {"values", "weights", "bins"}]
    assert told == [
        "weighed: weight clamped to [0, 2], in steps of 0.001",
        "spent, mean_spent, spread, deviation: euros clamped to [0, 100], in steps of 0.1",
        "kinds: kind among 2 listed values",
        "shape, part, least, most: euros in 10 bins from 0 to 100, what lies beyond in the outer ones",
    ]


def test_limits_name_what_each_kind_leaves_out(every):
    told = " ".join(every.limits)
    for words in (
        "Values of euros beyond the edges count in the outer bins",
        "A quantile is at most as fine as its bins",
        "least is the 0.01 quantile, most is the 0.99 quantile",
        "each to [0, 400]",
        "A count of euros counts the rows in which it is neither NULL nor NaN",
        "A row whose weight (weight) is NULL",
        "Of kind, only listed values",
    ):
        assert words in told


@pytest.mark.parametrize(
    "only",
    [
        f"[{{name: part, kind: quantiles, column: euros, {EDGES}, at: [0.5]}}]",
        f"[{{name: most, kind: max, column: euros, {EDGES}, weight: {{column: weight, upper: 3}}}}]",
        "[{name: spread, kind: variance, column: euros, lower: 0, upper: 100}]",
    ],
)
def test_a_release_of_derived_answers_alone_has_a_page(plan_of, only):
    facts = release_facts(plan_of(queries=only))
    (ruler,) = rulers(facts)
    assert ruler.rows[0].name in facts_html(facts)
    assert facts.queries[0].useful.least > 0


def test_a_quantile_of_one_bin_has_no_noise_and_a_page(plan_of):
    facts = release_facts(
        plan_of(queries="[{name: part, kind: quantiles, column: euros, edges: [0, 1], at: [0.5]}]")
    )
    assert facts.queries[0].useful.least == 0
    assert rulers(facts) == ()
    assert "part" in facts_html(facts)


def test_a_ratio_over_a_sum_is_sized_by_an_amount(plan_of):
    queries = (
        "[{name: n, kind: count}, {name: s, kind: sum, column: x, lower: -1, upper: 3}, "
        "{name: r, kind: ratio, numerator: n, denominator: s, lower: -2, upper: 2}]"
    )
    facts = release_facts(plan_of(queries=queries))
    assert query(facts, "r").useful.is_amount
    assert [row.name for row in rulers(facts)[1].rows] == ["s", "r"]


def test_the_selection_of_private_groups_is_told(plan_of):
    plan = plan_of(groups="{private: {min_units: 5, other: true}}")
    facts = release_facts(plan)
    selection = facts.groups.selection
    for each in selection.released:
        assert plan.selection.probability(each.units) >= each.probability
        assert plan.selection.probability(each.units - 1) < each.probability
    assert plan.selection.probability(selection.threshold) >= 0.5
    assert (selection.one_unit, group_words.probabilities(selection)[0]) == (0.0, ("1", "never"))
    text = " ".join(facts_text(facts).split())
    assert f"plus noise is {selection.threshold} or more; a group of fewer than 5 never is" in text
    assert "count in the group '(other)'" in text
    assert "not among" not in " ".join(facts.limits)
    assert phrases.SELECTING in facts_html(facts)
    assert json.loads(json.dumps(facts.as_json()))["groups"]["selection"]["min_units"] == 5


def test_noisy_ids_that_select_cost_nothing_beside_the_query(plan_of):
    facts = release_facts(plan_of(groups="{private: {select: threshold}}"))
    selection = facts.groups.selection
    assert (selection.shared_with, selection.epsilon_alone, selection.other) == ("planes", None, None)
    assert 0 < selection.one_unit < 1e-6
    text = " ".join(facts_text(facts).split())
    assert "The noisy units of planes select, and are released" in text
    assert "their rows are in no total" in text
    assert phrases.SELECTING not in text


def test_a_rollup_tells_its_levels_and_what_is_least_squares(plan_of):
    queries = "[{name: n, kind: count}, {name: people, kind: ids}, " + QUERIES.split("- ")[6].strip() + "]"
    plan = plan_of(groups=ROLLUP, queries=queries)
    facts = release_facts(plan)
    assert dict(phrases.promise(facts))["rollup"] == "by origin; in all"
    assert [(each.most_groups, each.most_rows_in_group) for each in facts.rollup] == [(3, 30), (1, 30)]
    count, people, _ = facts.queries
    assert (count.std, count.adds_up, people.adds_up) == (None, True, False)
    assert [each.std for each in count.levels] == [of[0].std for of in plan.queries[0].levels]
    assert [each.level for each in people.levels] == ["", "by origin", "in all"]
    assert [each.level for each in facts.totals if each.component == "rows"] == ["", "by origin", "in all"]
    assert any(text.startswith("people: every grouping has noise of its own") for text in facts.limits)
    text = facts_text(facts)
    assert f"<= {phrases.std(count).removeprefix('<= ')}" in text
    assert "n: rows by origin" in text


def test_a_thousand_queries_stay_short_on_a_console_and_whole_elsewhere(facts):
    count, total = facts.queries[0], facts.totals[0]
    names = [f"q{i}" for i in range(1000)]
    many = replace(
        facts,
        queries=tuple(replace(count, name=name) for name in names),
        totals=tuple(replace(total, query=name, queries=(name,)) for name in names),
    )
    text = facts_text(many)
    assert len(text.splitlines()) < 250
    assert text.count("and 970 more: --json and --html have") == 4
    assert len(many.as_json()["totals"]) == 1000
    assert ">q999<" in facts_html(many)
    assert len(rulers(many)[0].rows) == 30
