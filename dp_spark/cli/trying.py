"""`plan --public-sample`: bounds tried on public rows, before there is a plan."""

import json
import sys
from pathlib import Path

from rich.console import Console

from dp_spark.errors import SetupRefused
from dp_spark.frames.public_sample import read_sample
from dp_spark.release.spec import ReleaseSpec, load_spec
from dp_spark.release.trial import tried_bounds
from dp_spark.report.trial import print_trial, trial_json


def try_bounds(
    spec: Path, sample: Path | None, *, rate: float | None, html: Path | None, as_json: bool
) -> None:
    """Print clipping bias against noise for bounds near the best ones on a public sample, and the best."""
    if sample is None:
        raise SetupRefused(
            "sample_missing",
            f"--sample-rate {rate} says how much of a period a sample is, and there is none",
            way_out="add --public-sample FILE, or remove it",
        )
    if html is not None:
        raise SetupRefused(
            "sample_without_page",
            f"--html {html} writes a plan; --public-sample makes none",
            way_out="remove one of the two; --json gives everything that a trial finds",
        )
    share = 1.0 if rate is None else rate
    if not 0 < share <= 1:
        raise SetupRefused(
            "sample_rate_range",
            f"--sample-rate {share:g} is no share (allowed: 0 < rate <= 1)",
            way_out="write for instance 0.01 where the sample has one unit in a hundred",
        )
    release = load_spec(spec)
    trial, notes = tried_bounds(release, read_sample(sample, release, share)), _notes(release)
    if as_json:
        sys.stdout.write(json.dumps(trial_json(trial, notes)) + "\n")
    else:
        print_trial(Console(highlight=False), trial, notes)


def _notes(spec: ReleaseSpec) -> list[str]:
    """What the sample was taken for."""
    notes = []
    if spec.where is not None or spec.derive:
        notes.append("Rows are taken as filtered and derived already.")
    if not spec.groups.in_spec:
        notes.append("The groups are those of the sample.")
    if spec.period is not None:
        notes.append(f"All rows count as those of one {spec.period.every}: give rows of no more.")
    if spec.groups.private is not None:
        notes.append("What selecting groups costs is left out.")
    return notes
