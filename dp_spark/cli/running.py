"""`run`: one release from the command line or from spark-submit."""

import json
import sys
from pathlib import Path

from dp_spark.cli.guard import ERRORS
from dp_spark.cli.progress import progress
from dp_spark.frames.session import start_session
from dp_spark.pipeline import RunResult, run_release
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import load_spec
from dp_spark.report.figures import exact


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


def result_json(result: RunResult) -> dict[str, object]:
    """What a run did, for machines."""
    return {
        "release": str(result.release),
        "charged": None
        if result.charged is None
        else {"epsilon": str(result.charged.epsilon), "delta": str(result.charged.delta)},
        "digest": result.digest,
        "rows": result.table.num_rows,
        "published": list(result.published),
        "statement": str(result.statement),
        "warning": None if result.warning is None else result.warning.as_json(),
        "ledger_head": result.head,
    }


def result_text(result: RunResult) -> str:
    """What a run did, for people."""
    charged = (
        "nothing: this release was paid before"
        if result.charged is None
        else f"epsilon {exact(result.charged.epsilon)}, delta {exact(result.charged.delta)}"
    )
    lines = [
        f"sealed     {result.release} ({result.table.num_rows} rows)",
        f"charged    {charged}",
        f"digest     {result.digest}",
        *(f"published  {target}" for target in result.published),
        f"statement  {result.statement}",
    ]
    if result.warning is not None:
        left = f"{float(result.warning.share):.1%} of the budget of {result.warning.population} is left"
        lines.append(f"warning    {result.warning.level}: {left}")
    return "\n".join(lines)
