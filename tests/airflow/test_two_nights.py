"""A real scheduler runs two nights; tasks are killed, cleared, doubled; each night costs and yields once."""

import os
import signal
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow_environment import needs_airflow
from airflow_server import Airflow, running_airflow, until

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import Ledger, ReleaseId, ReleaseRecord, ReleaseState
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import load_profile, render_profile

pytestmark = needs_airflow
PLANE = "N-SECRET"
SPARK = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False}
LONGEST = 540  # seconds, of a wait; all of them together take two minutes on a machine that is not busy
SPEC = """
release: flights
input: {{format: parquet, path: {home}/in}}
period: {{column: date, every: day, timezone: UTC}}
unit: {{column: tailnum, on_null: drop}}
bounds: {{max_groups: 1, max_rows_per_group: 3}}
group_by: [origin]
groups: {{public: [EWR, JFK]}}
guarantee: {{epsilon: 1, delta: 1e-6}}
queries: [{{name: flights, kind: count}}]
budget: {{population: planes}}
publish: [{{sink: parquet, path: {home}/out}}]
"""
DAGS = """
'''airflow: a release each night, and the same in a DAG of one's own.'''
from datetime import datetime, timedelta

from airflow.sdk import DAG, Param
from dp_spark_dags import release_dag, release_tasks

HOME, SOON = {home!r}, {{"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": False}}
given = {{"profile": HOME + "/dp_spark.toml"}}
release_dag(HOME + "/flights.yaml", schedule="0 0 * * *", start_date=datetime.fromisoformat({start!r}),
            catchup=True, default_args=SOON, **given)
with DAG("by_hand", schedule=None, default_args={{"retries": 3, **SOON}},
         params={{"key": Param(None, type=["null", "string"])}}):
    release_tasks(HOME + "/flights.yaml", **given)
"""


@dataclass(frozen=True, slots=True)
class Nights:
    """What is left when everything has ended."""

    home: Path
    keys: tuple[str, str]
    airflow: Airflow
    ledger: Ledger
    before_clearing: ReleaseRecord

    def record(self, key: str) -> ReleaseRecord:
        found = self.ledger.find(ReleaseId("planes", "flights", key))
        assert found is not None
        return found

    def run_of(self, key: str) -> str:
        runs = self.airflow.runs("flights").values()
        return next(str(run["dag_run_id"]) for run in runs if run["partition_key"] == key)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    home = tmp_path_factory.mktemp("nights")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first, second = (today - timedelta(2), today - timedelta(1))
    ledger = laid(home, first, second)
    (home / "dags").mkdir()
    (home / "dags/nights.py").write_text(DAGS.format(home=str(home), start=second.isoformat()))
    keys = (first.date().isoformat(), second.date().isoformat())
    with running_airflow(home, home / "dags", seconds=LONGEST) as airflow:
        until(lambda: airflow.ask("dags")["total_entries"] == 2, seconds=LONGEST)
        airflow.unpause("by_hand")
        airflow.unpause("flights")
        doubled = airflow.trigger("by_hand", key=keys[0])
        killed_while_reading(ledger, home / "flights.yaml", keys[1])
        until(lambda: ended(airflow, "flights", 2) and ended(airflow, "by_hand", 1), seconds=LONGEST)
        assert airflow.runs("by_hand")[doubled]["state"] == "success"
        before = ledger.find(ReleaseId("planes", "flights", keys[0]))
        assert before is not None
        made = Nights(home, keys, airflow, ledger, before)
        clear(airflow, made.run_of(keys[0]))
        until(lambda: ended(airflow, "flights", 2), seconds=LONGEST)
        yield made


def laid(home: Path, *days: datetime) -> Ledger:
    """Rows of the days, a spec, a profile, a ledger and a budget of three nights."""
    (home / "in").mkdir()
    rows = {
        "date": [day.date() for day in days for _ in range(300)],
        "tailnum": [f"{PLANE}-{n}" for _ in days for n in range(300)],
        "origin": ["EWR", "JFK", "JFK"] * (100 * len(days)),
    }
    pq.write_table(pa.table(rows), home / "in/rows.parquet")
    (home / "flights.yaml").write_text(SPEC.format(home=home))
    (home / "dp_spark.toml").write_text(render_profile(spark=SPARK))
    profile = load_profile(str(home / "dp_spark.toml"))
    make_places(profile)
    ledger = open_ledger(profile)
    ledger.set_budget(
        "planes",
        PrivacyGuarantee(Fraction(3), Fraction(1, 10**5)),
        unit=PrivacyUnit(("tailnum",)),
        neighbours=Neighbours.ADD_REMOVE,
        reason="a test",
    )
    return ledger


