"""The spec: what is read as what, and how each wrong value is refused."""

import copy
import json
import pickle
import time
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.errors import ExitCode, PlanRefused, SpecRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyGuarantee
from dp_spark.queries import Bounds
from dp_spark.release.spec import (
    MAX_GROUP_KEYS,
    BoundsSpec,
    Clamp,
    ColumnQuerySpec,
    QueryKind,
    ReleaseSpec,
    contribution_bounds,
    load_spec,
    output_columns,
    parse_spec,
    spec_from_canonical,
    spec_yaml,
)

TEXT = """
release: flights_by_origin
input:   {format: parquet, path: data/flights}
period:  {column: date, every: day, timezone: America/New_York}
unit:    {column: tailnum, on_null: drop}
neighbours: add_remove
bounds:  {max_groups: 3, max_rows_per_group: 10}
group_by: [origin]
groups:  {public: [EWR, JFK, LGA]}
guarantee: {epsilon: 1.0, delta: 1e-6}
queries:
  - {name: flights, kind: count}
  - {name: delay, kind: sum, column: dep_delay, lower: -30, upper: 180, step: 1, on_null: drop, on_nan: drop}
  - {name: mean_delay, kind: mean, column: dep_delay, lower: -30, upper: 180}
  - {name: planes, kind: ids}
noise: auto
budget: {population: nyc_planes}
publish: [{sink: parquet, path: out/flights_by_origin}]
"""


def base() -> dict:
    """The spec of TEXT as one builds it in Python."""
    bounds = {"column": "dep_delay", "lower": -30, "upper": 180}
    return {
        "release": "flights_by_origin",
        "input": {"format": "parquet", "path": "data/flights"},
        "period": {"column": "date", "every": "day", "timezone": "America/New_York"},
        "unit": {"column": "tailnum", "on_null": "drop"},
        "bounds": {"max_groups": 3, "max_rows_per_group": 10},
        "group_by": ["origin"],
        "groups": {"public": ["EWR", "JFK", "LGA"]},
        "guarantee": {"epsilon": 1.0, "delta": "1e-6"},
        "queries": [
            {"name": "flights", "kind": "count"},
            {"name": "delay", "kind": "sum", **bounds, "step": 1},
            {"name": "mean_delay", "kind": "mean", **bounds},
            {"name": "planes", "kind": "ids"},
        ],
        "budget": {"population": "nyc_planes"},
        "publish": [{"sink": "parquet", "path": "out/flights_by_origin"}],
    }


def with_value(path: str, value: object) -> dict:
    """The base spec with one value changed or added: `queries.1.lower`."""
    written = base()
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    node = written
    for step in parents:
        node = node[step]
    node[last] = value
    return written


def without(path: str) -> dict:
    written = with_value(path, None)
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    node = written
    for step in parents:
        node = node[step]
    del node[last]
    return written


def refusal(written: dict | str) -> str:
    """The text of the refusal, which has a code, a way out and no word of pydantic's."""
    with pytest.raises(SpecRefused) as caught:
        parse_spec(written) if isinstance(written, str) else ReleaseSpec(**written)
    text = str(caught.value)
    assert caught.value.exit_code is ExitCode.SPEC
    assert caught.value.code.startswith("spec_")
    assert caught.value.way_out
    assert text.encode()
    for jargon in ("Input should", "pydantic", "validation error", "Value error", "type=", "Problem("):
        assert jargon not in text
    return text


def accepted(written: dict) -> ReleaseSpec | None:
    """The spec, or None where it is refused."""
    try:
        return ReleaseSpec(**written)
    except SpecRefused:
        return None


COUNT = "a whole number from 1 to 1000000"
AMOUNT = "a decimal from -1e15 to 1e15"
STEP = "0 < step <= 1e15"
EPSILON = "0 < epsilon <= 100"
DELTA = "0 < delta <= 0.1"
NO_COUNT = [
    "1_000",
    "08",
    "1e3",
    " 3",
    "3 ",
    "+3",
    "-3",
    "\uff13",
    "3.0",
    "",
    "x",
    "0x3",
    "0",
    "1000001",
    "9" * 50,
]
NO_NUMBER = ["", " 1", "1 ", "1,5", "\uff11", "\u0663", "1" * 70]
NO_NUMBER += [
    "1_000",
    "nan",
    "inf",
    "-inf",
    "0x1",
    "+1",
    "08",
    "1e",
    "e1",
    ".",
    "1/0",
    "1e999",
    "one",
    "1/2/3",
]
WRONG = [
    *(("release", each, "[A-Za-z][A-Za-z0-9_]{0,63}") for each in ("1a", "a-b", "é", "a" * 65, "a\u0661")),
    ("input.format", "csvv", "parquet | csv"),
    ("input.format", "PARQUET", "parquet | csv"),
    ("period.every", "hour", "day | week | month"),
    *(("period.timezone", each, "IANA") for each in ("America/NewYork", "../etc/x", "localtime", "EST5")),
    ("unit.on_null", "keep", "drop"),
    ("neighbours", "replace_one", "add_remove | replace"),
    *(("bounds.max_groups", each, COUNT) for each in NO_COUNT),
    *(("bounds.max_rows_per_group", each, COUNT) for each in (True, 3.0, 0, -1, 10**6 + 1, [1])),
    *(("guarantee.epsilon", each, EPSILON) for each in (*NO_NUMBER, "0", "-1", "100.1", True, None)),
    *(("guarantee.epsilon", each, EPSILON) for each in (float("nan"), float("inf"), Decimal("NaN"), 1 + 0j)),
    *(("guarantee.delta", each, DELTA) for each in (*NO_NUMBER, "0", 0, 0.0, "-1e-6", "0.11", "1", False)),
    *(("queries.1.lower", each, AMOUNT) for each in (*NO_NUMBER, "1/3", Fraction(1, 3), "1.1e15", True)),
    *(("queries.1.upper", each, AMOUNT) for each in ("x", 1e16, "-1e99")),
    *(("queries.1.step", each, STEP) for each in ("0", "-1", "x", "", "1/7", "1e16", True)),
    ("queries.1.on_null", "zero", "drop"),
    ("queries.1.on_nan", "zero", "drop"),
    ("queries.1.kind", "summ", "count | ids | sum | mean"),
    ("queries.1.kind", ["sum"], "count | ids | sum | mean"),
    *(("queries.0.name", each, "[a-z][a-z0-9_]{0,63}") for each in ("Flights", "1a", "a b", "a" * 65, "é")),
    ("noise", "cauchy", "auto | laplace | logistic | gaussian | {subbotin: 1.5}"),
    *(("budget.population", each, "[A-Za-z0-9_.-]{1,128}") for each in ("a b", "a/b", "é", "a" * 129)),
    ("publish.0.sink", "kafka", "parquet"),
    *((path, [], "1 entry or more") for path in ("group_by", "queries", "publish", "groups.public")),
    *((path, "x", "a list") for path in ("group_by", "queries", "publish", "groups.public")),
    ("groups.public.1", "e\u0301", "text in NFC"),
    ("groups.public.1", "EWR", "distinct groups"),
    *((path, "a\0b", "printable text") for path in ("groups.public.0", "input.path", "unit.column")),
    *((path, "a\nb", "printable text") for path in ("groups.public.0", "group_by.0", "period.column")),
    *((path, "x" * 1001, "at most 1000") for path in ("groups.public.0", "publish.0.path")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "allowed"), WRONG)
