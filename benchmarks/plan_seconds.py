"""Seconds, after imports, to calibrate and choose noise jointly: five totals, one release and a year of them.

python benchmarks/plan_seconds.py
"""

import time
from fractions import Fraction

import dp_accounting.pld.pld_pmf  # noqa: F401 - its import is not what is measured

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.joint import Part, least_variance_jointly

GUARANTEE = PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))
SENSITIVITIES = {1: (64, 50, 48, 33, 10), 365: (3, 2, 2, 1, 1)}  # near 1,024 grid steps in a std


def main() -> None:
    """Measure and print: wall and processor seconds."""
    for horizon, sensitivities in SENSITIVITIES.items():
        parts = [Part(sensitivity, 3) for sensitivity in sensitivities]
        wall, processor = time.perf_counter(), time.process_time()
        choice = least_variance_jointly(parts, GUARANTEE, horizon=horizon)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        entries = ", ".join(f"{table.entries:,}" for table in choice.tables)
        print(f"five totals of 3 cells, horizon {horizon}: {wall:.2f} s ({processor:.2f} s of processor)")
        print(f"  {choice.family}; next {choice.runner_up}, ratio {choice.ratio:.4f}; entries {entries}")


if __name__ == "__main__":
    main()
