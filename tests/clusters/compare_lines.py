"""The same release on several Spark lines: a table of digests, and exit code 1 unless all are one.

`python tests/clusters/compare_lines.py PYTHON...`: the Pythons of their environments.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from running import make_place, run_job

WAYS = '[{}, {"partitions": 7, "conf": {"spark.sql.shuffle.partitions": "7"}}]'


def line(python: str) -> tuple[str, set[str], float]:
    """The Spark that this Python has, the digests of the release on it, and the seconds they took.

    No digest stands for a job that failed; what it said goes to stderr.
    """
    start = time.monotonic()
    with TemporaryDirectory() as directory:
        place = make_place(Path(directory) / "place", python=python)
        ended = run_job(place, {"spark.master": "local[2]"}, "--ways", WAYS)
        if ended.code != 0:
            print(ended.err[-2000:], file=sys.stderr)
            return f"{python}: failed", set(), time.monotonic() - start
    return ended.lines[0]["spark"], ended.digests, time.monotonic() - start


def main(pythons: list[str]) -> int:
    """Print the table; 0 if there is one digest."""
    # Not resolved: the path of the link is what makes a Python that of its environment.
    with ThreadPoolExecutor(2) as pool:
        lines = list(pool.map(line, [str(Path.cwd() / each) for each in pythons]))
    for spark, digests, seconds in lines:
        print(f"{spark:<8} {' '.join(sorted(digests))}  {seconds:4.0f} s")
    found = [digests for _, digests, _ in lines]
    one = all(found) and len(set.union(*found)) == 1
    print("one answer on every line" if one else "the lines differ, or one of them failed")
    return 0 if one else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
