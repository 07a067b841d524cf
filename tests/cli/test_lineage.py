"""The events that each run leaves in the profile's lineage file."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from runs_world import NIGHT, POISON, SPEC, WAVE, laid, of_strangers, open_wave, told

from dp_spark.errors import ExitCode
from dp_spark.release.profile import PROFILE_FILE, render_profile


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return laid(tmp_path, monkeypatch, 'lineage = "logs/lineage.jsonl"\n')


def events(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "logs" / "lineage.jsonl").read_text().splitlines()]


def tables(named: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in named]


@pytest.mark.usefixtures("spark")
def test_a_run_tells_what_it_read_where_it_published_and_what_that_cost(home: Path) -> None:
    result = json.loads(told("run", *NIGHT, "--json").splitlines()[-1])
    began, ended = events(home)
    assert (began["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert began["run"]["runId"] == ended["run"]["runId"]
    assert uuid.UUID(began["run"]["runId"])
    for event in (began, ended):
        assert (event["job"]["namespace"], event["job"]["name"]) == ("dp_spark", "town_people/visits.run")
        assert tables(event["inputs"]) == [("file", str(home / "in"))]
        assert tables(event["outputs"]) == [("file", str(home / "out"))]
        assert event["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2024-03-01T00:00:00Z"
    facet = ended["run"]["facets"]["dp_spark"]
    assert facet["release"] == "town_people/visits/2024-03-01/0"
    assert (facet["state"], facet["exit_code"]) == ("sealed", 0)
    assert facet["guarantee"] == {"epsilon": "1", "delta": "1/1000000"}
    assert facet["left"] == {"epsilon": "1", "delta": "9/1000000"}
    (output,) = ended["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == facet["digest"] == result["digest"]


@pytest.mark.usefixtures("spark")
def test_steps_of_a_night_tell_their_own_side_and_no_row(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = str(uuid.uuid4())
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/visits.privatize/{parent}")
    told("privatize", *NIGHT)
    told("publish", *NIGHT)
    staged, published = [event for event in events(home) if event["eventType"] == "COMPLETE"]
    assert (tables(staged["inputs"]), staged["outputs"]) == ([("file", str(home / "in"))], [])
    assert (published["inputs"], tables(published["outputs"])) == ([], [("file", str(home / "out"))])
    found = staged["run"]["facets"]["parent"]
    assert found["run"]["runId"] == parent
    assert (found["job"]["namespace"], found["job"]["name"]) == ("airflow", "visits.privatize")
    assert POISON not in (home / "logs" / "lineage.jsonl").read_text()


def test_a_refusal_fails_with_its_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "of/no/run")
    of_strangers(home)
    told("run", *NIGHT, code=ExitCode.BUDGET)
    _, ended = events(home)
    assert ended["eventType"] == "FAIL"
    assert ended["run"]["facets"]["dp_spark"]["refusal"] == "unknown_population"
    assert "parent" not in ended["run"]["facets"]


@pytest.mark.usefixtures("spark")
def test_a_wave_is_told_too(home: Path) -> None:
    open_wave()
    told("survey", "randomize", *WAVE)
    opened, randomized = [event for event in events(home) if event["eventType"] == "COMPLETE"]
    assert opened["job"]["name"] == "us_persons/work_status.survey_open"
    assert (opened["inputs"], opened["outputs"]) == ([], [])
    assert (tables(randomized["inputs"]), randomized["outputs"]) == ([("file", str(home / "in"))], [])
    assert randomized["run"]["facets"]["dp_spark"]["guarantee"] == {"epsilon": "1", "delta": "0"}
    assert POISON not in (home / "logs" / "lineage.jsonl").read_text()


def test_tables_are_named_as_openlineage_names_them_and_no_password_is_told(home: Path) -> None:
    profile = render_profile().replace(
        "# [connections.warehouse]\n",
        '[connections.house]\nurl = "postgresql+psycopg://publisher@db.example.org:5432/tables"\n'
        'password = "env:NO_SUCH"\n',
    )
    (home / PROFILE_FILE).write_text('lineage = "logs/lineage.jsonl"\n' + profile)
    sinks = "[{sink: sql, connection: house, table: public.visits}, {sink: parquet, path: 's3://KEY:SECRET@b/out?sig=SECRET'}]"
    spec = SPEC.replace("[{sink: parquet, path: out}]", sinks).replace("town_people", "strangers")
    (home / "visits.yaml").write_text(spec)
    told("run", *NIGHT, code=ExitCode.BUDGET)
    began, _ = events(home)
    assert tables(began["outputs"]) == [
        ("postgres://db.example.org:5432", "tables.public.visits"),
        ("s3://b", "out"),
    ]
    assert "publisher" not in json.dumps(began)
    assert "SECRET" not in json.dumps(began)


def test_a_file_that_cannot_be_written_is_told_and_changes_nothing(home: Path) -> None:
    (home / "logs").write_text("a file where a directory should be")
    of_strangers(home)
    assert "lineage cannot be written" in told("run", *NIGHT, code=ExitCode.BUDGET)
