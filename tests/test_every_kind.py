"""Releases of every kind of query and group, from spec to seal on real Spark."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.pipeline import Step, run_release
from dp_spark.release.ledger import ReleaseId, ReleaseState
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import ReleaseSpec
from dp_spark.report import RunResult

KEY = "2024-03-01"
EDGES = {"start": 0, "stop": 100, "step": 10}
QUERIES: list[dict[str, Any]] = [
    {"name": "visits", "kind": "count"},
    {"name": "priced", "kind": "count", "column": "euros"},
    {"name": "weighed", "kind": "count", "weight": {"column": "weight", "upper": 2}},
    {"name": "people", "kind": "ids"},
    {"name": "spent", "kind": "sum", "column": "euros", "lower": 0, "upper": 100},
    {"name": "mean_spent", "kind": "mean", "column": "euros", "lower": 0, "upper": 100},
    {"name": "spread", "kind": "variance", "column": "euros", "lower": 0, "upper": 100},
    {"name": "deviation", "kind": "std", "column": "euros", "lower": 0, "upper": 100},
    {"name": "kinds", "kind": "distinct", "column": "kind", "values": ["x", "y", "z", "none"]},
    {"name": "shape", "kind": "histogram", "column": "euros", "edges": EDGES},
    {"name": "euros", "kind": "quantiles", "column": "euros", "edges": EDGES, "at": [0.1, 0.5, 0.9]},
    {"name": "least", "kind": "min", "column": "euros", "edges": EDGES},
    {"name": "most", "kind": "max", "column": "euros", "edges": EDGES},
    {
        "name": "each",
        "kind": "ratio",
        "numerator": "spent",
        "denominator": "people",
        "lower": 0,
        "upper": 400,
    },
]
BASE: dict[str, Any] = {
    "release": "visits",
    "input": {"format": "parquet", "path": "in"},
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 2, "max_rows_per_group": 2},
    "group_by": ["region", "town"],
    "groups": {"public": [["n", "a"], ["n", "b"], ["s", "c"]]},
    "guarantee": {"epsilon": 50, "delta": "1e-6"},
    "queries": QUERIES,
    "budget": {"population": "people"},
    "publish": [{"sink": "parquet", "path": "out"}],
}


class World:
    """Rows of 6,000 people in three towns, and a ledger with room for two releases."""

    def __init__(self, home: Path) -> None:
        self.profile: Profile = embedded_profile(home)
        rng = np.random.default_rng(5)
        town = np.arange(9000) % 3
        self.rows = {
            "person": [f"p{i % 6000}" for i in range(9000)],
            "region": [("n", "n", "s")[i] for i in town],
            "town": ["abc"[i] for i in town],
            "euros": [None if i % 9 == 0 else float(x) for i, x in enumerate(rng.uniform(0, 100, 9000))],
            "kind": ["xyzw"[i % 4] for i in range(9000)],
            "weight": [0.5 + i % 2 for i in range(9000)],
        }
        (home / "in").mkdir()
        pq.write_table(pa.table(self.rows), home / "in" / "rows.parquet")
        make_places(self.profile)
        open_ledger(self.profile).set_budget(
            "people",
            PrivacyGuarantee(Fraction(100), Fraction(3, 10**6)),
            unit=PrivacyUnit(("person",)),
            neighbours=Neighbours.ADD_REMOVE,
            reason="a test",
        )

    def run(
        self,
        spark: Callable[[], SparkSession],
        observe: Callable[[Step], None] = lambda step: None,
        **changes: Any,
    ) -> RunResult:
        spec = ReleaseSpec(**{**BASE, **changes})
        return run_release(spec, KEY, profile=self.profile, spark=spark, observe=observe)

    def state(self) -> ReleaseState | None:
        record = open_ledger(self.profile).find(ReleaseId("people", "visits", KEY))
        return record and record.state


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


def columns(result: RunResult) -> dict[str, np.ndarray]:
    return {name: np.array(result.table[name].to_pylist()) for name in result.table.column_names}


def test_every_kind_of_query_in_one_release(world: World, spark: SparkSession) -> None:
    """With little noise, every answer is near what NumPy says of the rows that bounds keep: all of them."""
    found = columns(world.run(lambda: spark))
    euros = np.array([np.nan if x is None else x for x in world.rows["euros"]], dtype=float)
    town = np.array(world.rows["town"])
    here = [town == each for each in "abc"]
    there = [euros[each & ~np.isnan(euros)] for each in here]
    expected = {
        "visits": [each.sum() for each in here],
        "priced": [len(each) for each in there],
        "weighed": [np.array(world.rows["weight"])[each].sum() for each in here],
        "spent": [each.sum() for each in there],
        "mean_spent": [each.mean() for each in there],
        "spread": [each.var() for each in there],
        "deviation": [each.std() for each in there],
        "shape_3": [((each >= 20) & (each < 30)).sum() for each in there],
        "euros_p50": [np.quantile(each, 0.5) for each in there],
        "euros_p90": [np.quantile(each, 0.9) for each in there],
        "least": [np.quantile(each, 0.01) for each in there],
        "most": [np.quantile(each, 0.99) for each in there],
    }
    for name, values in expected.items():
        slack = np.maximum(12 * found[f"{name}_std"].astype(float), 1.0)
        assert np.all(np.abs(found[name].astype(float) - values) <= slack), name
    assert np.all(np.abs(found["kinds"] - 3) <= 12 * found["kinds_std"])
    assert found["each"] == pytest.approx(found["spent"].astype(float) / found["people"], rel=1e-9)
    assert world.state() is ReleaseState.SEALED


def test_a_rollup_adds_up_and_says_which_rows_are_rolled_up(world: World, spark: SparkSession) -> None:
    queries = [query for query in QUERIES if query["name"] in {"visits", "people", "mean_spent", "euros"}]
    found = columns(world.run(lambda: spark, rollup=[["region"], []], queries=queries))
    assert found["grouping_id"].tolist() == [0, 0, 0, 1, 1, 3]
    assert found["region"].tolist() == ["n", "n", "s", "n", "s", "(all)"]
    assert found["town"].tolist() == ["a", "b", "c", "(all)", "(all)", "(all)"]
    visits = found["visits"]
    assert visits[3] == pytest.approx(visits[0] + visits[1])
    assert visits[5] == pytest.approx(visits[:3].sum())
    assert visits[5] == pytest.approx(9000, abs=12 * found["visits_std"][5])
    assert found["people"][5] == pytest.approx(6000, abs=12 * found["people_std"][5])
    assert np.all((found["euros_p50_low"] <= 51) & (found["euros_p50_high"] >= 49))


def stop(at: Step, step: Step) -> None:
    if step is at:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "private", [{}, {"other": True, "min_units": 20}, {"select": "threshold", "min_units": 20}], ids=repr
)
def test_private_groups_are_released_charged_and_resumed(
    world: World, spark: SparkSession, private: dict[str, Any]
) -> None:
    changes = {"groups": {"private": private}, "queries": QUERIES[:8]}

    for at, state in {
        Step.SELECT: ReleaseState.READING,
        Step.READ: ReleaseState.READING,
        Step.CHECK: ReleaseState.STAGED,
    }.items():
        with pytest.raises(KeyboardInterrupt):
            world.run(lambda: spark, observe=partial(stop, at), **changes)
        assert world.state() is state
    result = world.run(lambda: spark, **changes)
    found = columns(result)
    other = [("(other)", "(other)")] if private.get("other") else []
    keys = list(zip(found["region"], found["town"], strict=True))
    assert keys == [("n", "a"), ("n", "b"), ("s", "c"), *other]
    assert found["visits"][:3].astype(float) == pytest.approx(3000, abs=12 * found["visits_std"][0])
    assert open_ledger(world.profile).budget("people").spent.epsilon == 50
    assert world.run(lambda: spark, **changes).digest == result.digest


def test_a_group_called_like_a_label_that_the_release_does_not_use_is_one(
    world: World, spark: SparkSession
) -> None:
    renamed = [{"a": "(other)", "b": "(all)"}.get(each, each) for each in world.rows["town"]]
    pq.write_table(pa.table({**world.rows, "town": renamed}), Path("in") / "rows.parquet")
    found = columns(world.run(lambda: spark, group_by=["town"], groups={"private": {}}, queries=QUERIES[:1]))
    assert found["town"].tolist() == ["(all)", "(other)", "c"]
    assert world.state() is ReleaseState.SEALED


def test_no_group_at_all_is_a_release_too(world: World, spark: SparkSession) -> None:
    result = world.run(lambda: spark, groups={"private": {"min_units": 100_000}}, queries=QUERIES)
    assert result.table.num_rows == 0
    assert world.state() is ReleaseState.SEALED


def test_where_no_group_is_selected_all_rows_are_others(world: World, spark: SparkSession) -> None:
    changes = {"private": {"min_units": 100_000, "other": True}}
    found = columns(world.run(lambda: spark, groups=changes, queries=QUERIES[:4], rollup=[[]]))
    assert found["town"].tolist() == ["(other)", "(all)"]
    assert found["people"][0] == pytest.approx(6000, abs=12 * found["people_std"][0])
