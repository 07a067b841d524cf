"""The DAGs of the examples keep the policy, and a run's key is right or refused; asked of Airflow itself."""

import json
import subprocess
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_environment import AIRFLOW, ROOT, environment, needs_airflow

pytestmark = needs_airflow
TASKS = ["privatize", "publish", "record"]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home, scratch = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("specs")
    told = subprocess.run(
        [AIRFLOW / "python", Path(__file__).with_name("dag_facts.py"), ROOT / "airflow_dags", scratch],
        env={**environment(home, ROOT / "airflow_dags", 1), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    return json.loads(told.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def tasks(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [task for dag in facts["dags"].values() for task in dag["tasks"]]


def test_every_dag_is_read_without_spark_without_the_package_and_nothing_else_that_is_slow(
    facts: Any,
) -> None:
    assert facts["errors"] == {}
    assert facts["loaded"] == []
    assert set(facts["dags"]) == {
        "flights_by_origin",
        "flights_by_origin_carrier",
        "delays_by_origin",
        "work_status_2024q1_randomize",
        "work_status_2024q1_estimate",
    }


def test_a_release_is_three_tasks_of_which_the_last_tells_of_an_asset(facts: Any) -> None:
    made = facts["dags"]["flights_by_origin"]["tasks"]
    assert [task["id"] for task in made] == TASKS
    assert [task["after"] for task in made] == [[], ["privatize"], ["publish"]]
    assert [task["outlets"] for task in made] == [[], [], ["nyc_planes/flights_by_origin"]]
    assert [task["id"] for task in facts["dags"]["work_status_2024q1_estimate"]["tasks"]] == [
        "estimate",
        "record",
    ]


def test_the_policy_of_dags(facts: Any) -> None:
    for dag in facts["dags"].values():
        assert dag["max_active_runs"] == 1
        assert dag["catchup"] is False
        assert "dp_spark" in dag["tags"]
        assert dag["timeout"] > max(task["timeout"] for task in dag["tasks"])
    for task in tasks(facts):
        assert task["owner"] in {"dp_spark", "statistics"}
        assert task["retries"] >= 1
        assert task["timeout"] > 0
        assert task["tells"]
        assert task["policy"] == "UnlessRefused"
        assert not task["xcom"]


def test_no_template_depends_on_a_logical_date_or_reads_a_secret(facts: Any) -> None:
    """A run of a partition has no `ds` and no interval: a template of them ends the task."""
    for task in tasks(facts):
        for template in task["templates"]:
            for word in ("ds", "ts", "logical_date", "data_interval", "conn.", "var.", "xcom", "password"):
                assert f"{{{{ {word}" not in template


def test_each_night_of_a_year_has_a_key_also_where_the_clock_jumps(facts: Any) -> None:
    days = [date(2024, 12, 31) + timedelta(n) for n in range(1, 367)]
    assert facts["dags"]["flights_by_origin"]["timetable"] == "CronPartitionTimetable"
    assert facts["year"] == [day.isoformat() for day in days]


def test_a_backfill_has_a_key_of_each_tick_of_its_days_also_where_the_clock_jumps(facts: Any) -> None:
    """In New York they went forward on 10 March 2013. A date alone is its midnight, before its tick."""
    days = ["2013-03-09", "2013-03-10", "2013-03-11"]
    assert facts["backfills"] == {"2013-03-11": days[:2], "2013-03-11T23:59": days}


@pytest.mark.parametrize(
    ("run", "key"),
    [
        ("typed", "2025-03-04"),
        ("partition", "2025-03-04"),
        ("interval", "2025-03-03"),
        ("week", "2025-02-24"),
        ("month", "2025-02-01"),
        ("whole", "2025-03-04"),
        ("tuesdays", "2025-03-03"),
        ("backfilled", "2025-03-03"),
    ],
)
def test_the_key_of_a_run(facts: Any, run: str, key: str) -> None:
    assert facts["keys"][run] == key


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("tuesday typed", "not the first day of a week, which is 2025-03-03"),
        ("nothing", "has no key"),
        ("two", "two keys"),
        ("no date", "no day|not a day"),
        ("code", "not a date"),
        ("future", "not over"),
        ("whole future", "not over"),
    ],
)
def test_a_run_without_a_right_key_is_refused(facts: Any, run: str, why: str) -> None:
    refusal = facts["keys"][run]
    assert refusal.startswith("refused: ")
    assert any(words in refusal for words in why.split("|"))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("a list", "no mapping"),
        ("code", "letters, digits"),
        ("a zone", "no time zone"),
        ("a name", "letters, digits"),
        ("a survey", "survey_dags"),
        ("a release", "release_dag"),
        ("a wave", "letters, digits"),
        ("no start", "start_date"),
        ("a skipped hour", "clocks in America/New_York skip 02:30 on 20"),
        ("every hour", "a period has one run"),
        ("twins", "another spec"),
        ("half written", "written.yaml: is no YAML"),
        ("a template", "read as a template"),
    ],
)
def test_what_makes_no_dag_is_refused(facts: Any, what: str, why: str) -> None:
    assert why in facts["wrong"][what]


