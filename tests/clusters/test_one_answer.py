"""One release under one key has one digest: on every kind of cluster, in any number of partitions.

An executor that dies when its rows have been shuffled changes nothing either: its tasks run again.
"""

import json
from pathlib import Path

import pytest
from postgres_server import Server
from running import (
    APART,
    JOB,
    ROOT,
    Place,
    job_command,
    make_life,
    make_place,
    run_job,
    running,
    some_rows,
    spent,
    standalone_cluster,
)
from submitting import killed, submitted

# Whatever is chosen for the number of partitions and for adaptive execution.
WAYS = [
    {},
    *({"partitions": number, "conf": {"spark.sql.shuffle.partitions": str(number)}} for number in (1, 2, 7)),
    {"conf": {"spark.sql.adaptive.enabled": "false"}},
    {
        "conf": {
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        }
    },
]
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
ON_TWO_EXECUTORS = {"spark.master": LOCAL_CLUSTER, **APART}
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.01",
}


@pytest.fixture(scope="module")
def digests_on_one_machine(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    place = make_place(tmp_path_factory.mktemp("one_machine") / "place")
    return run_job(place, {"spark.master": "local[2]"}, "--ways", json.dumps(WAYS)).digests


@pytest.fixture(scope="module")
def expected(digests_on_one_machine: set[str]) -> str:
    (digest,) = digests_on_one_machine
    return digest


def test_any_partitions_and_adaptive_execution_give_one_answer(digests_on_one_machine: set[str]) -> None:
    assert len(digests_on_one_machine) == 1


@pytest.mark.whole
def test_another_row_gives_another_answer(tmp_path: Path, expected: str) -> None:
    """The digest would notice: a hundred rows less, and the noise is another one."""
    fewer = make_place(tmp_path / "place", some_rows().slice(100))
    assert expected not in run_job(fewer, {"spark.master": "local[2]"}).digests


def test_connect_runs_the_whole_life_with_the_same_answer(place: Place, expected: str) -> None:
    make_life(place, {"spark.remote": "local[2]"})
    ended = run_job(place, {}, "--life")
    assert (ended.digests, spent(place)) == ({expected}, 1)
    assert "Failed to set" not in ended.err


@pytest.mark.whole
def test_spark_submit_on_a_standalone_cluster_runs_the_whole_life(
    place: Place, expected: str, postgres: Server
) -> None:
    """With a ledger in a file it is refused before the charge; with one in PostgreSQL it runs."""
    make_life(place, {})
    life = [str(JOB), *place.arguments(), "--life"]
    with standalone_cluster(place) as master:
        refused = submitted(place, master, *life)
        assert [line["error"] for line in refused.lines] == ["ledger_of_one_machine"]
        assert spent(place) == 0
        make_life(place, {}, postgres.url(postgres.new_database()))
        assert submitted(place, master, *life).digests == {expected}
    assert spent(place) == 1


@pytest.mark.whole
def test_the_nightly_job_on_a_standalone_cluster_is_charged_once_and_served_again(
    place: Place, postgres: Server
) -> None:
    make_life(place, {}, postgres.url(postgres.new_database()))
    (place.path / "release.yaml").write_text(spec())
    nightly = [str(ROOT / "jobs" / "private_release.py"), "--spec", "release.yaml", "--key", "2024-03-04"]
    with standalone_cluster(place) as master:
        first, again = (submitted(place, master, *nightly) for _ in range(2))
    assert first.digests == again.digests
    assert [line["charged"] for line in first.lines + again.lines] == [
        {"epsilon": "1", "delta": "1/1000000"},
        None,
    ]
    assert spent(place) == 1


def spec() -> str:
    """The release of release_job.py, which is a script and no module of ours."""
    text = JOB.read_text()
    return text.partition('SPEC = """')[2].partition('"""')[0]


@pytest.mark.whole
@pytest.mark.parametrize(
    "settings",
    [
        {"spark.master": "local[2,4]", **EAGER},
        ON_TWO_EXECUTORS,
        {"spark.master": LOCAL_CLUSTER, "spark.sql.adaptive.enabled": "true"},
        {"spark.remote": "local[2]"},
    ],
    ids=["speculation", "local-cluster", "local-cluster, adaptive", "connect"],
)
def test_every_master_gives_one_answer(place: Place, expected: str, settings: dict[str, str]) -> None:
    assert run_job(place, settings).digests == {expected}


@pytest.mark.whole
def test_two_hundred_partitions_give_the_same_answer(place: Place, expected: str) -> None:
    ways = [
        {"partitions": 200, "conf": {"spark.sql.shuffle.partitions": "7"}},
        {"conf": {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "false"}},
    ]
    ended = run_job(place, {"spark.master": "local[2]"}, "--ways", json.dumps(ways))
    assert ended.digests == {expected}


@pytest.mark.whole
def test_a_task_that_a_second_copy_overtakes_changes_nothing(place: Place, expected: str) -> None:
    """Two workers with addresses of their own, for Spark starts the copy on another host only."""
    with standalone_cluster(place) as master:
        settings = {"spark.master": master, **APART, **EAGER}
        ended = run_job(place, settings, "--meddle", "lag")
    assert ended.digests == {expected}
    assert (place.marks / "reduce-0-1").exists(), "there was no second copy"


# --- an executor dies -----------------------------------------------------------------------------------


def logged(place: Place) -> dict[str, str]:
    """Settings by which Spark writes down what ran."""
    (place.path / "events").mkdir()
    place_of_events = f"file:{place.path / 'events'}"
    return {
        **ON_TWO_EXECUTORS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": place_of_events,
    }


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