def test_a_wrong_value_is_refused_with_key_value_range_and_way_out(path, value, allowed):
    told = refusal(with_value(path, value))
    place = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path.split("."))[1:]
    where, _, rest = told.partition(" = ")
    assert place.removesuffix("[1]") in where
    assert allowed in rest
    assert "way out: " in rest
    assert repr(value)[:40] in rest


@pytest.mark.parametrize("path", ["bounds.max_groups", "guarantee.epsilon", "queries.1.lower", "release"])
def test_an_integer_too_long_to_print_is_refused(path):
    value = 10**5000
    assert "a very long int" in refusal(with_value(path, value))


@pytest.mark.parametrize(
    "path",
    [
        "release",
        "input.path",
        "period.column",
        "period.timezone",
        "unit.column",
        "group_by.0",
        "groups.public.0",
        "queries.0.name",
        "queries.1.column",
        "budget.population",
        "publish.0.path",
    ],
)
@pytest.mark.parametrize(("value", "why"), [("", "is empty"), (3, "is not a text"), (True, "is not a text")])
def test_a_text_that_is_empty_or_no_text_is_refused(path, value, why):
    assert why in refusal(with_value(path, value))


@pytest.mark.parametrize(
    "path", ["input", "period", "unit", "bounds", "guarantee", "queries.0", "budget", "groups"]
)
@pytest.mark.parametrize("value", ["", "text", 3, ["a"]])
def test_a_part_that_is_no_mapping_is_refused(path, value):
    told = refusal(with_value(path, value))
    assert f"{path.replace('.0', '[0]')} = {value!r}: is not a mapping" in told


@pytest.mark.parametrize(
    "path",
    [
        "release",
        "input.format",
        "input.path",
        "period.column",
        "period.every",
        "unit",
        "unit.on_null",
        "bounds",
        "group_by",
        "groups",
        "groups.public",
        "guarantee",
        "guarantee.epsilon",
        "guarantee.delta",
        "queries",
        "queries.0.name",
        "queries.0.kind",
        "queries.1.column",
        "queries.1.lower",
        "queries.2.upper",
        "budget",
        "budget.population",
        "publish",
        "publish.0.sink",
        "publish.0.path",
    ],
)
def test_a_missing_key_is_named_with_an_example(path):
    key = path.split(".")[-1]
    assert f"missing key '{key}'\n  way out: add `{key}: " in refusal(without(path)).replace(
        f" (allowed: kind: {' | '.join(QueryKind)})", ""
    )