def test_a_failure_is_told_with_state_and_budget_left(facts: Any) -> None:
    killed, refused = facts["failure"][:2]
    assert "(no_result)" in killed
    assert "at no further charge" in killed
    assert "(budget_exhausted): no [release p/flights/1/0, state nothing charged" in refused
    assert "budget left: epsilon 1/4, delta 0] way out: wait" in refused


def test_a_result_that_is_none_is_told_as_none_and_each_failure_is_one_line(facts: Any) -> None:
    *malformed, long = facts["failure"][2:]
    assert len(malformed) == 4
    assert all("(no_result)" in told for told in malformed)
    assert "two lines" in long
    assert not any("\n" in told for told in facts["failure"])


@pytest.mark.parametrize(
    ("run", "code", "message", "way_out"),
    [
        ("to come", "period_not_over", "that day is not over", "clear the task when it is over"),
        ("none", "no_key", "has no key", "trigger another run with the parameter `key`"),
        ("no date", "bad_key", "'tonight' is not a date", "trigger another run"),
        ("nothing published", "nothing_published", "task publish left no result", "clear that task"),
    ],
)
def test_what_these_dags_refuse_is_told_with_its_reason(
    facts: Any, run: str, code: str, message: str, way_out: str
) -> None:
    told = facts["failures of keys"][run]
    assert told["error"] == code
    assert message in told["message"]
    assert way_out in told["way_out"]
    assert told["left"] is None


def test_what_an_operator_raises_is_not_quoted(facts: Any) -> None:
    told = facts["failures of keys"]["an operator's"]
    assert told["error"] == "no_result"
    assert "4711" not in str(told)


def test_no_two_runs_leave_their_results_at_one_place(facts: Any) -> None:
    assert len(set(facts["places"])) == 7
    for place in facts["places"]:
        assert len(place.split("/")) == 4
        assert max(len(part) for part in place.split("/")) < 255


def test_a_dag_without_a_start_waits_for_its_next_tick(facts: Any) -> None:
    """But for a tenth of the time between two ticks, when Airflow 3.3.2 still runs the last one."""
    assert facts["first runs"] == {"1": -1, "5": 19}


@pytest.mark.parametrize(
    ("left", "decision"),
    [
        ("killed", "default"),
        ("of another operator", "default"),
        ("refused for good", "fail"),
        ("refused for now", "default"),
        ("of an earlier attempt", "default"),
    ],
)
def test_only_a_refusal_that_stands_is_not_tried_again(facts: Any, left: str, decision: str) -> None:
    assert facts["decisions"][left] == decision


def test_an_operator_keeps_its_own_policy_of_retries(facts: Any) -> None:
    assert facts["own policies"] == ["ExceptionRetryPolicy", "ExceptionRetryPolicy", "UnlessRefused"]
