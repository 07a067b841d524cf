"""dp_spark beside its peers, each in an environment of its own, on the same table with the same bounds.

    benchmarks/peers/run [--rows 1000000] [--only dp_spark tumult] [--home DIRECTORY]

Table `visits` with 1,000 public places; count, sum of euros in [0, 100] and distinct people of each; of a
person at most 5 places and 3 rows in each; epsilon 1, delta 1e-6. Each engine runs in a fresh process: the
second release is measured, so neither session start nor first compilation counts; beside it stand the CPU
seconds of the process's whole life until the end of the first one. CPU seconds and memory are of all
processes. An engine's plain query (count, sum, mean) runs in the same process; PipelineDP in plain Python has
none, and is compared with ours. An engine that cannot be installed, or fails, is told of and passed over.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peer import MARK
from printing import arguments, head, line, megabytes
from tables import GROUPS, Shape, Table, session, stored

HERE = Path(__file__).parent
UV = Path(sys.executable).with_name("uv")
OURS = "dp_spark"
HEAD = (
    "engine",
    "CPU s",
    "wall s",
    "CPU, ours = 1",
    "plain, CPU s",
    "CPU, plain = 1",
    "memory",
    "first release with start, CPU s",
    "rows",
    "people",
)


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine to run: its script, the words behind the table, and the list of what it needs.

    `requirements` None says that it runs in this environment.
    """

    script: str
    words: tuple[str, ...] = ()
    requirements: str | None = None


PEERS = {
    OURS: Peer("run_dp_spark.py"),
    "tumult": Peer("run_tumult.py", requirements="tumult.txt"),
    "opendp": Peer("run_opendp.py", requirements="opendp.txt"),
    "pipelinedp": Peer("run_pipelinedp.py", requirements="pipelinedp.txt"),
    "pipelinedp_local": Peer("run_pipelinedp.py", ("local",), "pipelinedp.txt"),
}


class Unavailable(Exception):
    """An engine that cannot be measured here, and why."""


def environment(requirements: str, home: Path, python: str) -> Path:
    """The Python of an environment that holds what the list says; made where it is not there yet.

    Raises:
        Unavailable: it could not be made.
    """
    listed = HERE / requirements
    place = home / listed.stem
    ready, wanted = place / "ready", listed.read_text()
    if not (ready.exists() and ready.read_text() == wanted):
        print(f"installing {listed.stem} ...", file=sys.stderr, flush=True)
        only_local = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
        for command in (
            ["venv", "--quiet", "--clear", "--python", python, place],
            ["pip", "sync", "--quiet", "--python", place / "bin" / "python", listed],
        ):
            done = subprocess.run([UV, *command], env=only_local, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Unavailable(f"cannot be installed\n{_last_lines(done.stderr)}")
        ready.write_text(wanted)
    return place / "bin" / "python"


def facts_of(peer: Peer, table: Path, given: argparse.Namespace) -> dict[str, Any]:
    """What the engine's script measured.

    Raises:
        Unavailable: it could not be installed, failed or took too long.
    """
    python = Path(sys.executable)
    if peer.requirements is not None:
        python = environment(peer.requirements, given.home, given.python)
    command = [python, HERE / peer.script, table, *peer.words]
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    own["PYTHONPATH"] = str(HERE.parent)
    try:
        done = subprocess.run(
            command, env=own, capture_output=True, text=True, check=False, timeout=given.timeout
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"was not done within {given.timeout} s") from late
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        raise Unavailable(f"failed\n{_last_lines(done.stderr)}")
    return json.loads(lines[0].removeprefix(MARK))


def _last_lines(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-5:])


def line_of(name: str, facts: dict[str, Any], ours: dict[str, Any] | None) -> str:
    """An engine's line; ratios to ours need ours."""
    release, answers = facts["release"], facts["answers"]
    plain = facts["plain"] or (ours and ours["plain"])
    return line(
        f"{name} {facts['version']}, {facts['engine']}",
        f"{release['cpu']:.2f}",
        f"{release['wall']:.2f}",
        f"{release['cpu'] / ours['release']['cpu']:.1f}" if ours else "-",
        f"{plain['cpu']:.2f}" if plain else "-",
        f"{release['cpu'] / plain['cpu']:.1f}" if plain else "-",
        megabytes(release["tree_bytes"]),
        f"{facts['whole_cpu']:.1f}",
        f"{answers['visits']:,.0f}",
        f"{answers['people']:,.0f}",
    )


def main() -> None:
    """Make the table and the environments, measure, print."""
    parser = arguments(__doc__, runs=None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "dp_spark_peers")
    parser.add_argument("--python", default="3.11", help="of the peers' environments")
    parser.add_argument("--timeout", type=int, default=7200, help="seconds for each engine")
    given = parser.parse_args()

    table = Table(given.rows, Shape.VISITS, GROUPS[Shape.VISITS])
    if not (table.path / "_SUCCESS").exists():
        spark = session()
        stored(spark, table)
        spark.stop()
    found: dict[str, dict[str, Any]] = {}
    for name in given.only:
        try:
            found[name] = facts_of(PEERS[name], table.path, given)
            print(f"{name}: {found[name]['release']['cpu']:.1f} CPU seconds", file=sys.stderr, flush=True)
        except Unavailable as failure:
            print(f"{name} {failure}", file=sys.stderr, flush=True)
    print(f"{table}; CPU and wall seconds of the second release, one run\n")
    print(head(*HEAD))
    for name, facts in found.items():
        print(line_of(name, facts, found.get(OURS)))


if __name__ == "__main__":
    main()