def test_keys_with_a_default_may_be_left_out():
    for path in ("period", "queries.1.step"):
        assert ReleaseSpec(**without(path)) != ReleaseSpec(**base())
    spec = parse_spec(TEXT.replace(", timezone: America/New_York", ""))
    assert spec.period.timezone == "UTC"


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("relase", "release"),
        ("guarantee.epsilonn", "epsilon"),
        ("Budget", "budget"),
        ("queries.1.uper", "upper"),
        ("bounds.max_group", "max_groups"),
        ("publish.0.pth", "path"),
        ("queries.0.nmae", "name"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(path, nearest):
    key = path.split(".")[-1]
    told = refusal(with_value(path, "x1"))
    assert f"unknown key '{key}': did you mean '{nearest}'?" in told
    assert "'x1'" in told


@pytest.mark.parametrize("key", ["lower", "upper", "step", "on_null", "on_nan"])
@pytest.mark.parametrize("query", [0, 3])
def test_count_and_ids_take_no_key_of_a_column(key, query):
    told = refusal(with_value(f"queries.{query}.{key}", "1"))
    assert f"queries[{query}].{key} = '1': unknown key '{key}'" in told
    assert "kind: sum or kind: mean" in told


def test_every_problem_is_told_at_once():
    written = with_value("bounds.max_groups", "0")
    written["guarantee"] = {"epsilon": "x", "delat": "1"}
    written["queries"][2]["lower"] = "y"
    told = refusal(written)
    assert told.startswith("spec: 5 problems")
    for place in (
        "bounds.max_groups",
        "guarantee.epsilon",
        "guarantee.delta",
        "guarantee.delat",
        "queries[2].lower",
    ):
        assert f"- {place}" in told


def test_problems_between_keys_are_told_at_once():
    written = with_value("group_by", ["origin", "REVISION"])
    written["queries"][3]["name"] = "flights_std"
    written["publish"][0]["path"] = "data/flights/out"
    told = refusal(written)
    assert told.startswith("spec: 4 problems")


def test_ranges_name_the_nearest_multiples_of_the_step():
    told = refusal(with_value("queries.1.step", "0.7"))
    assert "queries[1].lower = -30: is not a multiple of step = 0.7" in told
    assert "write -30.1 or -29.4" in told
    assert "write 179.9 or 180.6" in told


@pytest.mark.parametrize(("lower", "upper"), [("180", "180"), ("181", "180")])
def test_an_empty_range_is_refused(lower, upper):
    told = refusal(with_value("queries.2.lower", lower) | {"period": None})
    assert f"queries[2].upper = {upper}: is not above lower = {lower} (allowed: lower < upper)" in told


def test_a_range_has_at_most_two_to_the_31_steps():
    written = with_value("queries.1.lower", 0)
    written["queries"][1] |= {"upper": 2**31, "step": 1}
    assert ReleaseSpec(**written).queries[1].upper == 2**31
    written["queries"][1] |= {"upper": 2**31 + 1}
    assert "queries[1].step = 1: cuts" in refusal(written)


@pytest.mark.parametrize(
    ("path", "value", "clash"),
    [
        ("queries.3.name", "flights", "flights"),
        ("queries.3.name", "delay_std", "delay_std"),
        ("queries.3.name", "delay_low", "delay_low"),
        ("queries.3.name", "mean_delay_high", "mean_delay_high"),
        ("queries.0.name", "revision", "revision"),
        ("queries.0.name", "release_id", "release_id"),
        ("queries.0.name", "origin", "origin"),
        ("group_by.0", "Flights", "flights"),
        ("group_by.0", "DELAY_STD", "delay_std"),
        ("group_by.0", "Period_Start", "Period_Start"),
        ("group_by.0", "release_ID", "release_ID"),
        ("group_by", ["origin", "Origin"], "Origin"),
    ],
)
def test_output_columns_never_collide_whatever_their_case(path, value, clash):
    told = refusal(with_value(path, value))
    assert f"would write the column {clash!r}" in told
    assert "distinct output columns" in told


def test_a_suffix_alone_is_no_collision():
    assert ReleaseSpec(**with_value("queries.3.name", "flights_mean")).queries[3].name == "flights_mean"
    assert output_columns("n") == ("n", "n_std", "n_low", "n_high")


@pytest.mark.parametrize(
    "path", ["data/flights", "./data/flights/", "data/x/../flights", "data/flights/out", "data"]
)
def test_a_sink_does_not_touch_the_input(path):
    told = refusal(with_value("publish.0.path", path))
    assert "input.path = 'data/flights'" in told


def test_sinks_have_paths_of_their_own():
    sinks = [{"sink": "parquet", "path": "out/a"}, {"sink": "parquet", "path": "out/a/"}]
    assert "publish[1].path = 'out/a/'" in refusal(with_value("publish", sinks))
    sinks[1]["path"] = "out/ab"
    assert len(ReleaseSpec(**with_value("publish", sinks)).publish) == 2


@pytest.mark.parametrize(
    ("one", "other"), [("/srv/a", "file:///srv/a/"), ("FILE:/srv/a", "/srv/a/b"), ("s3a://b/x", "s3://b/x/y")]
)
def test_one_path_has_many_names(one, other):
    sinks = [{"sink": "delta", "path": one}, {"sink": "delta", "path": other}]
    assert f"publish[1].path = '{other}'" in refusal(with_value("publish", sinks))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("public.flights", True),
        ("main.Flights", True),
        ("flights_releases", True),
        ("main.flights_latest", True),
        ("other.flights", False),
        ("flights_late", False),
    ],
)
def test_one_table_of_a_database_has_many_names(other, same):
    names = [{"sink": "sql", "connection": "c", "table": table} for table in ("flights", other)]
    for sinks in (names, names[::-1]):
        if same:
            assert "is the table of publish[0].table" in refusal(with_value("publish", sinks))
        else:
            assert len(ReleaseSpec(**with_value("publish", sinks)).publish) == 2


def test_schemas_of_one_database_are_two():
    sinks = [{"sink": "sql", "connection": "c", "table": f"{each}.flights"} for each in ("public", "main")]
    assert len(ReleaseSpec(**with_value("publish", sinks)).publish) == 2


# --- groups ---------------------------------------------------------------------------------------------


def two_columns(public: object) -> dict:
    return with_value("groups", {"public": public}) | {"group_by": ["origin", "carrier"]}


def test_group_texts_stay_what_was_written():
    texts = [
        "NO",
        "ON",
        "Y",
        "08",
        "1_000",
        "12:30",
        "1e-6",
        "null",
        "~",
        "true",
        "0x1F",
        "2013-01-05",
        ".5",
        "é",
    ]
    spec = parse_spec(
        TEXT.replace("[EWR, JFK, LGA]", f"[{', '.join(texts)}, ' a ', \"b\\tc\"]".replace("\\t", " "))
    )
    assert spec.group_keys() == tuple(sorted((text,) for text in [*texts, " a ", "b c"]))


def test_group_keys_are_in_code_point_order():
    spec = ReleaseSpec(**with_value("groups.public", ["b", "a", "é", "Z", "10", "9"]))
    assert [key for (key,) in spec.group_keys()] == ["10", "9", "Z", "a", "b", "é"]


def test_a_mapping_of_lists_is_their_product_in_the_order_of_group_by():
    spec = ReleaseSpec(**two_columns({"carrier": ["UA", "AA"], "origin": ["JFK", "EWR"]}))
    assert spec.group_keys() == tuple(product(["EWR", "JFK"], ["AA", "UA"]))
    assert spec.groups.size == 4
    listed = ReleaseSpec(**two_columns([["JFK", "UA"], ["EWR", "AA"], ["JFK", "AA"], ["EWR", "UA"]]))
    assert listed.group_keys() == spec.group_keys()


def test_one_column_may_be_written_in_three_ways():
    specs = [
        ReleaseSpec(**with_value("groups.public", public))
        for public in (["b", "a"], [["a"], ["b"]], {"origin": ["a", "b"]})
    ]
    assert len({spec.digest for spec in specs}) == 1
    assert {spec.group_keys() for spec in specs} == {(("a",), ("b",))}


