"""Queries of every kind as an operator writes them: what is read, what is refused, what columns come."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from dp_spark.errors import SpecRefused
from dp_spark.release.spec import (
    MAX_BINS,
    MAX_RANKS,
    BinnedQuerySpec,
    DistinctQuerySpec,
    ReleaseSpec,
    parse_spec,
    spec_from_canonical,
    spec_yaml,
)

BOUNDS = {"column": "x", "lower": -30, "upper": 180}
EDGES = {"start": -30, "stop": 180, "step": 15}
WEIGHT = {"column": "w", "upper": 10}
COUNT = {"name": "n", "kind": "count"}
SUM = {"name": "s", "kind": "sum", **BOUNDS}
MEAN = {"name": "m", "kind": "mean", **BOUNDS}
VARIANCE = {"name": "v", "kind": "variance", **BOUNDS}
DISTINCT = {"name": "d", "kind": "distinct", "column": "x", "values": ["b", "a"]}
HISTOGRAM = {"name": "h", "kind": "histogram", "column": "x", "edges": EDGES}
QUANTILES = {"name": "q", "kind": "quantiles", "column": "x", "edges": EDGES, "at": ["0.5", "0.995"]}
MINIMUM = {"name": "low", "kind": "min", "column": "x", "edges": EDGES}
MAXIMUM = {"name": "high", "kind": "max", "column": "x", "edges": EDGES}
RATIO = {"name": "r", "kind": "ratio", "numerator": "s", "denominator": "n", "lower": -30, "upper": 180}
EVERY = [
    COUNT,
    COUNT | {"name": "c", "column": "x"},
    COUNT | {"name": "wn", "weight": WEIGHT},
    {"name": "i", "kind": "ids"},
    SUM,
    SUM | {"name": "ws", "weight": WEIGHT | {"step": "0.5"}},
    MEAN,
    VARIANCE | {"weight": WEIGHT},
    {"name": "std", "kind": "std", **BOUNDS, "step": "0.5"},
    DISTINCT,
    HISTOGRAM,
    QUANTILES | {"weight": WEIGHT},
    MINIMUM | {"at": "0.05"},
    MAXIMUM,
    RATIO,
]


def written(*queries: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "release": "trial",
        "input": {"format": "parquet", "path": "in"},
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": 3, "max_rows_per_group": 7},
        "group_by": ["town"],
        "groups": {"public": ["a", "b"]},
        "guarantee": {"epsilon": 1, "delta": "1e-6"},
        "queries": list(queries),
        "budget": {"population": "p"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }


def read(*queries: Mapping[str, Any]) -> ReleaseSpec:
    return ReleaseSpec(**written(*queries))


def refusal(*queries: Mapping[str, Any]) -> str:
    """The text of the refusal, which has a way out and no word of pydantic's."""
    with pytest.raises(SpecRefused) as caught:
        read(*queries)
    assert caught.value.way_out
    for jargon in ("Input should", "pydantic", "Value error", "type=", "Problem("):
        assert jargon not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("query", EVERY[:-1], ids=lambda query: query["name"])
def test_every_kind_survives_the_canonical_form_and_yaml(query: Mapping[str, Any]) -> None:
    spec = read(query)
    assert spec_from_canonical(spec.canonical_json()) == spec
    assert parse_spec(spec_yaml(spec)).digest == spec.digest


def test_all_kinds_in_one_release_survive_too() -> None:
    spec = read(*EVERY)
    assert spec_from_canonical(spec.canonical_json()) == spec
    assert parse_spec(spec_yaml(spec)).digest == spec.digest


def test_what_is_left_out_leaves_no_trace() -> None:
    text = read(COUNT, SUM, MEAN).canonical_json()
    assert '{"kind":"count","name":"n"}' in text
    for key in ("weight", "edges", "at", "values"):
        assert f'"{key}"' not in text


@pytest.mark.parametrize("at", [None, "0.01", ["0.01"]])
def test_a_minimum_stands_at_one_in_a_hundred_however_that_is_written(at: Any) -> None:
    given = {} if at is None else {"at": at}
    spec = read(MINIMUM | given)
    assert spec.digest == read(MINIMUM).digest
    query = spec.queries[0]
    assert isinstance(query, BinnedQuerySpec)
    assert query.at == (Fraction(1, 100),)


def test_edges_may_be_a_range_or_a_list() -> None:
    listed = HISTOGRAM | {"edges": list(range(-30, 181, 15))}
    assert read(listed).digest == read(HISTOGRAM).digest
    query = read(HISTOGRAM).queries[0]
    assert isinstance(query, BinnedQuerySpec)
    assert (query.edges[0], query.edges[1], query.edges[-1], len(query.edges)) == (-30, -15, 180, 15)


