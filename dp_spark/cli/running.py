"""`run`, `privatize`, `publish`: one release from the command line or from spark-submit."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dp_spark.cli.guard import ERRORS
from dp_spark.cli.keeping import warn_after_refusal, warn_of
from dp_spark.cli.metrics import measured, of_release
from dp_spark.cli.progress import progress
from dp_spark.errors import Refusal
from dp_spark.frames.session import start_session
from dp_spark.pipeline import privatize_release, publish_release, run_release
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import load_spec
from dp_spark.report import RunResult, result_json, result_text

T = TypeVar("T")


def run_command(
    spec: Path, key: str, *, profile: str | None, as_json: bool, revise: str | None = None
) -> None:
    """Run one release and print what was done.

    Raises:
        Refusal: as `run_release`.
    """
    try:
        result = _done("run", run_release, spec, key, profile, revise)
    except Refusal:
        warn_after_refusal(load_spec(spec), profile)
        raise
    warn_of(result.expiring, result.release.name)
    _tell(result, as_json=as_json)


def publish_command(
    spec: Path, key: str, *, profile: str | None, as_json: bool, revise: str | None = None
) -> None:
    """Publish one staged release and print what was done.

    Raises:
        Refusal: as `publish_release`.
    """
    _tell(_done("publish", publish_release, spec, key, profile, revise), as_json=as_json)


def privatize_command(
    spec: Path, key: str, *, profile: str | None, as_json: bool, revise: str | None = None
) -> None:
    """Stage one release and print its id and state.

    Raises:
        Refusal: as `privatize_release`.
    """
    record = _done("privatize", privatize_release, spec, key, profile, revise)
    assert record.artefact is not None
    facts = {
        "release": str(record.release_id),
        "state": record.state.value,
        "digest": record.artefact.digest,
        "charge": {"epsilon": str(record.charge.epsilon), "delta": str(record.charge.delta)},
    }
    text = f"{record.state}  {record.release_id}  digest {record.artefact.digest}"
    sys.stdout.write((json.dumps(facts) if as_json else text) + "\n")


def _done(
    command: str, work: Callable[..., T], spec: Path, key: str, profile: str | None, revise: str | None
) -> T:
    release, places = load_spec(spec), load_profile(profile)
    subject = of_release(places, release, key, revise)
    with (
        progress(ERRORS, f"{release.release} {key}") as shown,
        measured(shown, subject, command) as observe,
    ):
        return work(
            release,
            key,
            profile=places,
            spark=lambda: start_session(places.spark),
            revise=revise,
            observe=observe,
        )


def _tell(result: RunResult, *, as_json: bool) -> None:
    sys.stdout.write(json.dumps(result_json(result)) + "\n" if as_json else f"{result_text(result)}\n")
