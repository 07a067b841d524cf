"""Applications under Spark's launcher, and executors that die in the middle of one."""

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType

from running import APART, Outcome, Place, running, wait_until

NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


def submit_command(
    place: Place, master: str, *application: str, settings: Mapping[str, str] = NOTHING_MORE
) -> list[str]:
    """An application under Spark's launcher, on two executors."""
    launcher = str(place.spark_home / "bin" / "spark-submit")
    chosen = [f"--conf={name}={value}" for name, value in {**APART, **settings}.items()]
    return [launcher, "--master", master, *chosen, *application]


def submitted(
    place: Place, master: str, *application: str, settings: Mapping[str, str] = NOTHING_MORE
) -> Outcome:
    """How an application ends under Spark's launcher."""
    command = submit_command(place, master, *application, settings=settings)
    with running(command, place, "submitted") as process:
        return process.wait()


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