@pytest.mark.parametrize(
    ("public", "words"),
    [
        ({"origin": ["a"]}, "has other columns than group_by"),
        ({"origin": ["a"], "carrier": ["b"], "x": ["c"]}, "has other columns than group_by"),
        ({"origin": ["a"], "Carrier": ["b"]}, "has other columns than group_by"),
        ({"origin": ["a", "a"], "carrier": ["b"]}, "groups.public.origin = 'a': is listed twice"),
        ({"origin": [], "carrier": ["b"]}, "groups.public.origin = []: is an empty list"),
        ({"origin": ["a", 3], "carrier": ["b"]}, "groups.public.origin[1] = 3: is not a text"),
        ({3: ["a"], "carrier": ["b"]}, "groups.public.3 = 3: is not a text"),
        ({}, "groups.public = {}"),
        (["a", "b"], "groups.public = ['a']: has 1 values, group_by has 2 columns"),
        ([["a", "b"], ["a", "b", "c"]], "has 3 values"),
        ([["a", "b"], ["a", "b"]], "groups.public = ['a', 'b']: is listed twice"),
        ([["a", ["b"]]], "groups.public[0][1] = ['b']: is not a text"),
        ([["a", ""]], "groups.public[0][1] = '': is empty"),
        ([[]], "groups.public[0] = []"),
    ],
)
def test_groups_that_fit_no_column_are_refused(public, words):
    assert words in refusal(two_columns(public))


def test_a_product_has_at_most_two_million_groups():
    many = [str(i) for i in range(2000)]
    spec = ReleaseSpec(**two_columns({"origin": many, "carrier": many[:1000]}))
    assert spec.groups.size == MAX_GROUP_KEYS
    told = refusal(two_columns({"origin": many, "carrier": many[:1001]}))
    assert "groups.public: makes 2,002,000 groups (allowed: at most 2,000,000)" in told


THRESHOLD = {"select": "threshold"}
VALID = {"table": "towns", "as_of": "period_end", "valid_from": "since", "valid_to": "until"}
SOURCES = [
    {"public_file": "towns.csv"},
    {"public": {"origin": {"file": "towns.csv"}}},
    {"public_table": {"table": "`a-catalog`.public.towns"}},
    {"public_table": VALID},
    {"private": {}},
    {"private": {"min_units": "3", "other": "true"}, "other_label": "rest"},
    {"private": THRESHOLD, "null_label": "(none)", "total_label": "\u00e9"},
]


@pytest.mark.parametrize("groups", SOURCES, ids=range(len(SOURCES)))
def test_groups_of_every_source_survive_the_canonical_form_and_yaml(groups):
    spec = ReleaseSpec(**with_value("groups", groups))
    assert spec_from_canonical(spec.canonical_json()) == parse_spec(spec_yaml(spec)) == spec
    assert len({ReleaseSpec(**with_value("groups", each)).digest for each in SOURCES}) == len(SOURCES)
    with pytest.raises(PlanRefused) as refused:
        spec.group_keys()
    assert (refused.value.code, spec.groups.size) == ("groups_not_listed", None)


def test_a_spec_that_lists_its_groups_has_the_digest_that_it_has_always_had():
    assert ReleaseSpec(**base()).digest.startswith("28d9681588fd156f")
    labels = {"total_label": "(all)", "other_label": "(other)"}
    assert ReleaseSpec(**with_value("groups", base()["groups"] | labels)).digest == parse_spec(TEXT).digest


def test_factors_of_a_product_may_come_from_files():
    spec = ReleaseSpec(**two_columns({"origin": ["a"], "carrier": {"file": "lines.csv"}}))
    assert (spec.groups.files, spec.groups.in_spec) == (("lines.csv",), False)
    assert spec_from_canonical(spec.canonical_json()) == spec


@pytest.mark.parametrize(
    ("groups", "told", "way_out"),
    [
        ({"public": ["a"], "private": {}}, "groups.private: stands beside public", "keep one of the two"),
        ({"public_file": ""}, "groups.public_file = '': is empty", "write a value"),
        ({"public_file": "x", "null_label": "a\n"}, "groups.null_label", "remove it"),
        ({"public": {"origin": {}}}, "groups.public.origin: missing key 'file'", "add `file: PATH`"),
        ({"public": {"origin": {"path": "x"}}}, "groups.public.origin.path: unknown key", "remove the key"),
        ({"public_table": {"table": "a b"}}, "public_table.table = 'a b': is not a name", "public.stations"),
        ({"public_table": VALID | {"as_of": "2024-01-01"}}, "(time travel) is not offered yet", "a view of"),
        ({"public_table": VALID | {"version": "3"}}, "unknown key 'version'", "(time travel) is not offered"),
        ({"public_table": {"table": "t", "as_of": "period_end"}}, "'valid_from'", "add"),
        ({"public_table": {"table": "t", "valid_to": "u"}}, "says nothing without as_of", "period_end"),
        ({"private": {"min_units": "0"}}, "groups.private.min_units = '0': is out of range", "from 1 to"),
        ({"private": {"select": "all"}}, "groups.private.select = 'all'", "optimal | threshold"),
        ({"private": {"other": "1"}}, "groups.private.other = '1': is neither", "write true or false"),
        ({"private": THRESHOLD | {"other": "true"}}, "would need ids of their own", "select: optimal"),
        (
            {"private": {"other": "true"}, "other_label": "x", "null_label": "x"},
            "groups.other_label = 'x': is null_label too",
            "write another text",
        ),
    ],
)
def test_a_source_of_groups_that_cannot_serve_is_refused(groups, told, way_out):
    refused = refusal(with_value("groups", groups))
    assert told in refused
    assert way_out in refused.split("way out:")[1]


def test_a_threshold_needs_ids_and_has_no_coarser_groups():
    written = with_value("groups", {"private": THRESHOLD})
    assert ReleaseSpec(**written)
    assert "does not go with rollup" in refusal(written | {"rollup": [[]]})
    assert "needs a query of kind ids" in refusal(written | {"queries": written["queries"][:1]})


def test_a_label_is_no_value_of_a_public_group_where_it_is_used():
    for public in (["(all)"], {"origin": ["(all)"]}):
        written = with_value("groups", {"public": public})
        assert ReleaseSpec(**written)
        assert "and what total_label stands for" in refusal(written | {"rollup": [[]]})
        assert ReleaseSpec(**written | {"rollup": [[]], "groups": {"public": public, "total_label": "all"}})


