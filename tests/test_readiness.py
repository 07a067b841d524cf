"""What has to be there, and over, before a period is charged for."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dp_spark.errors import InputRefused, SpecRefused
from dp_spark.frames.rows import Rows
from dp_spark.notebook import Release
from dp_spark.pipeline.readiness import require_fresh, require_over, require_ready
from dp_spark.release.period import period_window
from dp_spark.release.spec import ReleaseSpec, parse_spec

BASE: dict[str, Any] = {
    "release": "visits",
    "input": {"format": "parquet", "path": "in"},
    "period": {"column": "at", "every": "day", "timezone": "America/New_York"},
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 1, "max_rows_per_group": 1},
    "group_by": ["town"],
    "groups": {"public": ["a"]},
    "guarantee": {"epsilon": 1, "delta": "1e-6"},
    "queries": [{"name": "n", "kind": "count"}],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}


def spec(*paths: str) -> ReleaseSpec:
    return ReleaseSpec(**BASE, ready={"exists": list(paths)})


def test_a_path_and_a_list_of_one_are_one_spec_and_without_it_nothing_is_written() -> None:
    one = ReleaseSpec(**BASE, ready={"exists": "in/date={key}/_SUCCESS"})
    assert one == spec("in/date={key}/_SUCCESS")
    assert parse_spec(one.canonical_json()) == one
    assert "ready" not in json.loads(ReleaseSpec(**BASE).canonical_json())
    said = Release(ReleaseSpec(**BASE)).ready(exists="in/date={key}/_SUCCESS")
    assert said.spec == one


@pytest.mark.parametrize("path", ["in/{day}/x", "in/{key", "in/{}", "in/{key}}"])
def test_nothing_else_stands_in_braces(path: str) -> None:
    with pytest.raises(SpecRefused, match=r"ready\.exists"):
        spec(path)


def test_every_path_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = spec("in/{key}/_SUCCESS", f"file://{tmp_path}/also {{key}}")
    (tmp_path / "in" / "2024-03-01").mkdir(parents=True)
    for place in ("in/2024-03-01/_SUCCESS", "also 2024-03-01"):
        with pytest.raises(InputRefused) as refusal:
            require_ready(asked, "2024-03-01")
        assert refusal.value.code == "input_not_ready"
        assert place in refusal.value.message
        (tmp_path / place).touch()
    require_ready(asked, "2024-03-01")


def test_a_store_that_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="cannot be asked for") as refusal:
        require_ready(spec("nowhere://bucket/{key}"), "2024-03-01")
    assert refusal.value.code == "input_not_ready"


@pytest.mark.parametrize("age", ["36", "1.5h", "0h", "-2h", "3 h", "2w", "100000h"])
def test_an_age_is_whole_hours_or_days(age: str) -> None:
    with pytest.raises(SpecRefused, match=r"ready\.newer_than"):
        ReleaseSpec(**BASE, ready={"newer_than": age})


def test_ready_asks_for_something() -> None:
    with pytest.raises(SpecRefused, match="ready: asks for nothing"):
        ReleaseSpec(**BASE, ready={})


@pytest.mark.parametrize(
    "source",
    [
        {"format": "table", "table": "db.visits"},
        {"format": "jdbc", "table": "visits", "connection": "w"},
        None,
    ],
)
def test_an_age_that_nobody_can_tell_is_refused_with_the_spec(source: dict[str, str] | None) -> None:
    without = {key: each for key, each in BASE.items() if key != "input"}
    with pytest.raises(SpecRefused, match=r"ready\.newer_than"):
        ReleaseSpec(**{**without, **({"input": source} if source else {})}, ready={"newer_than": "6h"})


def test_rows_have_to_be_new_where_the_spec_says_so(tmp_path: Path) -> None:
    asked = ReleaseSpec(
        **{**BASE, "input": {"format": "parquet", "path": str(tmp_path)}}, ready={"newer_than": "2d"}
    )
    assert Release(ReleaseSpec(**BASE)).ready(newer_than="2d").spec.ready == asked.ready
    assert parse_spec(asked.canonical_json()) == asked
    now = dt.datetime.now(dt.UTC)
    assert stale(asked, now).endswith("it has no rows")
    (tmp_path / "rows.parquet").touch()
    require_fresh(asked, rows_of(asked), now + dt.timedelta(hours=47))
    assert stale(asked, now + dt.timedelta(hours=49)).endswith("its newest rows are 2 days old")
    require_fresh(asked, rows_of(asked), now - dt.timedelta(minutes=50))  # clocks differ
    assert "written 2 days from now" in stale(asked, now - dt.timedelta(hours=49))


def test_a_store_that_does_not_say_when_is_not_fresh() -> None:
    asked = ReleaseSpec(
        **{**BASE, "input": {"format": "parquet", "path": "nowhere://bucket/in"}}, ready={"newer_than": "2d"}
    )
    assert "cannot be asked" in stale(asked, dt.datetime.now(dt.UTC))


def stale(asked: ReleaseSpec, now: dt.datetime) -> str:
    with pytest.raises(InputRefused) as refusal:
        require_fresh(asked, rows_of(asked), now)
    assert refusal.value.code == "input_stale"
    return refusal.value.message


def rows_of(asked: ReleaseSpec) -> Rows:
    def no_spark() -> SparkSession:
        raise AssertionError("nothing of this is asked of Spark")

    return Rows(asked.input, "a test", no_spark, None, one_machine=True)


def test_a_period_is_over_when_its_last_day_ends_in_its_own_time_zone() -> None:
    window = period_window(spec("x").period, "2024-03-01")
    end = dt.datetime(2024, 3, 2, 5, tzinfo=dt.UTC)  # midnight in New York
    with pytest.raises(InputRefused) as refusal:
        require_over(spec("x"), window, end - dt.timedelta(microseconds=1))
    assert refusal.value.code == "period_not_over"
    require_over(spec("x"), window, end)


def test_without_periods_the_key_is_a_date_of_ones_own() -> None:
    whole = ReleaseSpec(**{**BASE, "period": None})
    require_over(whole, period_window(None, "2999-01-01"), dt.datetime(2024, 3, 1, tzinfo=dt.UTC))
