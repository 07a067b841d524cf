"""What an action costs: wall seconds, and CPU seconds and memory of this process and all below it.

Needs nothing but Linux's /proc, so that it also measures engines in environments of their own.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PYTHON_WORKER = b"pyspark.daemon"
_RESET_PEAK = "5"  # see clear_refs in proc(5)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call took.

    Attributes:
        wall: seconds that passed.
        cpu: user and system seconds of all processes.
        worker_bytes: most memory that a Python worker of Spark held at once.
        tree_bytes: the sum of the most that each process held, so never less than all held at once.
    """

    wall: float
    cpu: float
    worker_bytes: int
    tree_bytes: int


def measured(action: Callable[[], object]) -> Cost:
    """The cost of one call."""
    for process in _tree():
        _forget_peak(process)
    cpu, wall = tree_cpu_seconds(), time.perf_counter()
    action()
    wall, cpu = time.perf_counter() - wall, tree_cpu_seconds() - cpu
    return Cost(wall, cpu, *_peaks())


def in_turn(actions: Sequence[Callable[[], object]], runs: int) -> list[list[Cost]]:
    """For each action the costs of `runs` calls after one warm-up; actions take turns."""
    rounds = [[measured(action) for action in actions] for _ in range(runs + 1)][1:]
    return [list(costs) for costs in zip(*rounds, strict=True)]


def tree_cpu_seconds() -> float:
    """User and system seconds so far, with those of processes that have ended."""
    ticks = sum(sum(map(int, fields[11:15])) for fields in _tree().values())
    return ticks / os.sysconf("SC_CLK_TCK")


def ratios(ours: Sequence[Cost], theirs: Sequence[Cost], what: str) -> list[float]:
    """What ours cost in units of what theirs did, run by run; `what` is "wall" or "cpu"."""
    return [getattr(one, what) / getattr(other, what) for one, other in zip(ours, theirs, strict=True)]


def _tree() -> dict[int, list[str]]:
    """This process and all that descend from it: what /proc says of each behind its name."""
    fields: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            children.setdefault(int(fields[int(entry.name)][1]), []).append(int(entry.name))
    waiting, found = [os.getpid()], {}
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        if process in fields:
            found[process] = fields[process]
    return found


def _forget_peak(process: int) -> None:
    """Let the kernel count the process's peak anew; where it may not, the peak is that of its life."""
    try:
        Path(f"/proc/{process}/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return


def _peaks() -> tuple[int, int]:
    """Bytes of the largest Python worker, and of all processes together."""
    peaks = list(_peak_of_each())
    workers = [peak for is_worker, peak in peaks if is_worker]
    return max(workers, default=0), sum(peak for _, peak in peaks)


def _peak_of_each() -> Iterator[tuple[bool, int]]:
    for process in _tree():
        place = Path(f"/proc/{process}")
        try:
            status, command = (place / "status").read_text(), (place / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        peak = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
        yield _PYTHON_WORKER in command, sum(peak)
