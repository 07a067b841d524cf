"""The job that ends a wave: `spark-submit jobs/estimate_survey.py --spec SPEC --wave 2024q1 --close`."""

import argparse
import sys
from functools import partial
from pathlib import Path

from dp_spark.cli.guard import guarded
from dp_spark.cli.results import wave_outcome, with_result
from dp_spark.cli.surveying import close_and_estimate_command, estimate_command


def main() -> int:
    """Estimate, publish and seal a wave, print the result as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description="Estimate the shares of a wave, publish and seal it.")
    parser.add_argument("--spec", type=Path, required=True, help="YAML file of the survey")
    parser.add_argument("--wave", required=True, help="name of the wave, such as 2024q1")
    parser.add_argument("--close", action="store_true", help="close it first: nobody can be added after that")
    parser.add_argument("--profile", help="dp_spark.toml; default: DP_SPARK_PROFILE, or what lies here")
    parser.add_argument("--result", type=Path, metavar="FILE", help="leave state, cost and what is left here")
    given = parser.parse_args()
    command = close_and_estimate_command if given.close else estimate_command
    step = partial(command, given.spec, given.wave, profile=given.profile, as_json=True)
    facts = partial(wave_outcome, given.spec, given.wave, profile=given.profile)
    return guarded(with_result(step, given.result, facts), as_json=True)


if __name__ == "__main__":
    sys.exit(main())
