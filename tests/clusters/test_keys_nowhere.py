"""Keys and rows stand in nothing that Spark, a worker or we write, or that anybody can read of a process.

The restricted zone, which only operators may read, is: the input; Spark's local directories (shuffled rows);
the executors' work directories (their logs may quote a row if a library's message does); and the event log,
which holds the paths of files and the names of columns and groups, all of them from the spec, and no value of
a row. Keys are in none of them. The ledger holds release keys only under the master key.
"""

import json
import os
from pathlib import Path

import pytest
from running import APART, CANARY, KEY, Place, Running, job_command, make_life, run_job, running, wait_until
from searching import files_below, forms, found_in, found_in_files, secrets_of

DECOY = bytes(range(200, 232))  # a secret that a careless program would have put in settings and environment


def test_the_search_finds_a_planted_key_in_every_form() -> None:
    secrets = secrets_of(KEY)
    for name, secret in secrets.items():
        for form, text in forms(secret).items():
            assert f"{name}: {form}" in found_in(b"key=" + text + b";", secrets)
        for whole in (secret, secret.hex().encode(), repr(secret).encode(), repr(list(secret)).encode()):
            assert found_in(b"#" + whole, secrets)
    assert not found_in(os.urandom(1_000_000), secrets)


def watched(place: Place, **settings: str) -> dict[str, str]:
    """Settings of a Spark that tells everything it can."""
    (place.path / "events").mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{place.path / 'events'}",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "DEBUG",
        "spark.driver.extraJavaOptions": "-Dlog4j2.level=DEBUG",  # and not our silent log
        "spark.dp.decoy": DECOY.hex(),
        **settings,
    }


def look_at_processes(job: Running, place: Path) -> int:
    """Write down arguments and environment of every process of the job; how many there are."""
    members = job.members()
    for process in members:
        for what in ("environ", "cmdline"):
            try:
                content = Path(f"/proc/{process}/{what}").read_bytes()
            except OSError:  # it has ended
                continue
            (place / f"{what}-{process}").write_bytes(content)
    return len(members)


def test_no_key_is_in_logs_plans_settings_pages_arguments_environments_or_files(place: Place) -> None:
    """A whole life on executors of their own, with every log on; a decoy shows that these places are read."""
    make_life(place, watched(place, **{"spark.master": "local-cluster[2,1,1024]"}, **APART))
    told, local = place.path / "told", place.path / "local-copy"
    told.mkdir()
    command = job_command(place, {}, "--life", "--meddle", "hold", "--tell", str(told))
    with running(command, place, DP_DECOY=DECOY.hex()) as job:
        wait_until(lambda: len(list(place.marks.iterdir())) >= 2, "two reduce tasks", job)
        assert look_at_processes(job, told) >= 6  # the driver, its JVM, two executors and their workers
        copy_files(place.path / "local", local)
        (place.marks / "go").touch()
        ended = job.wait()
    assert ended.code == 0, ended.err[-4000:]

    secrets = {**secrets_of(KEY), "master": bytes.fromhex(master_key(place))}
    master_file = place.path / ".dp_spark" / "master.key"
    searched = [file for file in files_below(place.path) if file not in (place.path / "key", master_file)]
    assert found_in_files(searched, secrets) == {}
    assert found_in(master_file.read_bytes(), secrets)

    # The places were there, and hold what one does not keep from them.
    events, work = place.path / "events", place.spark_home / "work"
    with_decoy = {Path(file) for file in found_in_files(files_below(told, events), {"decoy": DECOY})}
    names = {file.name.partition("-")[0] for file in with_decoy}
    assert {"environ", "settings.txt", "environment.json"} <= names
    assert with_decoy & set(files_below(events))
    assert "DEBUG" in ended.err
    assert files_below(work)
    assert "MapInArrow" in (told / "explain.txt").read_text()
    assert files_below(local)

    # No row leaves the restricted zone.
    public = [*files_below(told, events, place.path / "out"), place.path / "job.out"]
    assert [str(file) for file in public if CANARY.encode() in file.read_bytes()] == []


def master_key(place: Place) -> str:
    return (place.path / ".dp_spark" / "master.key").read_text().strip()


def copy_files(source: Path, target: Path) -> None:
    """What is below `source` now; files that vanish meanwhile are left out."""
    target.mkdir()
    for i, file in enumerate(files_below(source)):
        try:
            (target / f"{i}-{file.name}").write_bytes(file.read_bytes())
        except OSError:
            continue


@pytest.mark.parametrize("fate", ["blab", pytest.param("die", marks=pytest.mark.whole)])
def test_a_worker_that_fails_tells_neither_key_nor_row(place: Place, fate: str) -> None:
    """It quotes its rows in an exception, as libraries do, or its process is killed."""
    make_life(place, {"spark.master": "local[2]"})
    ended = run_job(place, {}, "--life", "--meddle", fate)
    assert ended.code == 8
    (refusal,) = ended.lines
    assert "reading_failed" in json.dumps(refusal)
    assert (place.marks / "reduce-0-0").exists()
    said = (ended.out + ended.err).encode()
    assert CANARY.encode() not in said
    assert not found_in(said, {**secrets_of(KEY), "master": bytes.fromhex(master_key(place))})
    assert "Traceback" not in ended.err
    assert "default log4j profile" not in ended.err, "Spark did not take our silent log"


@pytest.mark.whole
def test_no_key_is_in_what_a_connect_server_writes(place: Place) -> None:
    """Functions travel to the server inside plans, of which it shows and logs a part."""
    make_life(place, watched(place, **{"spark.remote": "local[2]"}))
    ended = run_job(place, {}, "--life")
    assert ended.code == 0, ended.err[-4000:]
    own = (place.path / "key", place.path / ".dp_spark" / "master.key")
    searched = [file for file in files_below(place.path) if file not in own]
    secrets = {**secrets_of(KEY), "master": bytes.fromhex(master_key(place))}
    assert found_in_files(searched, secrets) == {}
    assert found_in_files(files_below(place.path / "events"), {"decoy": DECOY})
    assert CANARY.encode() not in b"".join(file.read_bytes() for file in files_below(place.path / "events"))
