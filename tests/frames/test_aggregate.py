"""Exact totals on real Spark: against plain Python, for every kind of value that a row may hold."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dp_spark.errors import BoundsExceeded, InputRefused
from dp_spark.frames.collect import collect_totals
from dp_spark.frames.column_checks import check_columns
from dp_spark.frames.session import pinned
from dp_spark.release.period import period_window
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

KEY = bytes(range(32))
BASE: dict[str, Any] = {
    "release": "trial",
    "input": {"format": "parquet", "path": "in"},
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 5, "max_rows_per_group": 5},
    "group_by": ["town"],
    "groups": {"public": ["a", "b", "empty"]},
    "guarantee": {"epsilon": 1, "delta": "1e-6"},
    "queries": [
        {"name": "n", "kind": "count"},
        {"name": "total", "kind": "sum", "column": "x", "lower": -10, "upper": 20, "step": "0.5"},
        {"name": "middle", "kind": "mean", "column": "x", "lower": -10, "upper": 20, "step": "0.5"},
        {"name": "people", "kind": "ids"},
    ],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}


def totals(frame: DataFrame, key: str = "2024-03-01", **changes: Any) -> dict[str, list[int]]:
    spec = ReleaseSpec(**{**BASE, **changes})  # a key that is None stands for its absence
    check_columns(frame, spec)
    plan, window = plan_release(spec), period_window(spec.period, key)
    found = collect_totals(frame, plan=plan, window=window, release_key=KEY)
    sums = {drawn.planned.total: sums for drawn, sums in zip(plan.drawn, found, strict=True)}
    return {
        f"{query.name}.{planned.total.name}": sums[planned.total].tolist()
        for query in plan.queries
        for planned in query.totals
    }


def rows(spark: SparkSession, values: list[tuple[Any, ...]], schema: str) -> DataFrame:
    return spark.createDataFrame(values, schema)


def test_totals_are_those_of_plain_python(spark: SparkSession) -> None:
    frame = rows(
        spark,
        [("p1", "a", 1.2), ("p1", "a", 1.3), ("p2", "a", 99.0), ("p2", "b", -99.0), ("p3", "b", None)],
        "person string, town string, x double",
    )
    assert totals(frame) == {
        "n.rows": [3, 2, 0],
        "total.sum": [2 + 3 + 40, -20, 0],  # half steps: floor(2.4 + .5), floor(2.6 + .5), clamped 20
        "middle.centred_sum": [4 - 20 + 6 - 20 + 80 - 20, -40 - 20, 0],
        "middle.values": [3, 1, 0],
        "people.units": [2, 2, 0],
    }


# By type: what a row may hold, and what it adds to the sum in half steps of [-10, 20]; None: nothing.
SPECIAL: dict[str, list[tuple[Any, int | None]]] = {
    "double": [
        (float("nan"), None),
        (float("inf"), 40),
        (float("-inf"), -20),
        (-0.0, 0),
        (5e-324, 0),
        (1.7e308, 40),
        (None, None),
        (0.25, 1),
        (-0.26, -1),
    ],
    "float": [(float("nan"), None), (float("inf"), 40), (3.0, 6)],
    "bigint": [(2**63 - 1, 40), (-(2**63), -20), (None, None), (7, 14)],
    "decimal(38,0)": [(Decimal(10) ** 37, 40), (-(Decimal(10) ** 37), -20)],
    "decimal(10,2)": [(Decimal("0.25"), 1), (Decimal("-0.26"), -1)],
    "string": [
        ("7.5", 15),
        ("NaN", None),
        ("Infinity", 40),
        ("1e400", 40),
        ("no number", None),
        ("", None),
        ("NULL", None),
        ("\u0661", None),
        ("x" * 5000, None),
    ],
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_every_special_value_has_a_declared_meaning(spark: SparkSession, kind: str) -> None:
    towns = [f"{i:02}" for i in range(len(SPECIAL[kind]))]
    values = [("p", town, value) for town, (value, _) in zip(towns, SPECIAL[kind], strict=True)]
    found = totals(
        rows(spark, values, f"person string, town string, x {kind}"),
        groups={"public": towns},
        bounds={"max_groups": 20, "max_rows_per_group": 1},
    )
    steps = [steps for _, steps in SPECIAL[kind]]
    assert found["n.rows"] == found["people.units"] == [1] * len(towns)  # rows count, whatever their value
    assert found["middle.values"] == [int(step is not None) for step in steps]
    assert found["total.sum"] == [step or 0 for step in steps]


def test_rows_without_unit_or_public_group_count_nowhere(spark: SparkSession) -> None:
    frame = rows(
        spark,
        [
            (None, "a", 1.0),
            ("p", None, 1.0),
            ("p", "other", 1.0),
            ("p", "A", 1.0),
            ("p", "a ", 1.0),
            ("", "a", 1.0),  # an empty text is a unit like any other
        ],
        "person string, town string, x double",
    )
    assert totals(frame)["n.rows"] == [1, 0, 0]


def test_groups_that_are_not_public_take_no_place_among_a_units_groups(spark: SparkSession) -> None:
    frame = rows(
        spark,
        [("p", f"other{i}", 1.0) for i in range(50)] + [("p", "a", 1.0)],
        "person string, town string, x double",
    )
    assert totals(frame, bounds={"max_groups": 1, "max_rows_per_group": 1})["n.rows"] == [1, 0, 0]


def test_bounds_hold_across_partitions(spark: SparkSession) -> None:
    frame = rows(
        spark,
        [(f"p{i % 3}", "ab"[i % 2], float(i)) for i in range(600)],
        "person string, town string, x double",
    ).repartition(13)
    found = totals(frame, bounds={"max_groups": 1, "max_rows_per_group": 4})
    assert sum(found["n.rows"]) == 12
    assert sum(found["people.units"]) == 3


def test_keys_of_other_types_are_compared_as_text(spark: SparkSession) -> None:
    frame = rows(
        spark,
        [
            (1, date(2024, 1, 2), True, 1.0),
            (1, date(2024, 1, 2), False, 1.0),
            (2, date(2024, 1, 3), True, 1.0),
        ],
        "person bigint, town date, b boolean, x double",
    )
    public = {"town": ["2024-01-02", "2024-01-03"], "b": ["true", "false"]}
    found = totals(frame, group_by=["town", "b"], groups={"public": public})
    assert found["n.rows"] == [1, 1, 0, 1]  # (02, false), (02, true), (03, false), (03, true)


def test_names_with_odd_characters_are_columns_like_any_other(spark: SparkSession) -> None:
    frame = rows(spark, [("p", "a", 1.0)], "`per.son` string, `to``wn` string, `unit` double")
    found = totals(
        frame,
        unit={"column": "per.son", "on_null": "drop"},
        group_by=["to`wn"],
        queries=[{"name": "total", "kind": "sum", "column": "unit", "lower": 0, "upper": 10, "step": 1}],
    )
    assert found == {"total.sum": [1, 0, 0]}


# By type of the period column: values within 1 March 2024 in New York, and values that are not.
MOMENTS: dict[str, tuple[list[Any], list[Any]]] = {
    "date": ([date(2024, 3, 1)], [date(2024, 3, 2), date(2024, 2, 29), None]),
    "string": (["2024-03-01"], ["2024-02-29", "2024-03-02", "no date", "", None]),
    "timestamp": (
        [datetime(2024, 3, 1, 5, tzinfo=UTC), datetime(2024, 3, 2, 4, 59, 59, 999_999, tzinfo=UTC)],
        [datetime(2024, 3, 1, 4, 59, 59, 999_999, tzinfo=UTC), datetime(2024, 3, 2, 5, tzinfo=UTC), None],
    ),
    "timestamp_ntz": (
        [datetime(2024, 3, 1), datetime(2024, 3, 1, 23, 59, 59)],
        [datetime(2024, 3, 2), datetime(2024, 2, 29, 23, 59, 59), None],
    ),
}


@pytest.mark.parametrize("kind", MOMENTS)
def test_only_rows_of_the_period_count(spark: SparkSession, kind: str) -> None:
    inside, outside = MOMENTS[kind]
    values = [("p", "a", 1.0, moment) for moment in inside] + [("q", "a", 1.0, moment) for moment in outside]
    frame = rows(spark, values, f"person string, town string, x double, at {kind}")
    period = {"column": "at", "every": "day", "timezone": "America/New_York"}
    assert totals(frame, period=period)["n.rows"] == [len(inside), 0, 0]


def test_columns_that_cannot_serve_are_all_named(spark: SparkSession) -> None:
    frame = rows(spark, [([1], 1.5, True)], "person array<int>, town double, x boolean")
    spec = ReleaseSpec(**{**BASE, "period": {"column": "at", "every": "day"}})
    with pytest.raises(InputRefused) as refusal:
        check_columns(frame, spec)
    for part in (
        "unit.column = 'person'",
        "group_by[0] = 'town'",
        "queries[1].column = 'x'",
        "no such column",
    ):
        assert part in refusal.value.message


def test_the_bounding_key_stands_in_no_plan(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    from dp_spark.frames.aggregate import exact_totals
    from dp_spark.noise import derive_key

    spec = ReleaseSpec(**BASE)
    key = derive_key(KEY, "bounding")
    frame = rows(spark, [("p", "a", 1.0)], "person string, town string, x double")
    wanted = exact_totals(
        frame, plan=plan_release(spec), window=period_window(None, "2024-03-01"), bounding_key=key
    )
    wanted.explain("extended")
    plan = capsys.readouterr().out
    assert "MapInArrow" in plan
    for form in (key.hex(), str(key), str(list(key)), str(int.from_bytes(key, "big"))):
        assert form not in plan
    assert not [value for _, value in spark.sparkContext.getConf().getAll() if key.hex() in value]


def test_sums_beyond_64_bits_of_doubles_are_exact(spark: SparkSession) -> None:
    """2^53 + 1 is no double: sums of large integers show whether a double was ever added."""
    large = 2**30
    values = [(f"p{i}", "a", float(large - i % 2)) for i in range(20_000)]
    frame = rows(spark, values, "person string, town string, x double")
    queries = [{"name": "total", "kind": "sum", "column": "x", "lower": 0, "upper": large, "step": 1}]
    assert totals(frame, queries=queries)["total.sum"][0] == sum(int(value) for _, _, value in values)


def test_an_empty_input_gives_zero_everywhere(spark: SparkSession) -> None:
    frame = rows(spark, [], "person string, town string, x double")
    assert np.array(list(totals(frame).values())).sum() == 0


ROW_UNIT = {"unit": {"row": "true"}, "bounds": None}


@pytest.mark.parametrize("kind", SPECIAL)
def test_rows_as_units_give_special_values_the_same_meaning(spark: SparkSession, kind: str) -> None:
    """Spark's own expressions and the workers' arrays agree on every value, whichever adds up."""
    towns = [f"{i:02}" for i in range(len(SPECIAL[kind]))]
    values = [("p", town, value) for town, (value, _) in zip(towns, SPECIAL[kind], strict=True)] * 2
    found = totals(
        rows(spark, values, f"person string, town string, x {kind}"), groups={"public": towns}, **ROW_UNIT
    )
    steps = [steps for _, steps in SPECIAL[kind]]
    assert found["n.rows"] == found["people.units"] == [2] * len(towns)
    assert found["middle.values"] == [2 * int(step is not None) for step in steps]
    assert found["total.sum"] == [2 * (step or 0) for step in steps]
    assert found["middle.centred_sum"] == [2 * (2 * step - 20 if step is not None else 0) for step in steps]


def test_rows_as_units_are_not_bounded_and_sum_exactly_over_any_range(spark: SparkSession) -> None:
    large = 2**30
    values = [("p", "ab"[i % 2], float(large - i % 3)) for i in range(20_000)] + [("p", "a", None)]
    frame = rows(spark, values, "person string, town string, x double")
    queries = [{"name": "total", "kind": "sum", "column": "x", "lower": -large, "upper": large, "step": 1}]
    found = totals(frame, queries=[*queries, {"name": "n", "kind": "count"}], **ROW_UNIT)
    sums = [sum(int(x) for _, town, x in values if town == each and x is not None) for each in "ab"]
    assert found == {"total.sum": [*sums, 0], "n.rows": [10_001, 10_000, 0]}


# Texts of a group or a unit: those of one line are one, all others are told apart.
TEXTS = [
    ["caf\u00e9", "cafe\u0301"],
    ["cafe"],
    ["cafe "],
    ["CAFE"],
    ["\uac00", "\u1100\u1161"],
    [""],
    ["NULL"],
    ["NaN"],
    ["-0.0"],
    ["0.0"],
    ["a\0b"],
    ["a'b\"`;--"],
    ["\u0645\u0645"],
]


@pytest.mark.parametrize("unit", [{"unit": {"column": "person", "on_null": "drop"}}, ROW_UNIT])
def test_texts_of_groups_are_compared_in_nfc_and_nothing_else_is_folded(
    spark: SparkSession, unit: dict[str, Any]
) -> None:
    listed = [alike[0] for alike in TEXTS if alike[0].isprintable() and alike[0]]
    values = [(f"p{i}", text, 1.0) for i, alike in enumerate(TEXTS) for text in alike]
    values += [("q", other, 1.0) for other in ("caf\u00e9 ", "x" * 5000, "\u00e9" * 600, None)]
    frame = rows(spark, values, "person string, town string, x double")
    found = totals(frame, groups={"public": listed}, **unit)["n.rows"]
    sizes = {alike[0]: len(alike) for alike in TEXTS}
    assert found == [sizes[key] for key in sorted(listed)]


def test_texts_of_units_are_compared_in_nfc_and_nothing_else_is_folded(spark: SparkSession) -> None:
    long = ["y" * 4096, "y" * 4097, "y" * 4098, "\u00e9" * 2000, "y" * 200_000]
    texts = [text for alike in TEXTS for text in alike] + long
    frame = rows(spark, [(text, "a", 1.0) for text in texts * 2], "person string, town string, x double")
    found = totals(frame, bounds={"max_groups": 1, "max_rows_per_group": 1})
    assert found["n.rows"] == found["people.units"] == [len(TEXTS) + len(long), 0, 0]


def test_bytes_that_are_no_utf8_change_no_status(spark: SparkSession) -> None:
    values = [(b"\xff", b"a", 1.0), (b"\xfe", b"\xffa", 1.0), (b"\xff", b"a", 1.0), (b"e\xcc\x81", b"b", 1.0)]
    frame = rows(spark, values, "p binary, t binary, x double").selectExpr(
        "cast(p as string) person", "cast(t as string) town", "x"
    )
    found = totals(frame, bounds={"max_groups": 1, "max_rows_per_group": 1})
    assert found["n.rows"] == [1, 1, 0]


def test_a_unit_of_several_columns(spark: SparkSession) -> None:
    values = [("ab", "c", "a"), ("a", "bc", "a"), ("ab", "c", "a"), (None, "c", "a"), ("ab", None, "a")]
    frame = rows(
        spark, [(*each, 1.0) for each in values], "house string, person string, town string, x double"
    )
    found = totals(
        frame,
        unit={"columns": ["house", "person"], "on_null": "drop"},
        bounds={"max_groups": 1, "max_rows_per_group": 1},
    )
    assert found["people.units"] == found["n.rows"] == [2, 0, 0]


def test_a_unit_of_a_day_within_a_week(spark: SparkSession) -> None:
    moments = [datetime(2024, 3, day, hour, tzinfo=UTC) for day in (4, 5, 6) for hour in (4, 6, 23)]
    frame = rows(
        spark,
        [("p", "a", 1.0, each) for each in moments],
        "person string, town string, x double, at timestamp",
    )
    week = {"column": "at", "every": "week", "timezone": "America/New_York"}
    one = {"bounds": {"max_groups": 1, "max_rows_per_group": 1}, "period": week, "key": "2024-03-04"}
    unit = {"column": "person", "on_null": "drop"}
    # In New York, the first of these nine is on Sunday, 3 March, and out of the week.
    assert totals(frame, unit={**unit, "per": "day"}, **one)["n.rows"] == [3, 0, 0]
    assert totals(frame, unit=unit, **one)["n.rows"] == [1, 0, 0]
    assert totals(frame, unit={**unit, "per": "week"}, **one)["n.rows"] == [1, 0, 0]


def test_all_rows_of_a_unit_are_bounded(spark: SparkSession) -> None:
    values = [(f"p{i % 7}", "ab"[i % 2], float(i)) for i in range(700)]
    frame = rows(spark, values, "person string, town string, x double").repartition(5)
    assert sum(totals(frame, bounds={"max_rows": 3})["n.rows"]) == 21
    found = totals(frame, bounds={"max_groups": 2, "max_rows_per_group": 2, "max_rows": 3})
    assert sum(found["n.rows"]) == 21
    assert max(found["people.units"]) <= 7


def test_totals_of_units_are_clamped_after_they_are_added_up(spark: SparkSession) -> None:
    values: list[tuple[Any, ...]] = [
        *[("p", "a", 3.0)] * 4,  # 12, clamped to 10
        ("q", "a", 1e300),  # cut to 2^40 steps, clamped to 10
        ("q", "a", -1e300),  # and back: 0
        ("r", "a", -99.0),  # clamped to -5
        ("s", "a", None),  # no value: nothing
        ("s", "b", 4.0),
        ("t", "b", float("nan")),
    ]
    frame = rows(spark, values, "person string, town string, x double")
    query = {
        "name": "spent",
        "kind": "sum",
        "column": "x",
        "lower": -5,
        "upper": 10,
        "step": 1,
        "clamp": "unit",
    }
    assert totals(frame, queries=[query])["spent.sum"] == [10 + 0 - 5, 4, 0]


def test_a_unit_with_very_many_rows_or_groups_is_bounded_like_any_other(spark: SparkSession) -> None:
    """A tenth of a million rows of one unit, in a thousand groups, beside others."""
    frame = spark.range(120_000).selectExpr(
        "if(id < 100000, 'p', concat('q', id % 100)) person", "cast(id % 1000 as string) town", "1.0d x"
    )
    groups = {"public": [str(i) for i in range(1000)]}
    found = totals(frame, groups=groups, bounds={"max_groups": 7, "max_rows_per_group": 3})
    assert sum(found["people.units"]) == 7 + 700
    assert sum(found["n.rows"]) == 21 + 2100


@pytest.mark.usefixtures("forgetful_bounding")
def test_too_much_kept_is_never_added_up(spark: SparkSession) -> None:
    """Bounds that bounding is not told about: the second look stops the release."""
    frame = rows(spark, [("p", "ab"[i % 2], 1.0) for i in range(6)], "person string, town string, x double")
    assert totals(frame, bounds={"max_groups": 2, "max_rows_per_group": 3})["n.rows"] == [3, 3, 0]
    with pytest.raises(BoundsExceeded):
        totals(frame, bounds={"max_groups": 1, "max_rows_per_group": 3})


def test_bounding_costs_one_shuffle_of_packed_rows(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether or not units have several rows in a group: one exchange by bucket, one of groups' sums.

    Where a row is a unit, there is that of the plain query alone.
    """
    from dp_spark.frames.aggregate import exact_totals

    frame = rows(spark, [("p", "a", 1.0)], "person string, town string, x double")
    window = period_window(None, "2024-03-01")
    for changes, exchanges, hops in (({}, 2, 2), (ROW_UNIT, 1, 1)):
        plan = plan_release(ReleaseSpec(**{**BASE, **changes}))
        exact_totals(frame, plan=plan, window=window, bounding_key=KEY).explain()
        shown = capsys.readouterr().out
        assert (shown.count("Exchange hashpartitioning"), shown.count("MapInArrow")) == (exchanges, hops)


@pytest.mark.parametrize("unit", [{}, ROW_UNIT])
def test_columns_may_have_the_names_that_the_engine_uses(spark: SparkSession, unit: dict[str, Any]) -> None:
    values = [("p", "a", 5.0), ("q", "a", 7.0), ("r", "b", 1.0)]
    for name in ("key_0", "rows", "group", "unit_0", "VALUE_0", "${user.home}"):
        frame = rows(spark, values, f"person string, town string, `{name}` double")
        query = {"name": "total", "kind": "sum", "column": name, "lower": 0, "upper": 10, "step": 1}
        with pinned(spark):
            assert totals(frame, queries=[query], **unit)["total.sum"] == [12, 1, 0], name