# --- numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("1", 1), ("1.0", 1), ("1e-6", Fraction(1, 10**6)), (".5", Fraction(1, 2)), ("1/3", Fraction(1, 3)),
        ("1.", 1), ("1E+1", 10), (0.1, Fraction(1, 10)), (1e-6, Fraction(1, 10**6)),
        (Decimal("0.10"), Fraction(1, 10)),
        (Fraction(2, 7), Fraction(2, 7)), (7, 7), (np.float64(0.1), Fraction(1, 10)), (np.int64(3), 3),
    ],
)  # fmt: skip
def test_epsilon_is_the_exact_number_that_was_written(written, exact):
    assert ReleaseSpec(**with_value("guarantee.epsilon", written)).guarantee.epsilon == exact


def test_ten_tenths_are_one():
    spec = ReleaseSpec(**with_value("guarantee.epsilon", 0.1))
    assert sum([spec.guarantee.epsilon] * 10) == 1


def from_budget(**budget):
    return {**base(), "guarantee": "from_budget", "budget": {"population": "nyc_planes", **budget}}


def test_a_guarantee_may_come_from_the_budget_over_its_horizon():
    spec = ReleaseSpec(**from_budget(horizon="365"))
    assert (spec.guarantee, spec.budget.horizon) == ("from_budget", 365)
    assert spec_from_canonical(spec.canonical_json()) == spec
    with pytest.raises(PlanRefused, match="takes its guarantee from the budget of nyc_planes"):
        _ = spec.stated_guarantee


def test_a_share_of_the_budget_needs_to_know_among_how_many():
    told = refusal(from_budget())
    assert "budget: missing key 'horizon'" in told
    assert "add `horizon: 365`" in told


@pytest.mark.parametrize("horizon", ["0", "1000001", "-1", "3.5", "a year"])
def test_a_horizon_is_a_whole_number_of_releases(horizon):
    assert "budget.horizon" in refusal(from_budget(horizon=horizon))


def test_a_stated_guarantee_may_have_a_horizon_too_and_without_one_the_digest_is_as_before():
    with_horizon = ReleaseSpec(**with_value("budget.horizon", 365))
    assert with_horizon.stated_guarantee == PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))
    assert "horizon" not in ReleaseSpec(**base()).canonical_json()


def test_a_near_miss_of_from_budget_is_told_what_there_is():
    told = refusal({**base(), "guarantee": "from-budget"})
    assert "is not a mapping, and not from_budget" in told
    assert "budget.horizon" in told


def test_delta_zero_is_refused_with_what_to_write():
    assert "pure epsilon is not offered yet" in refusal(with_value("guarantee.delta", "0.0"))


def test_every_accepted_number_is_positive_as_a_float_too():
    tiny = "." + "0" * 58 + "1e-99"
    assert float(ReleaseSpec(**with_value("guarantee.delta", tiny)).guarantee.delta) > 0
    assert float(ReleaseSpec(**with_value("guarantee.delta", Fraction(1, 2**1000))).guarantee.delta) > 0
    assert "too many digits" in refusal(with_value("guarantee.delta", Fraction(1, 2**1000 + 1)))


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=100))
@settings(deadline=None)
def test_a_fraction_is_read_back_from_its_text(epsilon):
    spec = ReleaseSpec(**with_value("guarantee.epsilon", f"{epsilon.numerator}/{epsilon.denominator}"))
    assert spec.guarantee.epsilon == epsilon


@pytest.mark.parametrize("delta", ["1e-70", "1e-99", Fraction(1, 2**1000), Fraction(3, 2**999 + 1)])
def test_a_spec_with_a_number_of_many_digits_is_read_back_from_its_canonical_form(delta):
    spec = ReleaseSpec(**with_value("guarantee.delta", delta))
    assert spec_from_canonical(spec.canonical_json()) == spec


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("auto", "auto"),
        ("logistic", "logistic"),
        ({"subbotin": "1.5"}, "subbotin(1.5)"),
        ({"subbotin": "3/2"}, "subbotin(1.5)"),
        ("subbotin(1.5)", "subbotin(1.5)"),
    ],
)
def test_noise_is_kept_by_the_canonical_name_of_its_family(written, name):
    spec = ReleaseSpec(**with_value("noise", written))
    assert spec.noise == name
    assert spec_from_canonical(spec.canonical_json()) == spec


@pytest.mark.parametrize(
    "written",
    [
        {"subbotin": "0.5"}, {"subbotin": "1.5)x("}, {"subbotin": 1.5, "p": 2}, {"cauchy": 1}, {}, [], 1, "",
        "truncated_laplace(3)", "laplace(2)", "LAPLACE",
    ],
)  # fmt: skip
def test_noise_that_is_none_is_refused(written):
    assert "noise" in refusal(with_value("noise", written))


@given(st.integers(1, 10**6))
@settings(deadline=None)
def test_a_whole_number_is_read_back_from_its_text(rows):
    assert ReleaseSpec(**with_value("bounds.max_groups", str(rows))).bounds.max_groups == rows


# --- units and bounds -----------------------------------------------------------------------------------

SUM = {"column": "dep_delay", "lower": -30, "upper": 180, "step": 1}
FORMS = "{column: COLUMN, on_null: drop} | {columns: [A, B], on_null: drop} | {row: true}"


def of_rows(**changes: object) -> dict:
    """The base spec with a row as the unit."""
    written = without("bounds") | {"unit": {"row": "true"}}
    return written | changes


def test_one_column_has_one_form_and_one_digest_however_it_is_written():
    one, several = (
        with_value("unit", {**unit, "on_null": "drop"}) for unit in ({"column": "a"}, {"columns": ["a"]})
    )
    assert ReleaseSpec(**one) == ReleaseSpec(**several)
    assert ReleaseSpec(**one).digest == ReleaseSpec(**several).digest
    assert ReleaseSpec(**one).unit.columns == ("a",)


