"""A real scheduler runs two nights and a survey; tasks are killed, cleared, doubled; each costs once."""

import json
import urllib.error
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds
import pytest
from airflow_environment import needs_airflow
from airflow_server import until
from nights_session import ESTIMATE, LONGEST, Nights, nights_of, record
from nights_world import PEOPLE, PERSON, PLANE, WAVE

from dp_spark.release.ledger import ReleaseState, WaveId, WaveState

pytestmark = needs_airflow


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    with nights_of(tmp_path_factory.mktemp("nights")) as ran:
        yield ran


def test_each_night_was_charged_once_and_sealed(nights: Nights) -> None:
    releases = nights.ledger.releases("planes")
    charged = {str(each.release_id): each.state for each in releases}
    assert charged == {f"planes/flights/{key}/0": ReleaseState.SEALED for key in nights.keys}
    assert str(nights.ledger.budget("planes").spent.epsilon) == "3"


def test_each_night_has_one_artefact_in_the_zone_and_one_at_the_sink(nights: Nights) -> None:
    published = sorted((nights.home / "out/flights").glob("period_start=*/*.parquet"))
    assert [path.parent.name for path in published] == [f"period_start={key}" for key in nights.keys]
    for key in nights.keys:
        artefact = record(nights.ledger, key).artefact
        assert artefact is not None
        assert list(Path(artefact.path).parent.iterdir()) == [Path(artefact.path)]


def test_a_killed_task_was_tried_again_and_a_cleared_one_changed_nothing(nights: Nights) -> None:
    _, cleared, killed = (nights.airflow.tasks("flights", nights.run_of(key)) for key in nights.keys)
    assert killed["privatize"]["try_number"] == 2
    assert cleared["privatize"]["try_number"] == 2
    assert record(nights.ledger, nights.keys[1]) == nights.before_clearing


def test_a_backfill_and_a_run_by_hand_of_one_key_both_end_well(nights: Nights) -> None:
    filled = nights.airflow.runs("flights")[nights.run_of(nights.keys[0])]
    by_hand = nights.airflow.runs("by_hand")[nights.doubled]
    assert (filled["run_type"], filled["state"]) == ("backfill", "success")
    assert (by_hand["run_type"], by_hand["state"]) == ("manual", "success")


def test_a_backfill_skips_nights_that_have_a_run_but_not_a_night_that_is_not_over(nights: Nights) -> None:
    """The run of such a night is refused by its key; a run by hand of another DAG is none to Airflow."""
    tonight = datetime.now(UTC).date().isoformat()
    assert nights.airflow.backfill_would_run("flights", nights.keys[0], nights.keys[2]) == []
    assert nights.airflow.backfill_would_run("flights", nights.keys[0], tonight) == [tonight]


def test_a_wave_was_charged_once_and_has_one_report_a_person(nights: Nights) -> None:
    wave = nights.ledger.wave(WaveId("people", "work", WAVE))
    assert wave is not None
    assert (wave.state, wave.reports, len(wave.batches)) == (WaveState.SEALED, PEOPLE, 1)
    assert str(nights.ledger.survey_account("people", "work").spent) == "1"
    assert pds.dataset(nights.home / "shares", partitioning="hive").count_rows() > 0


def test_assets_carry_key_id_digest_and_cost_and_nothing_else(nights: Nights) -> None:
    told = {
        (event["partition_key"], *sorted(event["extra"].items()))
        for event in nights.events()
        if event["source_dag_id"] != ESTIMATE
    }
    assert told == {
        (
            key,
            ("delta", "1/1000000"),
            ("digest", record(nights.ledger, key).artefact.digest),
            ("epsilon", "1"),
            ("release_id", f"planes/flights/{key}/0"),
        )
        for key in nights.keys
    }
    assert {event["source_dag_id"] for event in nights.events()} == {"flights", "by_hand", ESTIMATE}


def test_the_asset_of_a_survey_carries_its_wave(nights: Nights) -> None:
    (event,) = (event for event in nights.events() if event["source_dag_id"] == ESTIMATE)
    wave = nights.ledger.wave(WaveId("people", "work", WAVE))
    assert event["partition_key"] == WAVE
    assert event["extra"] == {
        "release_id": f"people/work/{WAVE}",
        "digest": wave.estimates.digest,
        "epsilon": "1",
    }


def test_a_refused_release_fails_at_once_and_is_told_with_what_is_left(nights: Nights) -> None:
    """Its epsilon is 4, of a budget of 3; its three retries would be refused, too."""
    tasks = nights.airflow.tasks("dear", nights.dear)
    assert [(tasks[name]["state"], tasks[name]["try_number"]) for name in ("privatize", "publish")] == [
        ("failed", 1),
        ("upstream_failed", 0),
    ]
    assert tasks["privatize"]["max_tries"] == 3
    logs = [path.read_text() for path in nights.home.rglob("logs/dag_id=dear/**/*.log")]
    assert any("(budget_exhausted)" in log and "way out" in log for log in logs)


def lineage(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_lineage_tells_of_runs_and_assets_and_no_more(nights: Nights) -> None:
    events = lineage(nights.home / "lineage.jsonl")
    told = {(event["job"]["name"], event["eventType"]) for event in events}
    steps = [f"flights.{task}" for task in ("privatize", "publish", "record")]
    assert {(name, kind) for name in ("flights", *steps) for kind in ("START", "COMPLETE")} <= told
    assert {("flights.privatize", "FAIL"), ("dear.privatize", "FAIL"), ("dear", "FAIL")} <= told
    outputs = [output for event in events for output in event["outputs"]]
    assert {(output["namespace"], output["name"]) for output in outputs} == {
        ("dp_spark", "planes/flights"),
        ("dp_spark", "people/work"),
    }
    facets = [output["facets"] for output in outputs]
    assert {(facet["dp_spark"]["key"], facet["version"]["datasetVersion"]) for facet in facets} == {
        (event["partition_key"], event["extra"]["digest"]) for event in nights.events()
    }
    assert not any("sourceCode" in event["job"].get("facets", {}) for event in events)


def test_jobs_tell_which_task_they_are_of(nights: Nights) -> None:
    tasks, jobs = (lineage(nights.home / name) for name in ("lineage.jsonl", "jobs.jsonl"))
    runs = {event["run"]["runId"]: event["job"]["name"] for event in tasks}
    parents = {
        (event["job"]["name"], runs[event["run"]["facets"]["parent"]["run"]["runId"]])
        for event in jobs
        if event["job"]["name"].startswith("planes/flights.") and "parent" in event["run"]["facets"]
    }
    assert parents == {
        ("planes/flights.privatize", "flights.privatize"),
        ("planes/flights.publish", "flights.publish"),
    }


def test_no_value_of_a_row_and_no_key_is_in_logs_lineage_or_xcom(nights: Nights) -> None:
    secret = (nights.home / ".dp_spark/master.key").read_bytes().strip()
    given = {nights.home / "in", nights.home / "answers"}
    kept = [path for path in nights.home.rglob("*") if path.is_file() and given.isdisjoint(path.parents)]
    logs = [path for path in kept if path.suffix in {".log", ".json", ".jsonl", ".db", ".db-wal"}]
    assert any(b"private_release.py" in path.read_bytes() for path in logs)
    for path in logs:
        content = path.read_bytes()
        assert PLANE.encode() not in content
        assert PERSON.encode() not in content
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
