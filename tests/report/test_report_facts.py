import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_spark.queries import NoisyTotal
from dp_spark.release.group_keys import keys_digest
from dp_spark.report import phrases, release_facts


def keys_of(value):
    """The keys of a JSON value, as far down as they go."""
    match value:
        case dict():
            return {key: keys_of(each) for key, each in value.items()}
        case list():
            return [keys_of(value[0])] if value else []
        case _:
            return None


FRACTION = {"exact": None, "float": None}
SPENDING = {"epsilon": FRACTION, "delta": FRACTION}
SCHEMA = {
    "format": None,
    "release": None,
    "population": None,
    "source": None,
    "where": None,
    "derived": [],
    "history": None,
    "sinks": [None],
    "period": None,
    "guarantee": SPENDING,
    "unit": None,
    "unit_columns": [None],
    "unit_per": None,
    "unit_rows": None,
    "neighbours": None,
    "protects": [None],
    "limits": [None],
    "bounds": {"max_groups": None, "max_rows_per_group": None, "max_rows": None, "in_words": None},
    "clamped": [
        {
            "query": None,
            "column": None,
            "lower": FRACTION,
            "upper": FRACTION,
            "step": FRACTION,
            "per_unit": None,
            "weighs": None,
        }
    ],
    "binned": [],
    "groups": {
        "columns": [None],
        "selected": None,
        "count": None,
        "source": None,
        "digest": None,
        "first": [[None]],
        "selection": None,
    },
    "rollup": [],
    "coverage": FRACTION,
    "noise": None,
    "decision": {"family": None, "runner_up": None, "ratio": None, "over_floor": None},
    "totals": [
        {
            "query": None,
            "queries": [None],
            "component": None,
            "level": None,
            "counts": None,
            "epsilon_alone": None,
            "family": None,
            "sensitivity": FRACTION,
            "sensitivity_all_groups": FRACTION,
            "form": None,
            "bins": None,
            "cells": None,
            "shift": FRACTION,
            "overlap": None,
            "grid": FRACTION,
            "scale": None,
            "std": None,
            "half_width": None,
            "saturation": FRACTION,
            "table": None,
        }
    ],
    "queries": [
        {
            "name": None,
            "kind": None,
            "columns": [None],
            "std": None,
            "half_width": None,
            "std_in_words": None,
            "useful": {"relative_std": None, "of": None, "least": None, "unit": None, "is_amount": None},
            "references": [],
            "levels": [],
            "adds_up": None,
        }
    ],
    "cost": {
        "charge": SPENDING,
        "takes": SPENDING,
        "charged": None,
        "slots": None,
        "pool": None,
        "limit": SPENDING,
        "scheduled": SPENDING,
        "spent": SPENDING,
        "left": SPENDING,
        "left_after": SPENDING,
        "releases_that_fit": None,
    },
    "sealed": {
        "release_id": None,
        "state": None,
        "artefact_digest": None,
        "published": [None],
        "reserved_at": None,
        "sealed_at": None,
        "dp_spark_version": None,
        "source_version": None,
    },
}


def test_the_keys_of_the_json_are_what_others_read(statement):
    assert keys_of(statement.as_json()) == SCHEMA


def test_a_derived_query_has_reference_sizes(facts):
    (mean,) = [query for query in facts.as_json()["queries"] if query["kind"] == "mean"]
    assert keys_of(mean["references"]) == [{"answer": None, "size": None, "std": None, "half_width": None}]


def test_json_survives_a_round_trip(statement):
    assert json.loads(json.dumps(statement.as_json())) == statement.as_json()


def test_fractions_stand_as_exact_text_and_as_float(facts):
    assert facts.as_json()["guarantee"]["delta"] == {"exact": "1/1000000", "float": 1e-6}


def test_every_number_of_a_total_is_the_plan_s(plan, facts):
    planned = [(query.name, each) for query in plan.queries for each in query.totals]
    stated = facts.as_json()["totals"]
    assert len(stated) == len(planned) == 5
    for (query, each), total in zip(planned, stated, strict=True):
        sensitivity = each.total.sensitivity * each.total.step
        assert (total["query"], total["component"]) == (query, each.total.name)
        assert total["epsilon_alone"] == each.epsilon_alone
        assert (total["family"], total["table"]) == (each.table.family, each.table.digest)
        assert Fraction(total["sensitivity"]["exact"]) == sensitivity
        assert Fraction(total["sensitivity_all_groups"]["exact"]) == 3 * sensitivity
        assert Fraction(total["grid"]["exact"]) == each.grid
        assert total["scale"] == pytest.approx(float(each.grid) / float(each.table.step))
        assert (total["std"], total["half_width"]) == (each.std, each.half_width)
        assert Fraction(total["saturation"]["exact"]) == each.grid * each.saturation


def test_totals_cost_less_together_than_alone(plan, facts):
    alone = [total.epsilon_alone for total in facts.totals]
    assert max(alone) < plan.guarantee.epsilon < sum(alone)