def test_listed_values_have_no_order() -> None:
    assert read(DISTINCT).digest == read(DISTINCT | {"values": ["a", "b"]}).digest
    query = read(DISTINCT).queries[0]
    assert isinstance(query, DistinctQuerySpec)
    assert query.values == ("a", "b")


def test_the_largest_numbers_are_read() -> None:
    read(HISTOGRAM | {"edges": {"start": 0, "stop": MAX_BINS, "step": 1}})
    read(QUANTILES | {"at": [f"0.{place:03}" for place in range(1, MAX_RANKS + 1)]})
    read(DISTINCT | {"values": [str(place) for place in range(MAX_BINS)]})


WRONG = [
    (HISTOGRAM, "edges", {"start": 0, "stop": 10, "step": 3}, ".edges.stop = 10: is not a whole number of"),
    (HISTOGRAM, "edges", {"start": 0, "stop": 10, "step": 3}, "write 12, or another step"),
    (HISTOGRAM, "edges", {"start": 0, "stop": 0, "step": 3}, ".edges.stop = 0: is not above start = 0"),
    (HISTOGRAM, "edges", {"start": 0, "stop": 1001, "step": 1}, "makes 1,001 bins (allowed: at most 1,000"),
    (HISTOGRAM, "edges", {"start": 0, "stop": 5}, "missing key 'step'"),
    (HISTOGRAM, "edges", {"start": 0, "stop": 5, "step": 0}, ".edges.step = 0: is out of range"),
    (HISTOGRAM, "edges", [0, 2, 1], ".edges[2] = 1: is not above the edge before it, 2"),
    (HISTOGRAM, "edges", [0, 1, 1], ".edges[2] = 1: is not above the edge before it, 1"),
    (HISTOGRAM, "edges", ["1e14", "100000000000000.001"], ".edges[1] = 100000000000000.001: is not above"),
    (HISTOGRAM, "edges", {"start": "1e14", "stop": "100000000000000.01", "step": "0.001"}, "one number"),
    (HISTOGRAM, "edges", [0], "has 1 edges (allowed: 2 to 1,001 edges)"),
    (HISTOGRAM, "edges", list(range(1002)), "has 1,002 edges"),
    (HISTOGRAM, "edges", [0, "x"], ".edges[1] = 'x': is not a number"),
    (HISTOGRAM, "edges", [0, "1/3"], ".edges[1] = '1/3': has no finite decimal"),
    (HISTOGRAM, "edges", 5, ".edges = 5: is not a list"),
    (HISTOGRAM, "at", ["0.5"], ".at = [0.5]: does not go with kind: histogram"),
    (HISTOGRAM, "lower", 0, "unknown key 'lower'"),
    (HISTOGRAM, "lower", 0, "edges bound the values"),
    (HISTOGRAM, "on_null", "drop", "remove it: a row without a value"),
    (QUANTILES, "at", ["0.5", "1"], ".at[1] = '1': is out of range (allowed: a decimal, 0 < at < 1"),
    (QUANTILES, "at", ["0"], ".at[0] = '0': is out of range"),
    (QUANTILES, "at", ["0.1234567"], "at most 6 digits behind the point"),
    (QUANTILES, "at", ["0.5", "0.50"], ".at[1] = '0.5': is listed twice"),
    (QUANTILES, "at", [f"0.{place:03}" for place in range(1, 102)], "has 101 entries (allowed: 1 to 100"),
    (QUANTILES, "at", [], "is an empty list"),
    (MINIMUM, "at", "0.5", ".at = [0.5]: stands for the minimum, and is not one share below 0.5"),
    (MINIMUM, "at", ["0.1", "0.2"], ".at = [0.1, 0.2]: stands for the minimum"),
    (MAXIMUM, "at", "0.01", ".at = [0.01]: stands for the maximum, and is not one share above 0.5"),
    (DISTINCT, "values", ["a", "b", "a"], ".values[2] = 'a': is listed twice"),
    (DISTINCT, "values", ["e\u0301"], "is not in Unicode form NFC"),
    (DISTINCT, "values", [], "is an empty list"),
    (DISTINCT, "values", [str(place) for place in range(1001)], "has 1,001 values (allowed: 1 to 1,000"),
    (DISTINCT, "weight", WEIGHT, "a value occurs or not, whatever its rows weigh"),
    (COUNT, "weight", WEIGHT | {"upper": 0}, ".weight.upper = 0: is not above 0 (allowed: 0 < upper)"),
    (COUNT, "weight", WEIGHT | {"step": 3}, ".weight.upper = 10: is not a multiple of step = 3"),
    (COUNT, "weight", WEIGHT | {"step": "1e-9"}, ".weight.step = 0.000000001: cuts [0, upper] into more"),
    (COUNT, "weight", "w", ".weight = 'w': is not a mapping"),
    (COUNT, "weight", {"upper": 3}, ".weight.column: missing key 'column'"),
    (COUNT, "weight", WEIGHT | {"lower": 0}, "unknown key 'lower'"),
    (COUNT | {"column": "x"}, "weight", WEIGHT, ".weight = 'w': does not go with column"),
    (COUNT | {"kind": "ids"}, "column", "x", ".column = 'x': does not go with kind: ids"),
    (COUNT | {"kind": "ids"}, "weight", WEIGHT, ".weight = 'w': does not go with kind: ids"),
    (SUM | {"weight": WEIGHT}, "clamp", "unit", ".clamp = 'unit': does not go with weight"),
    (VARIANCE, "clamp", "unit", ".clamp = 'unit': does not go with kind: variance"),
    (VARIANCE, "upper", -30, ".upper = -30: is not above lower = -30"),
    (VARIANCE, "edges", EDGES, "unknown key 'edges'"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "key", "value", "told"), WRONG)
