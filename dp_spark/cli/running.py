"""`run`: one release from the command line or from spark-submit."""

import json
import sys
from pathlib import Path

from dp_spark.cli.guard import ERRORS
from dp_spark.cli.progress import progress
from dp_spark.frames.session import start_session
from dp_spark.pipeline import run_release
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import load_spec
from dp_spark.report import result_json, result_text


def run_command(
    spec: Path, key: str, *, profile: str | None, as_json: bool, revise: str | None = None
) -> None:
    """Run one release and print what was done.

    Raises:
        Refusal: as `run_release`.
    """
    release, places = load_spec(spec), load_profile(profile)
    with progress(ERRORS, f"{release.release} {key}") as observe:
        result = run_release(
            release,
            key,
            profile=places,
            spark=lambda: start_session(places.spark),
            revise=revise,
            observe=observe,
        )
    sys.stdout.write(json.dumps(result_json(result)) + "\n" if as_json else f"{result_text(result)}\n")