def test_columns_are_kept_in_one_order():
    units = [{"columns": order, "on_null": "drop"} for order in (["b", "a"], ["a", "b"])]
    first, second = (ReleaseSpec(**with_value("unit", unit)) for unit in units)
    assert first.unit.columns == ("a", "b")
    assert first.digest == second.digest
    assert str(first.unit.protected) == '"a" + "b"'


@pytest.mark.parametrize("row", ["true", True])
def test_a_row_is_a_unit_without_columns_or_bounds(row):
    spec = ReleaseSpec(**of_rows(unit={"row": row}))
    assert (spec.unit.columns, spec.unit.per, spec.unit.is_row, spec.bounds) == ((), None, True, None)
    assert spec_from_canonical(spec.canonical_json()) == spec
    assert contribution_bounds(spec.unit, spec.bounds) == Bounds(1, 1, 1)


@pytest.mark.parametrize(
    ("per", "every"),
    [("day", "day"), ("day", "week"), ("day", "month"), ("week", "week"), ("month", "month")],
)
def test_a_unit_may_be_of_a_period_that_a_release_holds_whole(per, every):
    written = with_value("unit.per", per)
    written["period"]["every"] = every
    spec = ReleaseSpec(**written)
    assert spec.unit.per is Every(per)
    assert str(spec.unit.protected) == f'"tailnum" per {per}'
    assert spec_from_canonical(spec.canonical_json()) == spec


@pytest.mark.parametrize(
    ("per", "every"), [("week", "day"), ("month", "day"), ("month", "week"), ("week", "month")]
)
def test_a_unit_of_a_period_that_a_release_may_hold_in_part_is_refused(per, every):
    written = with_value("unit.per", per)
    written["period"]["every"] = every
    told = refusal(written)
    assert (
        f"unit.per = {per!r}: does not go with period.every = {every!r}: a {per} does not lie within" in told
    )
    assert f"or a period of a {per}" in told


def test_a_unit_of_a_period_needs_one():
    written = with_value("unit.per", "day")
    del written["period"]
    assert "unit.per = 'day': needs a period" in refusal(written)
    assert "way out: add `period: {column: date, every: day}`, or remove per" in refusal(written)


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ({"on_null": "drop"}, f"unit: missing key 'column' (allowed: {FORMS})"),
        ({}, "way out: add `column: COLUMN`, or `row: true`"),
        ({"column": "a"}, "unit.on_null: missing key 'on_null'\n  way out: add `on_null: drop`"),
        ({"column": "a", "columns": ["b"], "on_null": "drop"}, "unit.columns = ['b']: stands beside column"),
        ({"row": "true", "column": "a", "on_null": "drop"}, "unit.row = 'true': stands beside column"),
        ({"columns": ["a", "b", "a"], "on_null": "drop"}, "unit.columns[2] = 'a': is listed twice"),
        ({"columns": [], "on_null": "drop"}, "unit.columns = []: is an empty list"),
        ({"columns": "a", "on_null": "drop"}, "unit.columns = 'a': is not a list"),
        ({"columns": ["a", ""], "on_null": "drop"}, "unit.columns[1] = '': is empty"),
        ({"column": "a", "on_null": "keep"}, "unit.on_null = 'keep': is not known"),
        ({"column": "a", "on_null": "drop", "per": "year"}, "unit.per = 'year': is not known (allowed: day"),
        ({"column": "a", "on_null": "drop", "pr": "day"}, "unknown key 'pr': did you mean 'per'?"),
        ({"colum": "a", "column": "a", "on_null": "drop"}, "the keys column, row, columns, on_null, per"),
    ],
)  # fmt: skip
def test_a_wrong_unit_is_refused(unit, told):
    assert told in refusal(with_value("unit", unit))


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ({"row": "false"}, "unit.row = 'false': says nothing"),
        (
            {"row": "true", "on_null": "drop"},
            "unit.on_null = 'drop': does not go with row: true: a row is there",
        ),
        (
            {"row": "true", "per": "day"},
            "unit.per = 'day': does not go with row: true: a row is a unit by itself",
        ),
    ],
)
def test_a_wrong_row_unit_is_refused(unit, told):
    assert told in refusal(of_rows(unit=unit))
    assert "way out: " in refusal(of_rows(unit=unit))


def test_a_row_is_its_own_bound_and_its_own_total():
    told = refusal(of_rows(bounds={"max_groups": 1, "max_rows_per_group": 1}))
    assert "bounds: does not go with unit.row = true: a row is its own bound, 1 row in 1 group" in told
    assert "way out: remove bounds" in told
    told = refusal(of_rows(queries=[{"name": "a", "kind": "sum", "clamp": "unit", **SUM}]))
    assert "queries[0].clamp = 'unit': does not go with unit.row = true" in told
    assert "way out: remove clamp" in told


@pytest.mark.parametrize(
    "bounds",
    [
        {"max_groups": 3, "max_rows_per_group": 10},
        {"max_rows": 20},
        {"max_groups": 3, "max_rows": 20},
        {"max_rows_per_group": 3, "max_rows": 20},
        {"max_groups": 3, "max_rows_per_group": 10, "max_rows": 20},
    ],
)
def test_bounds_may_be_written_in_five_ways(bounds):
    spec = ReleaseSpec(**with_value("bounds", bounds))
    assert contribution_bounds(spec.unit, spec.bounds) == Bounds(**bounds)
    assert spec_from_canonical(spec.canonical_json()) == spec


@pytest.mark.parametrize(
    ("bounds", "told", "way_out"),
    [
        (
            {"max_groups": 3},
            "bounds: missing key 'max_rows_per_group': of one unit, its rows in a group would have no bound",
            "add `max_rows_per_group: 10`, or `max_rows: 20`",
        ),
        (
            {"max_rows_per_group": 3},
            "bounds: missing key 'max_groups': of one unit, the number of its groups would have no bound",
            "add `max_groups: 3`, or `max_rows: 20`",
        ),
        ({}, "missing key 'max_groups' and 'max_rows_per_group'", "or `max_rows: 20`"),
        ({"max_rows": 0}, "bounds.max_rows = 0: is out of range", "a whole number from 1 to 1000000"),
    ],
)
def test_bounds_that_leave_a_unit_without_limit_say_what_is_missing(bounds, told, way_out):
    text = refusal(with_value("bounds", bounds))
    assert told in text
    assert way_out in text.partition("way out: ")[2]


