"""Public groups from a table: its keys as texts, those valid at the period's end, and no private table."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dp_spark.errors import InputRefused
from dp_spark.frames import groups as module
from dp_spark.frames.groups import table_keys
from dp_spark.frames.session import pinned
from dp_spark.release.ledger import source_name
from dp_spark.release.period import PeriodWindow, period_window
from dp_spark.release.spec import PeriodSpec, ReleaseSpec

MARCH = period_window(PeriodSpec(column="at", every="month", timezone="Europe/Berlin"), "2024-03-01")
PERIOD_END = {"as_of": "period_end", "valid_from": "since"}
SINCE = "DATE '2024-01-01'"


def spec(table: dict[str, Any], *columns: str, **groups: Any) -> ReleaseSpec:
    return ReleaseSpec(
        release="visits",
        unit={"row": True},
        group_by=list(columns or ["town"]),
        groups={"public_table": table, **groups},
        guarantee={"epsilon": 1, "delta": "1e-6"},
        queries=[{"name": "visits", "kind": "count"}],
        budget={"population": "people"},
        publish=[{"sink": "parquet", "path": "out"}],
    )


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with pinned(spark):
        yield spark
    for name in ("towns", "deeper", "people"):
        spark.catalog.dropTempView(name)


def keys(
    spark: SparkSession, asked: ReleaseSpec, window: PeriodWindow = MARCH, private: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], ...]:
    return table_keys(spark, asked, window, private)


def refused(code: str, spark: SparkSession, asked: ReleaseSpec, *private: str) -> str:
    with pytest.raises(InputRefused) as refusal:
        keys(spark, asked, private=private)
    assert refusal.value.code == code
    return refusal.value.message


def towns(spark: SparkSession, *rows: str, columns: str = "town, since, until") -> None:
    spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t({columns})").createOrReplaceTempView("towns")


def test_the_distinct_keys_are_texts_as_the_engine_casts_them(session: SparkSession) -> None:
    day = "DATE '2024-03-01'"
    rows = [
        f"('b', 10, {day}, 1)",
        f"('b', 10, {day}, 2)",
        f"('b', 9, {day}, 3)",
        f"('e\u0301', 9, {day}, 4)",
    ]
    towns(session, *rows, f"('\u00e9', 9, {day}, 5)", columns="town, n, day, x")
    assert keys(session, spec({"table": "towns"}, "day", "town", "n")) == (
        ("2024-03-01", "b", "10"),
        ("2024-03-01", "b", "9"),
        ("2024-03-01", "\u00e9", "9"),
    )


@pytest.mark.parametrize(
    ("until", "counts"),
    [
        ("CAST(NULL AS DATE)", True),
        ("DATE '2024-03-31'", False),
        ("DATE '2024-04-01'", True),
        ("TIMESTAMP '2024-03-31 21:59:59'", False),  # in Berlin still March
        ("TIMESTAMP '2024-03-31 22:00:00'", True),
        ("'2024-04-01'", True),
        ("'no date'", False),
    ],
)
def test_a_row_counts_if_its_end_is_none_or_after_the_last_day(
    session: SparkSession, until: str, counts: bool
) -> None:
    towns(session, f"('a', {SINCE}, {until})", f"('z', {SINCE}, NULL)")
    found = keys(session, spec({"table": "towns", **PERIOD_END, "valid_to": "until"}))
    assert found == ((("a",), ("z",)) if counts else (("z",),))


@pytest.mark.parametrize(
    ("since", "counts"),
    [("DATE '2024-03-31'", True), ("DATE '2024-04-01'", False), ("CAST(NULL AS DATE)", False)],
)
def test_a_row_counts_if_it_began_on_the_last_day_or_before(
    session: SparkSession, since: str, counts: bool
) -> None:
    towns(session, f"('a', {since}, 1)", f"('z', {SINCE}, 1)")
    found = keys(session, spec({"table": "towns", **PERIOD_END}))
    assert found == ((("a",), ("z",)) if counts else (("z",),))


def test_without_as_of_all_rows_count(session: SparkSession) -> None:
    towns(session, "('a', DATE '2030-01-01', DATE '2031-01-01')")
    assert keys(session, spec({"table": "towns"})) == (("a",),)


def test_a_null_is_refused_or_is_its_label(session: SparkSession) -> None:
    towns(session, "('a', 1, 1)", "(NULL, 1, 1)")
    assert "NULL in column 'town'" in refused("groups_null", session, spec({"table": "towns"}))
    assert keys(session, spec({"table": "towns"}, null_label="?")) == (("?",), ("a",))


def test_a_table_that_cannot_serve_is_refused(session: SparkSession) -> None:
    assert "TABLE_OR_VIEW_NOT_FOUND" in refused("groups_not_readable", session, spec({"table": "nowhere"}))
    towns(session, "(0.5D, 1, TRUE)")
    told = refused("groups_columns", session, spec({"table": "towns"}, "town", "twon"))
    assert "group_by[0] = 'town': is double" in told
    assert "group_by[1] = 'twon': no such column; did you mean 'town'?" in told
    told = refused("groups_columns", session, spec({"table": "towns", **PERIOD_END}, "until"))
    assert "groups.public_table.valid_from = 'since': is int" in told
    session.sql("SELECT 'a' AS town WHERE false").createOrReplaceTempView("towns")
    refused("groups_empty", session, spec({"table": "towns"}))


def test_no_more_keys_are_fetched_than_show_that_there_are_too_many(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dp_spark.release import listing

    for each in (module, listing):
        monkeypatch.setattr(each, "MAX_GROUP_KEYS", 100)
    session.range(100).selectExpr("CAST(id AS STRING) AS town").createOrReplaceTempView("towns")
    assert len(keys(session, spec({"table": "towns"}))) == 100
    session.range(500).selectExpr("id AS town").createOrReplaceTempView("deeper")
    refused("groups_too_many", session, spec({"table": "deeper"}))


def test_a_table_of_private_files_is_refused_through_views_and_links(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = tmp_path / "our rows"
    for part in ("day=1", "day=2"):
        (rows / part).mkdir(parents=True)
        pq.write_table(pa.table({"town": ["a"], "person": ["p"]}), rows / part / "0.parquet")
    (tmp_path / "link").symlink_to(rows)
    session.read.parquet(f"file:{tmp_path}/link").createOrReplaceTempView("people")
    session.sql("SELECT town FROM people GROUP BY town").createOrReplaceTempView("towns")
    session.sql("SELECT 'b' AS town UNION ALL SELECT town FROM towns").createOrReplaceTempView("deeper")
    for table in ("people", "towns", "deeper", f"parquet.`file:{rows}`"):
        for source in (rows, rows / "day=2", rows / "day=2" / "0.parquet", tmp_path):
            told = refused("groups_from_private_source", session, spec({"table": table}), str(source))
            assert "public_table" in told
        assert keys(session, spec({"table": table}), private=(str(tmp_path / "our"),))[0] == ("a",)


def test_a_table_whose_name_is_a_source_is_refused(session: SparkSession) -> None:
    towns(session, "('a', 1, 1)")
    for source in ("towns", source_name("towns")):
        refused("groups_from_private_source", session, spec({"table": "`towns`"}), source)


def test_what_spark_says_of_a_failure_is_withheld(session: SparkSession) -> None:
    day = dt.date(2024, 3, 1)
    frame = session.createDataFrame([("secret", day)], "town string, since date")
    frame.selectExpr("CAST(CAST(town AS INT) AS STRING) AS town").createOrReplaceTempView("towns")
    told = refused("groups_not_readable", session, spec({"table": "towns"}))
    assert "secret" not in told
