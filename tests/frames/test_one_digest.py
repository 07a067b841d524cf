"""The same release, evaluated in any way, has the same bytes; neighbours look alike but for the numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from dp_spark.frames.collect import collect_totals
from dp_spark.frames.privatize import estimates, noisy_totals
from dp_spark.publish import artefact_digest, released_table
from dp_spark.release.period import PeriodWindow, period_window
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

KEY, START = bytes(range(32)), date(2024, 3, 4)
SPEC = ReleaseSpec(
    release="trial",
    input={"format": "parquet", "path": "in"},
    period={"column": "at", "every": "week", "timezone": "Europe/Berlin"},
    unit={"column": "person", "on_null": "drop"},
    bounds={"max_groups": 2, "max_rows_per_group": 3},
    group_by=["town", "kind"],
    groups={"public": {"town": ["a", "b", "c"], "kind": ["x", "y", "z"]}},
    guarantee={"epsilon": 1, "delta": "1e-6"},
    queries=[
        {"name": "n", "kind": "count"},
        {"name": "total", "kind": "sum", "column": "v", "lower": -10, "upper": 20},
        {"name": "middle", "kind": "mean", "column": "v", "lower": -10, "upper": 20},
        {"name": "people", "kind": "ids"},
    ],
    budget={"population": "p"},
    publish=[{"sink": "parquet", "path": "out"}],
)


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_release(SPEC)


@pytest.fixture(scope="module")
def window() -> PeriodWindow:
    return period_window(SPEC.period, START.isoformat())


def some_rows() -> list[tuple[Any, ...]]:
    """Six hundred rows of forty people, far over the bounds, with duplicates, NULLs, NaN and days outside."""
    rng = np.random.default_rng(5)
    rows: list[tuple[Any, ...]] = []
    for i in range(600):
        person = None if i % 50 == 0 else f"person {rng.integers(40)}"
        value = None if i % 31 == 0 else float("nan") if i % 37 == 0 else float(np.round(rng.normal(5, 9), 1))
        day = START + timedelta(days=int(rng.integers(-1, 8)))
        rows.append((person, "abcd"[rng.integers(4)], "xyz"[rng.integers(3)], value, day))
    return rows + rows[:60]


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, "person string, town string, kind string, v double, at date")


def digest(frame: DataFrame, plan: ReleasePlan, window: PeriodWindow, key: bytes = KEY) -> str:
    exact = collect_totals(frame, plan=plan, window=window, release_key=key)
    noisy = noisy_totals(exact, plan=plan, window=window, release_key=key)
    table = released_table(
        plan, estimates(noisy, plan), period_start=window.start, release_id="p/trial/x/0", revision=0
    )
    return artefact_digest(table)


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    yield
    spark.conf.set(key, before)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, plan: ReleasePlan, window: PeriodWindow) -> str:
    return digest(frame_of(spark, some_rows()), plan, window)


def test_a_second_evaluation(
    spark: SparkSession, plan: ReleasePlan, window: PeriodWindow, expected: str
) -> None:
    frame = frame_of(spark, some_rows())
    assert digest(frame, plan, window) == digest(frame, plan, window) == expected


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_any_number_of_partitions(
    spark: SparkSession, plan: ReleasePlan, window: PeriodWindow, expected: str, partitions: int
) -> None:
    with setting(spark, "spark.sql.shuffle.partitions", str(partitions)):
        assert digest(frame_of(spark, some_rows()).repartition(partitions), plan, window) == expected


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_adaptive_execution_on_and_off(
    spark: SparkSession, plan: ReleasePlan, window: PeriodWindow, expected: str, adaptive: str
) -> None:
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        assert digest(frame_of(spark, some_rows()), plan, window) == expected


def test_rows_in_another_order_and_after_cache_eviction(
    spark: SparkSession, plan: ReleasePlan, window: PeriodWindow, expected: str
) -> None:
    cached = frame_of(spark, some_rows()[::-1]).cache()
    assert digest(cached, plan, window) == expected
    cached.unpersist(blocking=True)
    assert digest(cached, plan, window) == expected


def test_ansi_mode_off(spark: SparkSession, plan: ReleasePlan, window: PeriodWindow, expected: str) -> None:
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        assert digest(frame_of(spark, some_rows()), plan, window) == expected


def test_another_key_gives_other_bytes(
    spark: SparkSession, plan: ReleasePlan, window: PeriodWindow, expected: str
) -> None:
    assert digest(frame_of(spark, some_rows()), plan, window, key=bytes(32)) != expected


def test_a_person_less_changes_no_schema_no_group_and_no_unrelated_choice(
    spark: SparkSession, plan: ReleasePlan, window: PeriodWindow
) -> None:
    rows = some_rows()
    without = [row for row in rows if row[0] != "person 7"]
    exact = [
        collect_totals(frame_of(spark, each), plan=plan, window=window, release_key=KEY)
        for each in (rows, without)
    ]
    tables = [
        released_table(
            plan,
            estimates(noisy_totals(each, plan=plan, window=window, release_key=KEY), plan),
            period_start=window.start,
            release_id="p/trial/x/0",
            revision=0,
        )
        for each in exact
    ]
    assert tables[0].schema.equals(tables[1].schema, check_metadata=True)
    assert tables[0].select(["town", "kind"]) == tables[1].select(["town", "kind"])
    for drawn, before, after in zip(plan.drawn, *exact, strict=True):
        moves = np.abs(before - after)
        assert np.count_nonzero(moves) <= plan.bounds.most_groups
        assert moves.max() <= drawn.planned.total.sensitivity


def no_rows(plan: ReleasePlan) -> list[NDArray[np.int64]]:
    return [np.zeros(9, dtype=np.int64) for _ in plan.drawn]


def test_changed_data_gives_independent_noise(plan: ReleasePlan, window: PeriodWindow) -> None:
    """The same key on totals that differ in one cell: the noise of every cell is drawn anew."""
    zeros, other = no_rows(plan), no_rows(plan)
    other[0][0] = 1
    noise, again = (noisy_totals(each, plan=plan, window=window, release_key=KEY) for each in (zeros, other))
    assert np.mean(np.array(noise) == np.array(again)) < 0.2


def test_absent_groups_and_totals_have_noise_of_their_own(plan: ReleasePlan, window: PeriodWindow) -> None:
    noise = [each.tolist() for each in noisy_totals(no_rows(plan), plan=plan, window=window, release_key=KEY)]
    assert len({tuple(row) for row in noise}) == len(noise)
    assert all(len(set(row)) > 5 for row in noise)


def test_bins_and_coarser_groups_have_noise_of_their_own(window: PeriodWindow) -> None:
    """And a real text that reads like a total's label is another group than the total."""
    bins = {"kind": "histogram", "column": "v", "edges": {"start": 0, "stop": 40, "step": 1}}
    groups = {"public": [["a", "x"], ["a", "all"], ["all", "x"], ["all", "all"]], "total_label": "(all)"}
    spec = SPEC.model_copy(update={"rollup": (("town",), ())})
    spec = ReleaseSpec(
        **{**spec.model_dump(exclude={"groups", "queries"}), "groups": groups},
        queries=[{"name": "n", "kind": "count"}, {"name": "shape", **bins}],
    )
    plan = plan_release(spec)
    zeros = [
        np.zeros((len(plan.levels[each.level].keys), each.planned.total.bins), dtype=np.int64).squeeze(
            axis=() if each.planned.total.bins > 1 else 1
        )
        for each in plan.drawn
    ]
    noise = noisy_totals(zeros, plan=plan, window=window, release_key=KEY)
    cells = [tuple(row) for each in noise for row in np.atleast_2d(each.T).tolist() if len(row) > 2]
    assert len(set(cells)) == len(cells) == 41
    assert all(len(set(row)) > 1 for row in cells)
    counts = [each for each, drawn in zip(noise, plan.drawn, strict=True) if drawn.query == "n"]
    assert len({int(value) for each in counts for value in each}) >= 6


def test_two_totals_of_one_label_are_never_drawn(plan: ReleasePlan, window: PeriodWindow) -> None:
    count = plan.queries[0]
    (rows,) = count.totals
    twin = replace(rows, total=replace(rows.total, overlap=rows.total.overlap + 1))
    broken = replace(plan, queries=(replace(count, totals=(rows, twin)), *plan.queries[1:]))
    with pytest.raises(RuntimeError, match="same label"):
        noisy_totals(no_rows(broken), plan=broken, window=window, release_key=KEY)
