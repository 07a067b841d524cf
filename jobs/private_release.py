"""The nightly job: `spark-submit jobs/private_release.py --spec SPEC --key 2013-01-05`."""

import argparse
import sys
from pathlib import Path

from dp_spark.cli.guard import guarded
from dp_spark.cli.running import run_command


def main() -> int:
    """Run one release, print its result as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run one private release.")
    parser.add_argument("--spec", type=Path, required=True, help="YAML file of the release")
    parser.add_argument("--key", required=True, help="first day of the period, YYYY-MM-DD")
    parser.add_argument("--revise", metavar="REASON", help="release the period again, at a new charge")
    parser.add_argument("--profile", help="dp_spark.toml; default: DP_SPARK_PROFILE, or what lies here")
    given = parser.parse_args()
    return guarded(
        lambda: run_command(given.spec, given.key, profile=given.profile, as_json=True, revise=given.revise),
        as_json=True,
    )


if __name__ == "__main__":
    sys.exit(main())