def test_neighbours_may_be_replaced():
    spec = ReleaseSpec(**with_value("neighbours", "replace"))
    assert spec.neighbours is Neighbours.REPLACE
    assert spec.digest != ReleaseSpec(**base()).digest


def test_a_sum_may_clamp_the_totals_of_units_and_a_mean_may_not():
    spec = ReleaseSpec(**with_value("queries.1.clamp", "unit"))
    assert spec.queries[1].clamp is Clamp.UNIT
    assert spec.digest != ReleaseSpec(**base()).digest
    assert ReleaseSpec(**with_value("queries.1.clamp", "row")).digest == ReleaseSpec(**base()).digest
    told = refusal(with_value("queries.2.clamp", "unit"))
    assert "queries[2].clamp = 'unit': does not go with kind: mean" in told
    assert "way out: remove clamp, or ask for kind: sum" in told
    assert "clamp = 'group': is not known (allowed: row | unit)" in refusal(
        with_value("queries.1.clamp", "group")
    )
    assert "remove it, or ask for kind: sum" in refusal(with_value("queries.0.clamp", "unit"))


# --- sameness -------------------------------------------------------------------------------------------


def test_yaml_and_python_give_the_same_spec():
    assert parse_spec(TEXT) == ReleaseSpec(**base())
    assert parse_spec(TEXT).digest == ReleaseSpec(**base()).digest


def test_parts_may_be_built_first():
    spec = ReleaseSpec(**base())
    again = ReleaseSpec(**{name: getattr(spec, name) for name in ReleaseSpec.model_fields})
    assert again == spec
    assert ReleaseSpec(**with_value("input.path", Path("data/flights"))) == spec
    assert ReleaseSpec(**with_value("guarantee", PrivacyGuarantee(Fraction(1), Fraction(1, 10**6)))) == spec
    assert ReleaseSpec(**with_value("bounds", BoundsSpec(max_groups="3", max_rows_per_group=10))) == spec


def test_a_part_built_alone_refuses_in_our_words_too():
    with pytest.raises(SpecRefused, match=r"max_groups = 0: is out of range"):
        BoundsSpec(max_groups=0, max_rows_per_group=1)
    with pytest.raises(SpecRefused, match=r"kind = 'count': is not known \(allowed: sum \| mean"):
        ColumnQuerySpec(name="a", kind="count", column="b", lower=0, upper=1)
    with pytest.raises(SpecRefused, match=r"guarantee.epsilon = Fraction\(200, 1\)"):
        ReleaseSpec(**with_value("guarantee", PrivacyGuarantee(Fraction(200), Fraction(0))))


SAME = [
    TEXT.replace("1.0", "1"),
    TEXT.replace("1.0", "'1.00'"),
    TEXT.replace("1.0", "2/2"),
    TEXT.replace("1e-6", "0.000001"),
    TEXT.replace("[EWR, JFK, LGA]", "[ 'LGA', \"EWR\",  # two\n   JFK ]"),
    TEXT.replace("[EWR, JFK, LGA]", "{origin: [JFK, EWR, LGA]}"),
    TEXT.replace("neighbours: add_remove\n", "").replace("noise: auto\n", ""),
    TEXT.replace(", on_null: drop, on_nan: drop", ""),
    TEXT.replace("step: 1,", "step: 1.000,").replace("lower: -30", "lower: -3e1"),
    "\ufeff# c\n---\n" + "".join(f"{key}: {json.dumps(part)}\n" for key, part in reversed(base().items())),
    json.dumps(base()),
    json.dumps(base(), indent=2, sort_keys=True),
]  # fmt: skip


@pytest.mark.parametrize("text", SAME, ids=range(len(SAME)))
def test_layout_order_and_quotes_do_not_change_the_digest(text):
    assert parse_spec(text).digest == parse_spec(TEXT).digest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("flights_by_origin\ninput", "flights\ninput"), ("data/flights", "data/flights2"), ("day", "week"),
        ("New_York", "Chicago"), ("tailnum", "plane"), ("max_groups: 3", "max_groups: 4"), ("JFK", "jfk"),
        ("1.0", "1.0000001"), ("1e-6", "1e-7"), ("name: planes", "name: units"), ("kind: ids", "kind: count"),
        ("step: 1,", ""), ("-30", "-31"), ("auto", "gaussian"), ("nyc_planes", "nyc"), ("out/", "out2/"),
    ],
)  # fmt: skip
def test_any_other_meaning_changes_the_digest(before, after):
    assert before in TEXT
    assert parse_spec(TEXT.replace(before, after)).digest != parse_spec(TEXT).digest


@pytest.mark.parametrize(
    "written", [base(), two_columns({"origin": ["é", "😀"], "carrier": ["'", '"', "\\"]})]
)
def test_canonical_json_is_read_back(written):
    spec = ReleaseSpec(**written)
    text = spec.canonical_json()
    assert parse_spec(text) == spec == spec_from_canonical(text)
    assert spec_from_canonical(json.dumps(json.loads(text), ensure_ascii=True, indent=1)) == spec
    assert parse_spec(text).canonical_json() == text
    assert len(spec.digest) == 64


GROUP = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(st.lists(GROUP, min_size=1, max_size=5))
@settings(deadline=None)
def test_any_groups_that_are_accepted_survive_the_canonical_form(public):
    spec = accepted(with_value("groups.public", public))
    if spec is not None:
        assert parse_spec(spec.canonical_json()) == spec
        assert spec.group_keys() == tuple(sorted((text,) for text in public))


def test_a_damaged_stored_spec_is_refused():
    for text in ("{", "[]", "{}", '{"release": 3}'):
        with pytest.raises(SpecRefused, match="stored spec"):
            spec_from_canonical(text)


def test_a_spec_is_a_value():
    spec = ReleaseSpec(**base())
    assert hash(spec) == hash(parse_spec(TEXT))
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec
    with pytest.raises(ValueError, match="frozen"):
        spec.release = "other"


