"""`doctor`: what this machine and this profile lack, each with a way out."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from dp_spark.errors import Refusal, SetupRefused
from dp_spark.release.ledger import load_master_key
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.release.warehouse import require_reachable

_LEAST_JAVA = 17


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    fine: bool
    seen: str
    way_out: str = ""


def examine(profile: str | None, *, as_json: bool) -> None:
    """Print every finding.

    Raises:
        SetupRefused: something is missing.
    """
    findings = list(_findings(profile))
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings]) + "\n")
    else:
        console = Console(highlight=False, soft_wrap=True)
        for finding in findings:
            mark = "[green]ok[/]  " if finding.fine else "[bold red]lack[/]"
            console.print(f"{mark} {finding.what:<12} ", end="")
            console.print(finding.seen, markup=False)
            if not finding.fine:
                console.print(f"{'':18}way out: {finding.way_out}", markup=False)
    lacking = [finding.what for finding in findings if not finding.fine]
    if lacking:
        raise SetupRefused(
            "setup_lacking",
            f"this installation lacks: {', '.join(lacking)}",
            way_out="follow the way out of each finding, then run `dp-spark doctor` again",
        )


def _findings(profile: str | None) -> Iterator[Finding]:
    yield Finding("python", True, sys.version.split()[0])
    yield _java()
    yield _spark()
    try:
        places = load_profile(profile)
    except Refusal as refusal:
        yield Finding("profile", False, refusal.message, refusal.way_out)
        return
    kind = "embedded, under ./.dp_spark" if places.embedded else f"of {places.root}"
    yield Finding("profile", True, kind)
    key = _asked("master key", lambda: load_master_key(places.master_key), places.master_key)
    yield key
    if key.fine:
        yield _asked("ledger", lambda: open_ledger(places), places.ledger_url)
    else:
        seen = f"{places.ledger_url}: not looked at without its master key"
        yield Finding("ledger", False, seen, "mend the master key first")
    for name, connection in places.connections.items():
        yield _asked(f"connection {name}", partial(require_reachable, name, connection), connection.url)
    yield _writable("staging", places.staging)
    yield _writable("statements", places.statements)


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else None)
    way_out = f"install a JDK of version {_LEAST_JAVA} or newer, or set JAVA_HOME to one"
    if program is None:
        return Finding("java", False, f"none in {home or 'PATH'}", way_out)
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(\d+)', told)
    number = int(version[1]) if version else 0
    return Finding("java", number >= _LEAST_JAVA, f"{program}, version {number or 'unknown'}", way_out)


def _spark() -> Finding:
    try:
        import pyspark  # noqa: PLC0415  # a cluster's own is on PYTHONPATH, and no installed package

        return Finding("spark", True, f"pyspark {pyspark.__version__}")
    except ImportError:
        return Finding("spark", False, "no pyspark", "pip install 'dp-spark[spark]'")


def _asked(what: str, question: Callable[[], object], seen: str) -> Finding:
    try:
        question()
    except Refusal as refusal:
        return Finding(what, False, refusal.message, refusal.way_out)
    return Finding(what, True, seen)


def _writable(what: str, directory: Path) -> Finding:
    nearest = next(path for path in (directory, *directory.parents) if path.exists())
    fine = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    return Finding(what, fine, str(directory), f"make {nearest} a directory that you may write")