def test_a_wrong_value_is_refused_with_its_place(
    query: Mapping[str, Any], key: str, value: Any, told: str
) -> None:
    text = refusal(query | {key: value})
    assert told in text
    assert f"queries[0].{key}" in text


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (HISTOGRAM, "edges"),
        (QUANTILES, "at"),
        (DISTINCT, "values"),
        (DISTINCT, "column"),
        (VARIANCE, "lower"),
        (RATIO, "numerator"),
        (RATIO, "upper"),
    ],
)
def test_a_missing_key_is_named_with_an_example(query: Mapping[str, Any], key: str) -> None:
    text = refusal({name: value for name, value in query.items() if name != key})
    assert f"missing key '{key}'\n  way out: add `{key}: " in text


@pytest.mark.parametrize(
    ("queries", "told"),
    [
        ([COUNT, RATIO], "queries[1].numerator = 's': names no query"),
        ([SUM, COUNT, RATIO | {"numerator": "sum"}], "names no query"),
        ([MEAN, COUNT, RATIO | {"numerator": "m"}], "queries[2].numerator = 'm': names a query of kind mean"),
        ([COUNT, SUM, RATIO | {"denominator": "r"}], "names a query of kind ratio"),
        ([COUNT, SUM, RATIO | {"denominator": "s"}], "queries[2].denominator = 's': is the numerator too"),
        ([COUNT, RATIO, SUM], "queries[1].numerator = 's': names a query further down"),
        ([COUNT, RATIO, SUM], "move r below s"),
        ([COUNT, SUM, RATIO | {"upper": -30}], "queries[2].upper = -30: is not above lower = -30"),
        ([COUNT, SUM, RATIO | {"weight": WEIGHT}], "write it where the numerator and the denominator"),
    ],
)
def test_a_ratio_of_something_else_is_refused(queries: list[Mapping[str, Any]], told: str) -> None:
    assert told in refusal(*queries)


def test_a_near_miss_of_a_name_is_told() -> None:
    assert "write total" in refusal(COUNT, SUM | {"name": "total"}, RATIO | {"numerator": "totl"})


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (QUANTILES, COUNT | {"name": "q_p50"}, "q_p50"),
        (QUANTILES, COUNT | {"name": "q_p99_5_low"}, "q_p99_5_low"),
        (HISTOGRAM, COUNT | {"name": "h_14"}, "h_14"),
        (COUNT | {"name": "h_3_std"}, HISTOGRAM, "h_3_std"),
    ],
)
def test_columns_of_every_answer_are_looked_at(
    one: Mapping[str, Any], other: Mapping[str, Any], clash: str
) -> None:
    assert f"would write the column '{clash}'" in refusal(one, other)


def test_names_that_write_no_column_of_each_other_are_fine() -> None:
    read(QUANTILES, COUNT | {"name": "q"}, HISTOGRAM, COUNT | {"name": "h_15"}, COUNT | {"name": "h"})


@pytest.mark.parametrize("query", EVERY[:-1], ids=lambda query: query["name"])
@pytest.mark.parametrize("value", [None, [], {}, "", 3, True, [{}], {"column": None}])
def test_any_value_of_any_key_is_accepted_or_refused_in_our_words(
    query: Mapping[str, Any], value: Any
) -> None:
    for key in query:
        if not _read_back(query | {key: value}):
            assert "queries" in refusal(query | {key: value})


def _read_back(query: Mapping[str, Any]) -> bool:
    """Whether the query is accepted; then it survives the canonical form."""
    try:
        spec = read(query)
    except SpecRefused:
        return False
    assert spec_from_canonical(spec.canonical_json()).digest == spec.digest
    return True