def test_a_lattice_answer_has_the_constants_of_its_columns(plan, facts):
    constants = {column.name: column.constant for column in plan.columns}
    for query in facts.queries[:3]:
        assert query.columns == tuple(f"{query.name}{suffix}" for suffix in ("", "_std", "_low", "_high"))
        assert query.std == constants[f"{query.name}_std"]
        assert query.useful.least == pytest.approx(10 * query.std)


def test_a_mean_has_the_std_of_its_centred_sum_over_n(plan, facts):
    centred, _ = plan.queries[3].totals
    mean = facts.queries[3]
    assert mean.std is None
    assert mean.half_width is None
    for reference in mean.references:
        assert reference.std == pytest.approx(min(centred.std / reference.size, 105))
    assert mean.useful.least == pytest.approx(centred.std / 10.5)


def test_references_are_what_a_run_would_print(plan, facts):
    planned = plan.queries[3]
    centred, count = planned.totals
    for reference in facts.queries[3].references:
        steps = [np.array([0]), np.array([round(reference.size / count.grid)])]
        noisy = [
            NoisyTotal(each, total.grid, total.std, total.half_width_steps)
            for each, total in zip(steps, (centred, count), strict=True)
        ]
        (answer,) = planned.query.estimate(noisy)
        assert reference.std == pytest.approx(answer.std[0])
        assert reference.half_width == pytest.approx((answer.high[0] - answer.low[0]) / 2)


def test_at_a_bound_the_std_of_a_mean_is_as_many_times_larger_as_the_words_say(plan, facts):
    centred, count = plan.queries[3].totals
    times = math.hypot(centred.std, 105 * count.std) / centred.std
    assert f"{times:.2f} times that at a bound" in facts.queries[3].std_in_words


def test_a_half_width_is_reached_where_no_ratio_is_excluded(facts):
    assert facts.queries[3].references[0].half_width == 105


def test_groups_say_how_they_are_public(facts):
    assert facts.groups.count == 6
    assert facts.groups.source == "listed in the spec: every combination of 3 of origin and 2 of carrier"
    assert facts.groups.first[0] == ("EWR", "AA")


@pytest.mark.parametrize(
    ("groups", "source"),
    [
        ("{public_file: towns.csv}", "read from public_file towns.csv at the run"),
        ("{public_table: {table: p.towns}}", "read from public_table p.towns at the run"),
        (
            "{public_table: {table: towns, as_of: period_end, valid_from: since}}",
            "read from public_table towns (rows valid at the end of the period) at the run",
        ),
        ("{private: {}}", "selected by the run"),
    ],
)
def test_groups_that_no_run_has_read_are_not_needed_to_plan(plan_of, groups, source):
    facts = release_facts(plan_of(groups=groups))
    assert (facts.groups.count, facts.groups.digest, facts.groups.first) == (None, None, ())
    assert facts.groups.source == source
    assert f"groups that are {source}" in phrases.lead(facts)
    assert source in dict(phrases.promise(facts))["groups"]


def test_groups_that_were_read_are_named_by_source_number_and_digest(plan_of):
    keys = (("EWR", "AA"), ("JFK", "UA"))
    plan = replace(plan_of(groups="{public_file: towns.csv}"), listed=keys)
    told = dict(phrases.promise(release_facts(plan)))["groups"]
    assert told == (
        "2 by origin, carrier; public, from public_file towns.csv, sha256 "
        f"{keys_digest(keys)}: EWR / AA; JFK / UA"
    )


def test_a_null_that_counts_as_a_text_is_told(plan_of):
    limits = release_facts(plan_of(groups="{public: [[a, b]], null_label: none}")).limits
    assert "A NULL in a group column counts as 'none', like that text itself." in limits


def test_a_plan_without_period_covers_the_whole_input(plan_of):
    facts = release_facts(plan_of(period=""))
    assert facts.period is None
    assert "in the input, whatever they hold" in facts.protects[0]


def test_only_what_is_true_of_the_plan_is_said(plan_of):
    facts = release_facts(plan_of(queries="[{name: flights, kind: count}]"))
    assert not any("clamping" in text or "NaN" in text for text in facts.limits)
    assert facts.clamped == ()


def test_without_a_ledger_there_is_no_cost(plan):
    facts = release_facts(plan)
    assert facts.cost is None
    assert facts.as_json()["cost"] is None


@pytest.mark.parametrize(
    ("spent", "fits"),
    [(("0", "0"), 10), (("9", "0"), 1), (("9.5", "0"), 0), (("0", "6.5e-6"), 3), (("10", "1e-5"), 0)],
)
def test_releases_that_fit_are_those_that_both_epsilon_and_delta_pay(plan, account_of, spent, fits):
    cost = release_facts(plan, budget=account_of(limit=("10", "1e-5"), spent=spent)).cost
    assert cost.releases_that_fit == fits
    assert (cost.left_after.epsilon >= 0 and cost.left_after.delta >= 0) == (fits > 0)


def test_a_sealed_release_is_not_charged_twice(facts, statement):
    assert facts.cost.left_after.epsilon == 87
    assert not facts.cost.charged
    assert statement.cost.left_after.epsilon == 88
    assert statement.cost.charged