# --- YAML that is not a spec ----------------------------------------------------------------------------

BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
HOSTILE = [
    ("", "is empty"),
    ("# nothing\n", "is empty"),
    ("- a", "is not a mapping"),
    ("text", "is not a mapping"),
    ("a: 1\n---\nb: 2\n", "holds several documents"),
    ("release: a\nunit: 1\nrelease: b\n", "release: line 3 writes this key again"),
    ("unit:\n  column: a\n  'column': b\n", "unit.column: line 3 writes this key again"),
    ("queries: [{name: a, name: b}]", "queries[0].name: line 1 writes this key again"),
    ("a: [", "line 1 is not YAML"),
    ("a: 1\n b: 2\n", "line 2 is not YAML"),
    ("a:\n\t- b\n", "line 2 is not YAML"),
    ('a: "', "is not YAML"),
    (TEXT.replace("EWR", '"\\ud800"'), "groups.public[0] = '\\ud800': holds a control character"),
    ('a: {"\\ud800": 1}', "line 1 holds a control character in a key"),
    ('a: "\\U00110000"', "is not YAML"),
    ("%YAML 9.x\n---\na: 1", "is not YAML"),
    ("%YAML 1.1\n---\na: 1", "a directive"),
    ("%TAG ! tag:x,2000:\n---\na: 1", "a directive"),
    (BOMB, "line 1 holds an anchor or an alias"),
    ("a: *x", "line 1 holds an anchor or an alias"),
    ("a: !!python/object:os.system x", "line 1 holds a tag"),
    ("a: ! x", "line 1 holds a tag"),
    ("? [a]\n: b\n", "a key that is not a text"),
    ("a: " + "[" * 20 + "]" * 20, "more than 12 levels deep"),
    ("[" * 200_000, "more than 12 levels deep"),
    ("a: b\0", "line 1 holds the control character '\\x00'"),
    ("a: 1\nb: \x1b[31m", "line 2 holds the control character '\\x1b'"),
    ("a: \u2028b", "control character"),
    ("a: \ud800", "control character"),
    ("a: " + "x" * 1_000_000, "at most 1,000,000 bytes"),
    ("a: " + "é" * 600_000, "at most 1,000,000 bytes"),
    (TEXT.replace("EWR", '"\\0"'), "holds a control character"),
    (TEXT.replace("EWR", "''"), "groups.public[0] = '': is empty"),
    ("<<: {release: a}", "unknown key '<<'"),
]


@pytest.mark.parametrize(("text", "words"), HOSTILE, ids=[f"{text[:20]!a}" for text, _ in HOSTILE])
def test_text_that_is_no_plain_spec_is_refused(text, words):
    assert words in refusal(text)


def test_a_refusal_stays_short_and_quick_whatever_was_written():
    start = time.process_time()
    told = refusal("\n".join(f"key{i}: {'x' * 100}" for i in range(2_000)))
    assert "more than 50 problems" in told
    assert len(told) < 30_000
    assert time.process_time() - start < 5
    assert len(refusal(with_value("noise", "x" * 10**6))) < 500


@given(st.text())
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_spec_or_is_refused(text):
    with suppress(SpecRefused):
        parse_spec(text)


WORDS = [
    "release",
    "%YAML ",
    "\\x",
    "\\u12",
    "\\N",
    "&a",
    "*a",
    "!!",
    "!<",
    "|2-",
    "1.2",
    "---",
    "...",
    "<<",
    ": ",
    "- ",
]
CHUNKS = st.sampled_from([*WORDS, *"[]{},\"'\\#!>|%?@`~é<:\t\r\n "])


@given(st.lists(CHUNKS, max_size=25).map("".join))
@settings(deadline=None, max_examples=500)
def test_any_yaml_like_text_is_a_spec_or_is_refused(text):
    with suppress(SpecRefused):
        parse_spec(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
PLACES = [
    *base(),
    *(f"{key}.{inner}" for key, part in base().items() if isinstance(part, dict) for inner in part),
]
PLACES += [f"queries.1.{key}" for key in base()["queries"][1]] + ["queries.0", "publish.0", "groups.public.0"]


@given(st.sampled_from(PLACES), JSON)
@settings(deadline=None, max_examples=500)
def test_any_python_value_anywhere_is_accepted_or_refused(path, value):
    spec = accepted(with_value(path, value))
    if spec is not None:
        assert spec_from_canonical(spec.canonical_json()).digest == spec.digest


# --- files ----------------------------------------------------------------------------------------------


def test_a_spec_is_loaded_from_a_file(tmp_path):
    (tmp_path / "spec.yaml").write_text(TEXT.replace("EWR", "Zürich"), encoding="utf-8")
    assert ("Zürich",) in load_spec(tmp_path / "spec.yaml").group_keys()
    assert load_spec(str(tmp_path / "spec.yaml")) == load_spec(tmp_path / "spec.yaml")


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "spec_not_a_mapping", "is empty"),
        (b"release: a\nunit: \xff\n", "spec_not_utf8", "line 2 is not UTF-8"),
        ("release: a".encode("utf-16"), "spec_not_utf8", "line 1 is not UTF-8"),
        (b"x" * 1_000_001, "spec_too_long", "at most 1,000,000 bytes"),
        ("é".encode() * 500_001, "spec_too_long", "at most 1,000,000 bytes"),
        (b"release: [", "spec_not_yaml", "line 1 is not YAML"),
        (b"relase: a", "spec_invalid", "did you mean 'release'?"),
    ],
    ids=["empty", "latin", "utf-16", "long", "long_cut", "syntax", "key"],
)
def test_a_file_that_is_no_spec_is_refused_with_its_name(tmp_path, content, code, words):
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(SpecRefused) as caught:
        load_spec(tmp_path / "bad.yaml")
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "bad.yaml" in caught.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path):
    for path in (tmp_path / "no.yaml", tmp_path, "a\0b", "x" * 5000, ""):
        with pytest.raises(SpecRefused) as caught:
            load_spec(path)
        assert caught.value.code == "spec_not_found"
