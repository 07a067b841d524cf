"""The nightly job: `spark-submit jobs/private_release.py --spec SPEC --key 2013-01-05`."""

import argparse
import sys
from functools import partial
from pathlib import Path

from dp_spark.cli.guard import guarded
from dp_spark.cli.results import release_outcome, with_result
from dp_spark.cli.running import privatize_command, publish_command, run_command

STEPS = {"run": run_command, "privatize": privatize_command, "publish": publish_command}


def main() -> int:
    """Run one release or half of it, print its result as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run one private release.")
    parser.add_argument("--spec", type=Path, required=True, help="YAML file of the release")
    parser.add_argument("--key", required=True, help="first day of the period, YYYY-MM-DD")
    parser.add_argument("--step", choices=STEPS, default="run", help="run = privatize, then publish")
    parser.add_argument("--revise", metavar="REASON", help="release the period again, at a new charge")
    parser.add_argument("--profile", help="dp_spark.toml; default: DP_SPARK_PROFILE, or what lies here")
    parser.add_argument("--result", type=Path, metavar="FILE", help="leave state, cost and what is left here")
    given = parser.parse_args()
    about = {"profile": given.profile, "revise": given.revise}
    step = partial(STEPS[given.step], given.spec, given.key, as_json=True, **about)
    facts = partial(release_outcome, given.spec, given.key, **about)
    return guarded(with_result(step, given.result, facts), as_json=True)


if __name__ == "__main__":
    sys.exit(main())