PLAIN = "all rows of one tailnum"
DAY = "{column: tailnum, on_null: drop, per: day}"
TWO = "{columns: [person, household], on_null: drop}"
WEEK = "{column: date, every: week}"


@pytest.mark.parametrize(
    ("changes", "unit", "rows"),
    [
        ({}, "tailnum", PLAIN),
        ({"unit": DAY}, "tailnum on one day", f"{PLAIN} on one day"),
        (
            {"unit": TWO},
            "unit (columns household, person)",
            "all rows of one unit (columns household, person)",
        ),
        ({"unit": "{row: true}", "bounds": ""}, "row", "one row"),
    ],
)
def test_the_unit_stands_in_plain_words(plan_of, changes, unit, rows):
    facts = release_facts(plan_of(queries="[{name: flights, kind: count}]", **changes))
    assert (facts.unit, facts.unit_rows) == (unit, rows)
    assert facts.protects[0].lower().startswith(f"{rows} in the day that a release covers".lower())


def test_a_unit_of_a_day_is_not_said_to_be_a_person(plan_of):
    count = "[{name: flights, kind: count}]"
    facts = release_facts(plan_of(unit=DAY, period=WEEK, queries=count))
    assert facts.protects[-2] == (
        "The protection is of each tailnum on one day, not of a tailnum: for a tailnum with rows in N days "
        "epsilon counts N times, delta more than N times."
    )
    assert facts.protects[-1].startswith(
        "In one release that is up to 7 days of a week: epsilon 7 for a tailnum"
    )
    assert not any("not of a" in text for text in release_facts(plan_of(queries=count)).protects)


def test_a_row_unit_says_that_nobody_is_protected_as_a_whole(plan_of):
    facts = release_facts(plan_of(unit="{row: true}", bounds="", queries="[{name: flights, kind: count}]"))
    assert "with it or without it" in facts.protects[0]
    assert facts.protects[-1].startswith("Each row is protected by itself, nobody as the whole of their rows")
    assert facts.limits[0] == "Intervals cover the noise alone."
    assert not any("Someone behind" in text or "NULL, or if" in text for text in facts.limits)


def test_under_replace_the_number_of_units_is_said_to_be_public(plan_of):
    facts = release_facts(plan_of(unit="{column: tailnum, on_null: drop}\nneighbours: replace"))
    assert "with them, or with those of any other in their place" in facts.protects[0]
    assert facts.protects[1] == "How many units there are is public: it is not protected."
    assert "replaced by those of another" in dict(phrases.promise(facts))["unit"]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ("{max_groups: 3, max_rows_per_group: 10}", "3 groups, 10 rows in each"),
        ("{max_rows: 20}", "20 rows in all"),
        ("{max_groups: 1, max_rows: 20}", "1 group, 20 rows in all"),
        ("{max_rows_per_group: 10, max_rows: 20}", "10 rows in each group, 20 rows in all"),
        (
            "{max_groups: 3, max_rows_per_group: 10, max_rows: 20}",
            "3 groups, 10 rows in each, 20 rows in all",
        ),
    ],
)
def test_bounds_stand_in_plain_words(plan_of, bounds, words):
    facts = release_facts(plan_of(bounds=bounds, queries="[{name: flights, kind: count}]"))
    assert facts.bounds.in_words == words
    assert dict(phrases.promise(facts))["bounds"] == f"of each tailnum at most {words}"
    assert f"by using at most {words} of a tailnum" in facts.limits[0]


REPLACED = "auto\nneighbours: replace"
MIXED = "[{name: n, kind: count}, {name: s, kind: sum, column: x, lower: -1, upper: 3}]"


@pytest.mark.parametrize(
    ("bounds", "noise", "told"),
    [
        ("{max_groups: 3, max_rows_per_group: 4}", "auto", ("3 groups, each by 4", "3 groups, each by 12")),
        (
            "{max_rows: 4}",
            "auto",
            ("all groups together by 4, whichever they are", "all groups together by 12"),
        ),
        (
            "{max_groups: 3, max_rows_per_group: 4}",
            REPLACED,
            (
                "3 groups of each of two units, each by 4; by 3 where both",
                "each by 12; by 16",
            ),
        ),
        (
            "{max_rows: 4}",
            REPLACED,
            ("all groups of each of two units, together by 4", "all groups together by 24"),
        ),
    ],
)
def test_what_is_priced_is_said_of_each_total(plan_of, bounds, noise, told):
    facts = release_facts(plan_of(bounds=bounds, noise=noise, queries=MIXED))
    for total, words in zip(facts.totals, told, strict=True):
        assert words in phrases.moves(total)


def test_a_clamp_of_totals_is_said_to_be_one(plan_of):
    query = "[{name: s, kind: sum, column: x, lower: -1, upper: 3, clamp: unit}]"
    (clamped,) = release_facts(plan_of(queries=query)).clamped
    assert clamped.per_unit
    assert phrases.clamp(clamped).startswith("s: x added up by unit and group, then clamped to [-1, 3]")