def killed_while_reading(ledger: Ledger, spec: Path, key: str) -> None:
    """Kill -9 the driver of a privatize task, charged for and not yet staged."""
    release = ReleaseId("planes", "flights", key)
    until(
        lambda: (known := ledger.find(release)) is not None and known.state is ReleaseState.READING,
        seconds=LONGEST,
        every=0.05,
    )
    words = {str(spec).encode(), key.encode(), b"privatize"}
    drivers = [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and words <= set(_words(process))
    ]
    assert drivers
    for driver in drivers:
        os.kill(driver, signal.SIGKILL)
    known = ledger.find(release)
    assert known is not None
    assert known.state is ReleaseState.READING


def _words(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def ended(airflow: Airflow, dag: str, count: int) -> bool:
    states = [run["state"] for run in airflow.runs(dag).values()]
    assert "failed" not in states
    return states == ["success"] * count


def clear(airflow: Airflow, run: str) -> None:
    """What an operator does who wants a night again."""
    asked = {"dag_run_id": run, "task_ids": ["privatize"], "only_failed": False}
    airflow.ask("dags/flights/clearTaskInstances", {**asked, "dry_run": False})
    until(lambda: airflow.runs("flights")[run]["state"] != "success", seconds=LONGEST, every=0.1)


def test_each_night_was_charged_once_and_sealed(nights: Nights) -> None:
    releases = nights.ledger.releases("planes")
    assert [str(each.release_id) for each in releases] == [f"planes/flights/{key}/0" for key in nights.keys]
    assert {each.state for each in releases} == {ReleaseState.SEALED}
    assert str(nights.ledger.budget("planes").spent.epsilon) == "2"


def test_each_night_has_one_artefact_in_the_zone_and_one_at_the_sink(nights: Nights) -> None:
    published = sorted((nights.home / "out").glob("period_start=*/*.parquet"))
    assert [path.parent.name for path in published] == [f"period_start={key}" for key in nights.keys]
    for key in nights.keys:
        artefact = nights.record(key).artefact
        assert artefact is not None
        assert list(Path(artefact.path).parent.iterdir()) == [Path(artefact.path)]


def test_a_killed_task_was_tried_again_and_a_cleared_one_changed_nothing(nights: Nights) -> None:
    cleared, killed = (nights.airflow.tasks("flights", nights.run_of(key)) for key in nights.keys)
    assert killed["privatize"]["try_number"] == 2
    assert cleared["privatize"]["try_number"] == 2
    assert nights.record(nights.keys[0]) == nights.before_clearing


def test_assets_carry_key_id_digest_and_cost_and_nothing_else(nights: Nights) -> None:
    events = nights.airflow.ask("assets/events")["asset_events"]
    told = {(event["partition_key"], *sorted(event["extra"].items())) for event in events}
    assert told == {
        (
            key,
            ("delta", "1/1000000"),
            ("digest", nights.record(key).artefact.digest),
            ("epsilon", "1"),
            ("release_id", f"planes/flights/{key}/0"),
        )
        for key in nights.keys
    }
    assert {event["source_dag_id"] for event in events} == {"flights", "by_hand"}


def test_no_value_of_a_row_and_no_key_is_in_logs_or_xcom(nights: Nights) -> None:
    secret = (nights.home / ".dp_spark/master.key").read_bytes().strip()
    kept = [
        path for path in nights.home.rglob("*") if path.is_file() and nights.home / "in" not in path.parents
    ]
    logs = [path for path in kept if path.suffix in {".log", ".json", ".db", ".db-wal"}]
    assert any(b"private_release.py" in path.read_bytes() for path in logs)
    for path in logs:
        content = path.read_bytes()
        assert PLANE.encode() not in content
        assert secret not in content
    assert nights.airflow.ask("dags/~/dagRuns/~/taskInstances/~/xcomEntries")["total_entries"] == 0


def test_a_manual_run_with_a_key_that_is_none_is_refused_by_the_api(nights: Nights) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        nights.airflow.trigger("flights", key="{{ ds }}")


def test_a_manual_run_with_a_key_to_come_fails_at_once_and_is_not_tried_again(nights: Nights) -> None:
    run = nights.airflow.trigger("flights", key=(datetime.now(UTC) + timedelta(2)).date().isoformat())
    until(lambda: nights.airflow.runs("flights")[run]["state"] == "failed", seconds=LONGEST)
    tasks = nights.airflow.tasks("flights", run)
    assert [(tasks[name]["state"], tasks[name]["try_number"]) for name in ("privatize", "publish")] == [
        ("failed", 1),
        ("upstream_failed", 0),
    ]
