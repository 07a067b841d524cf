# ruff: noqa: E501, N812
"""Row expressions on real Spark: nothing fails on any value, whatever the settings, and means what Spark means."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

import pytest
from expression_fuzz import (
    COLUMNS,
    digests,
    every_call,
    hostile_rows,
    random_call,
    resolver,
    typed,
    values_of,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dp_spark.errors import InputRefused
from dp_spark.frames.collect import collect_totals
from dp_spark.frames.column_checks import check_columns
from dp_spark.frames.expressions import with_derived
from dp_spark.frames.session import pinned
from dp_spark.release.expressions import Kind, compiled, parse_expression
from dp_spark.release.expressions.functions import FUNCTIONS
from dp_spark.release.period import period_window
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

SECRET = "SECRETPERSON"
BASE: dict[str, Any] = {
    "release": "trial",
    "input": {"format": "parquet", "path": "in"},
    "unit": {"column": "t", "on_null": "drop"},
    "bounds": {"max_groups": 5, "max_rows_per_group": 5},
    "group_by": ["t"],
    "groups": {"public": ["a", "b"]},
    "guarantee": {"epsilon": 1, "delta": "1e-6"},
    "queries": [{"name": "n", "kind": "count"}],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}
# Of all values of every function, operator and cast over the hostile rows: the same on Spark 3.5, 4.0 and 4.3.
EVERY_LINE = "32716fa2024b54c2"


@pytest.fixture(scope="module")
def hostile(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    with pinned(spark):
        rows = hostile_rows(spark, tmp_path_factory.mktemp("hostile")).cache()
        yield rows
        rows.unpersist()


@contextmanager
def settings(spark: SparkSession, **changes: str) -> Iterator[None]:
    named = {f"spark.sql.{key.replace('__', '.')}": value for key, value in changes.items()}
    before = {key: spark.conf.get(key) for key in named}
    for key, value in named.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def in_parts(frame: DataFrame, nodes: list[Any]) -> list[str]:
    """Digests, a part at a time: one plan of all would be slow to compile."""
    made = typed(frame, nodes)
    return [each for i in range(0, len(made), 60) for each in digests(values_of(frame, made[i : i + 60]))]


def test_every_function_gives_the_same_on_every_line_and_in_every_mode(
    spark: SparkSession, hostile: DataFrame
) -> None:
    nodes = list(every_call())
    strict = in_parts(hostile, nodes)
    with settings(
        spark, ansi__enabled="false", codegen__wholeStage="false", codegen__factoryMode="NO_CODEGEN"
    ):
        lenient = in_parts(hostile, nodes)
    differing = [node for node, one, other in zip(nodes, strict, lenient, strict=True) if one != other]
    assert not differing
    assert digests([tuple(strict)]) == [EVERY_LINE]


def test_the_fuzz_would_notice(hostile: DataFrame) -> None:
    for raw in (
        "w + v",
        "w div v",
        "CAST(t AS INT)",
        "t > 5",
        "hour(t)",
        "abs(w)",
        "d + int(w)",
        "CAST(d AS TIMESTAMP)",
    ):
        with pytest.raises(Exception, match=r"\S"):  # Java's own overflow among them
            hostile.select(F.expr(raw).alias("x")).collect()


def test_nested_expressions_do_not_fail_either(spark: SparkSession, hostile: DataFrame) -> None:
    draw = random.Random(7)
    nodes = [random_call(draw, kind, 3) for kind in Kind for _ in range(12)]
    made = [each for each in typed(hostile, nodes) if len(each.sql) < 20_000]
    assert len(made) > 50
    strict = digests(values_of(hostile, made))
    with settings(spark, ansi__enabled="false", codegen__wholeStage="false"):
        assert digests(values_of(hostile, made)) == strict


def test_no_null_and_no_nan_gets_past_a_default(hostile: DataFrame) -> None:
    sqls = {
        "speed": ("n / (m / 60)", "0.5"), "root": ("sqrt(n)", 0), "code": ("try_cast(t AS BIGINT)", -1), "same": ("n", 0),
        "hour": ("string(hour(s))", "none"), "day": ("date_add(d, w)", "1900-01-01"), "long": ("length(t) > 3", False),
        "when_": ("try_cast(t AS TIMESTAMP)", "1900-01-01 00:00:00"), "never": ("CASE WHEN false THEN 1 END", 7),
    }  # fmt: skip
    derive = {name: {"sql": sql, "default": default} for name, (sql, default) in sqls.items()}
    spec = ReleaseSpec(**BASE, derive=derive)
    check_columns(hostile, spec)
    frame = with_derived(hostile, spec)
    failed = [F.sum(F.col(name).isNull().cast("int")) for name in derive]
    failed += [F.sum(F.isnan(name).cast("int")) for name in ("speed", "root", "same")]
    assert set(frame.agg(*failed).collect()[0]) == {0}
    assert frame.where("never <> 7").count() == 0


def test_rows_for_which_where_is_not_true_count_nowhere(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1), ("a", 2), ("b", None), ("b", 3)], "t string, x int")
    spec = ReleaseSpec(**BASE, where="x + double_x > 3", derive={"double_x": {"sql": "x * 2", "default": 0}})
    with pinned(spark):
        assert sorted(row.x for row in with_derived(frame, spec).collect()) == [2, 3]


def test_a_release_groups_by_and_adds_up_derived_columns(spark: SparkSession) -> None:
    rows = [
        ("p", "2013-01-05 07:30:00", 10, 2),
        ("q", "2013-01-05 07:59:00", 10, 0),
        ("r", "bad", 9, 1),
        ("s", None, 1, 1),
    ]
    frame = spark.createDataFrame(rows, "t string, at string, far int, long int")
    spec = ReleaseSpec(
        **{
            **BASE,
            "derive": {
                "hour": {"sql": "string(hour(try_cast(at AS timestamp)))", "default": "none"},
                "speed": {"sql": "far / long", "default": 1},
            },
            "where": "t <> 's'",
            "group_by": ["hour"],
            "groups": {"public": ["7", "none"]},
            "queries": [
                {"name": "n", "kind": "count"},
                {"name": "speed", "kind": "sum", "column": "speed", "lower": 0, "upper": 100, "step": 1},
            ],
        }
    )
    with pinned(spark):
        check_columns(frame, spec)
        plan = plan_release(spec)
        found = collect_totals(
            frame, plan=plan, window=period_window(None, "2024-03-01"), release_key=bytes(32)
        )
    assert [sums.tolist() for sums in found] == [[2, 1], [6, 9]]


def refusal(frame: DataFrame, **changes: Any) -> str:
    with pytest.raises(InputRefused) as caught:
        check_columns(frame, ReleaseSpec(**{**BASE, **changes}))
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"where": "nmae = 'x'"}, "where: reads 'nmae': no such column; did you mean 'name'?"),
        ({"where": "T = 'x'"}, "where: reads 'T': no such column; did you mean 't'?"),
        ({"where": "place.zap = 1"}, "reads 'place.zap': no such column; did you mean 'zip'?"),
        ({"where": "name"}, "where: is a text, not a condition"),
        ({"where": "name > 5"}, "where: mixes text and whole number"),
        ({"where": "list IS NULL"}, "reads 'list', a array<int>"),
        ({"where": "raw = 'a'"}, "reads 'raw', a binary"),
        ({"derive": {"x": {"sql": "len", "default": "none"}}}, "derive.x.default = 'none': is no whole number"),
        ({"derive": {"x": {"sql": "len", "default": "1.5"}}}, "derive.x.default = '1.5': is no whole number"),
        ({"derive": {"x": {"sql": "len / 2", "default": "inf"}}}, "derive.x.default = 'inf': is no number"),
        ({"derive": {"x": {"sql": "day", "default": "2013-02-30"}}}, "is no date"),
        ({"derive": {"x": {"sql": "len > 1", "default": 1}}}, "is no boolean"),
        ({"derive": {"x": {"sql": "NULL", "default": 1}}}, "derive.x.sql: is always NULL"),
        ({"derive": {"Name": {"sql": "1", "default": 1}}}, "derive.Name: is also a column of the input"),
        ({"derive": {"x": {"sql": "name || len", "default": "a"}}}, "'concat' takes (text, ...)"),
        ({"derive": {"x": {"sql": "len / 2", "default": 1}}, "group_by": ["x"]}, "group_by[0] = 'x': is double"),
        ({"derive": {"x": {"sql": "nope", "default": 1}}, "group_by": ["x"]}, "derive.x: reads 'nope'"),
    ],
)  # fmt: skip
def test_an_expression_that_does_not_fit_the_columns_is_refused(
    spark: SparkSession, changes: dict[str, Any], words: str
) -> None:
    schema = "t string, name string, len int, day date, list array<int>, raw binary, place struct<zip: int>"
    assert words in refusal(spark.createDataFrame([], schema), **changes)


def test_names_of_a_csv_are_not_told(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], f"t string, {SECRET} string")
    csv = {"input": {"format": "csv", "path": "in"}}
    assert "no such column" in refusal(frame, **csv, where="SECRETPERSOM = 'x'")


def test_a_collated_text_is_refused(spark: SparkSession) -> None:
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no collations")
    frame = spark.createDataFrame([], "t string, c string collate UNICODE_CI")
    assert "reads 'c'" in refusal(frame, where="c = 'x'")


SAME_AS_SPARK = [
    "w + v * 2 - 1", "(w + v) * -2", "w / v", "w % v", "-w % v", "mod(w, v)", "pmod(w, v)", "w div v", "abs(-n)", "round(n, 1)", "round(n)",
    "floor(n)", "ceil(n)", "sqrt(n)", "pow(n, 2)", "log(2, n)", "ln(n)", "log10(n)", "sign(n)", "greatest(n, m)", "least(w, v)", "atan2(n, m)",
    "upper(t)", "lower(t)", "trim(t)", "ltrim(t)", "rtrim(t)", "length(t)", "concat(t, '-', u)", "t || u || 'x'", "concat_ws('-', t, u)",
    "substring(t, 2, 3)", "substr(t, -2)", "left(t, 2)", "right(t, 2)", "replace(t, 'a', 'bb')", "translate(t, 'ab', 'x')", "lpad(t, 6, '*')",
    "rpad(t, 2, '*')", "reverse(t)", "ascii(t)", "instr(t, 'a')", "locate('a', t)", "contains(t, u)", "startswith(t, 'a')", "endswith(t, 'a')",
    "split_part(t, 'a', 1)", "substring_index(t, 'a', 1)", "t LIKE 'a%'", "t LIKE '%b_%'", "t NOT LIKE 'a'", "t ILIKE 'A%'", "t RLIKE '^a+'",
    "regexp_replace(t, 'a', 'x')", "regexp_extract(t, '(.)a', 1)", "year(d)", "quarter(d)", "month(d)", "day(d)", "dayofweek(d)", "weekday(d)",
    "dayofyear(d)", "weekofyear(d)", "hour(s)", "minute(s)", "second(s)", "date_add(d, 3)", "date_sub(d, 2)", "datediff(d, e)",
    "add_months(d, -1)", "months_between(d, e)", "last_day(d)", "next_day(d, 'MO')", "trunc(d, 'MONTH')", "date_trunc('HOUR', s)",
    "date_format(s, 'yyyy-MM HH')", "unix_date(d)", "unix_seconds(s)", "timestamp_seconds(w)", "date_from_unix_date(w)", "d < e", "d >= '2013-02-01'",
    "s > '2013-01-01 10:00:00'", "d = date '2013-02-28'", "w = v AND n > m OR b", "NOT w = v", "NOT b AND c", "w BETWEEN 1 AND 5 AND b",
    "w NOT BETWEEN 1 AND v", "w IN (1, 2, NULL)", "w NOT IN (1, v)", "w IS NULL OR b IS NOT TRUE", "b IS FALSE", "w <=> v", "w IS DISTINCT FROM v",
    "w = v IS NULL", "w < v IS NOT NULL", "b IS NOT DISTINCT FROM w = v", "CASE WHEN w > v THEN 'more' WHEN w = v THEN 'same' END",
    "CASE t WHEN 'ab' THEN 1 ELSE 2 END", "if(b, w, v)", "coalesce(w, v, 0)", "nvl(n, m)", "nvl2(b, w, v)", "nullif(w, v)", "isnull(w)",
    "CAST(n AS BIGINT)", "CAST(w AS STRING)", "bigint(b)", "CAST(d AS STRING)", "CAST(s AS DATE)", "CAST(s AS STRING)", "w == v", "w != v",
    "!b OR c", "1.5e1 + n", "2 - -w", "w * 10 / 4", "octet_length(t)", "width_bucket(n, 0, 10, 5)", "nanvl(n, m)", "hypot(n, m)", "w > 1.5",
]  # fmt: skip


def test_an_expression_means_what_spark_means_by_it(spark: SparkSession) -> None:
    day, moment = date(2013, 2, 28), datetime(2013, 2, 28, 10, 30, 15)
    rows = [
        (" abca", "a", 7, 2, 2.25, 1.0, True, False, day, date(2013, 1, 31), moment),
        (
            "ab",
            "ab",
            2,
            2,
            8.0,
            3.5,
            False,
            True,
            date(2012, 12, 31),
            day,
            datetime(2012, 12, 31, 23, 59, 59),
        ),
        ("Ba ", "x", 5, 3, 0.5, 4.0, True, None, date(2000, 2, 29), day, datetime(2000, 2, 29)),
        (None, None, None, None, None, None, None, None, None, None, None),
    ]
    schema = "t string, u string, w bigint, v bigint, n double, m double, b boolean, c boolean, d date, e date, s timestamp"
    with pinned(spark), settings(spark, ansi__enabled="false"):
        frame = spark.createDataFrame(rows, schema)
        columns = resolver(frame)
        ours = [compiled(parse_expression(text), columns.__getitem__) for text in SAME_AS_SPARK]
        made = frame.select(*(F.expr(each.sql).alias(f"x{i}") for i, each in enumerate(ours))).collect()
        plain = frame.select(*(F.expr(text).alias(f"x{i}") for i, text in enumerate(SAME_AS_SPARK))).collect()
    differing = [
        (text, own, theirs)
        for text, own, theirs in zip(
            SAME_AS_SPARK, zip(*made, strict=True), zip(*plain, strict=True), strict=True
        )
        if [None if x is None else str(x) for x in own] != [None if x is None else str(x) for x in theirs]
        and [None if x is None else float(x) for x in own]
        != [None if x is None else float(x) for x in theirs]
    ]
    assert not differing


def test_every_function_is_compared_with_hostile_rows() -> None:
    called = {node.function for node in every_call() if hasattr(node, "function")}
    assert called >= set(FUNCTIONS)
    assert set(COLUMNS) == set(Kind)


def test_no_pattern_takes_long_on_a_long_text(spark: SparkSession) -> None:
    patterns = [
        "t RLIKE '^.*a.*b$'",
        "t RLIKE 'a+b'",
        "t LIKE '%a%a%a%a%a%a%b%a'",
        "t RLIKE '(a|b)a{1,9}a{1,9}c'",
    ]
    with pinned(spark):
        frame = spark.range(4).selectExpr("repeat('a', 1000000) AS t")
        columns = resolver(frame)
        made = [F.expr(compiled(parse_expression(text), columns.__getitem__).sql) for text in patterns]
        before = time.monotonic()
        assert frame.where(made[0] | made[1] | made[2] | made[3]).count() == 0
    assert time.monotonic() - before < 60


def test_a_time_without_a_day_is_not_one_of_today(hostile: DataFrame) -> None:
    columns = resolver(hostile)
    made = compiled(parse_expression("try_cast(t AS TIMESTAMP)"), columns.__getitem__)
    years = (
        hostile.where(F.col("t").contains("12:30")).select(F.expr(f"year({made.sql})").alias("y")).distinct()
    )
    assert [row.y for row in years.collect()] == [None]
