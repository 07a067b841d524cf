"""What leaves a command: an exit code by class of refusal, and never a text that could quote a row."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from dp_spark.errors import ExitCode, Refusal, SetupRefused

_PACKAGE = Path(__file__).resolve().parents[1]
EXTRAS = {
    "pyspark": "spark",
    "psycopg": "postgres",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "duckdb": "duckdb",
}  # modules that come with an extra
ERRORS = Console(stderr=True, highlight=False)


def guarded(action: Callable[[], ExitCode | None], *, as_json: bool) -> ExitCode:
    """Run a command; print its refusal for people, or as JSON on standard output.

    The code is the refusal's, or that which the action answers with where it has told the refusal itself.
    """
    try:
        return action() or ExitCode.OK
    except Refusal as refusal:
        tell_refusal(refusal, as_json=as_json)
        return refusal.exit_code
    except BrokenPipeError:  # whoever read the output has had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # so that closing it raises nothing either
    except KeyboardInterrupt:
        ERRORS.print("stopped; run the same command again to go on where it stopped", markup=False)
        return ExitCode.INTERRUPTED
    except Exception as failure:  # noqa: BLE001  # its text may quote a row: only class and place are shown
        told = _unexpected(failure)
        tell_refusal(told, as_json=as_json)
        return told.exit_code
    return ExitCode.OK


def tell_refusal(refusal: Refusal, *, as_json: bool) -> None:
    """Print a refusal for people, on standard error, or as JSON."""
    if as_json:
        sys.stdout.write(json.dumps(refusal.as_json()) + "\n")
        return
    ERRORS.print(f"[bold red]refused[/] ({refusal.code}): ", end="")
    ERRORS.print(f"{refusal.message}\nway out: {refusal.way_out}", markup=False, soft_wrap=True)


def _unexpected(failure: Exception) -> Refusal:
    if isinstance(failure, ModuleNotFoundError) and failure.name in EXTRAS:
        return SetupRefused(
            "extra_missing",
            f"{failure.name} is not installed",
            way_out=f"pip install 'dp-spark[{EXTRAS[failure.name]}]'",
        )
    frames = [
        f"{Path(frame.filename).relative_to(_PACKAGE.parent)}:{frame.lineno}"
        for frame in traceback.extract_tb(failure.__traceback__)
        if Path(frame.filename).is_relative_to(_PACKAGE)
    ]
    return Refusal(
        "unexpected",
        f"{type(failure).__name__} at {' < '.join(reversed(frames)) or 'an unknown place'}; "
        "its message is withheld, for it may quote data",
        way_out="run the command again: a release or a wave goes on where it stopped, at no further charge; "
        "if it fails again, report this line",
    )
