"""An executor that dies when its rows have been shuffled: its tasks run again, and nothing is different."""

import json
import os
import signal

import pytest
from running import APART, Outcome, Place, job_command, make_life, make_place, running, spent, wait_until

SETTINGS = {"spark.master": "local-cluster[2,1,1024]", **APART}


def logged(place: Place) -> dict[str, str]:
    """Settings by which Spark writes down what ran."""
    (place.path / "events").mkdir()
    place_of_events = f"file:{place.path / 'events'}"
    return {
        **SETTINGS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": place_of_events,
    }


def killed(place: Place, command: list[str]) -> Outcome:
    """How the job ends if one of its two executors is killed once both are behind the shuffle.

    The workers wait for the kill. Two of four reduce tasks have not begun, and need what the executor had.
    """
    with running(command, place) as job:
        wait_until(lambda: len(executors(place)) == 2, "a reduce task in each executor", job)
        os.kill(executors(place)[0], signal.SIGKILL)
        (place.marks / "go").touch()
        return job.wait()


def executors(place: Place) -> list[int]:
    """The processes of the executors that have begun a reduce task."""
    begun = {mark.read_text() for mark in place.marks.glob("reduce-*")} - {""}
    return sorted(map(int, begun))


def stages_run_again(place: Place) -> int:
    """How many tasks belong to a second attempt at their stage, by Spark's own record."""
    files = [path for path in (place.path / "events").rglob("*") if path.is_file()]
    events = [json.loads(line) for path in files for line in path.read_text().splitlines() if line[:1] == "{"]
    return sum(event["Event"] == "SparkListenerTaskEnd" and event["Stage Attempt ID"] > 0 for event in events)


def test_a_killed_executor_changes_no_byte_and_charges_nothing_more(place: Place, expected: str) -> None:
    make_life(place, logged(place))
    ended = killed(place, job_command(place, {}, "--meddle", "hold", "--life"))
    assert ended.digests == {expected}
    assert spent(place) == 1
    assert stages_run_again(place) > 0, "the kill came too late to matter"


@pytest.mark.whole
@pytest.mark.parametrize("checksums", ["true", "false"])
def test_with_unkeyed_choices_a_killed_executor_would_be_noticed(
    tmp_path_factory: pytest.TempPathFactory, checksums: str
) -> None:
    """Rows drop out by numpy's generator. Newer lines see by checksums that a stage came out otherwise."""
    clean = []
    for attempt in range(3):
        place = make_place(tmp_path_factory.mktemp(f"unkeyed-{attempt}") / "place")
        settings = {
            **logged(place),
            "spark.sql.shuffle.orderIndependentChecksum.enabled": checksums,
            "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": checksums,
        }
        command = job_command(place, settings, "--unkeyed")
        if attempt < 2:
            with running(command, place) as job:
                clean.append(job.wait().digests)
            continue
        ended = killed(place, [*command, "--meddle", "hold"])
        assert stages_run_again(place) > 0
    assert clean[0] == clean[1], "undisturbed, the harness repeats itself"
    assert ended.code != 0 or ended.digests != clean[0]
