"""The nightly job of an open wave: `spark-submit jobs/randomize_survey.py --spec SPEC --wave 2024q1`."""

import argparse
import sys
from functools import partial
from pathlib import Path

from dp_spark.cli.guard import guarded
from dp_spark.cli.results import wave_outcome, with_result
from dp_spark.cli.surveying import randomize_command


def main() -> int:
    """Give a report to everybody who has none yet, print how many as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description="Randomize the answers that came in.")
    parser.add_argument("--spec", type=Path, required=True, help="YAML file of the survey")
    parser.add_argument("--wave", required=True, help="name of the wave, such as 2024q1")
    parser.add_argument("--profile", help="dp_spark.toml; default: DP_SPARK_PROFILE, or what lies here")
    parser.add_argument("--result", type=Path, metavar="FILE", help="leave state, cost and what is left here")
    given = parser.parse_args()
    step = partial(randomize_command, given.spec, given.wave, profile=given.profile, as_json=True)
    facts = partial(wave_outcome, given.spec, given.wave, profile=given.profile)
    return guarded(with_result(step, given.result, facts), as_json=True)


if __name__ == "__main__":
    sys.exit(main())
