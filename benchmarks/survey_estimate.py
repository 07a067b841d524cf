"""How long it takes to count the reports of a survey's wave and to estimate the shares of each group.

    python benchmarks/survey_estimate.py [--people 10000000]

Reports of so many people on one question of 277 categories, 253 of them sensitive, in 51 groups; epsilon 1,
mechanism `ubd`. In turn: the shuffle that counts reports by group; the decoding of all groups by Python
workers, by each method; that of everybody by the driver, by `likelihood`. Medians and ranges are of
the runs after one warm-up; CPU seconds are of this process and all below it.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import in_turn
from printing import arguments, head, line, median_and_range
from pyspark.sql import SparkSession
from survey_randomize import STATES, survey_plan
from tables import session

from dp_spark.frames.collect import to_arrow
from dp_spark.frames.session import pinned
from dp_spark.frames.stored_reports import counted_reports, stored_reports
from dp_spark.frames.survey import report_counts
from dp_spark.frames.survey_estimates import decoded
from dp_spark.publish.survey_tables import counts_table
from dp_spark.release.survey import SurveyPlan
from dp_spark.uldp import ReportCounts

FILES = 4


def write_drawn(plan: SurveyPlan, people: int, path: Path) -> None:
    """Reports of people whose answers are skewed, each state in its own way, as batches hold them."""
    path.mkdir()
    made, shares = plan.mechanism, np.random.default_rng(1)
    of_state = shares.dirichlet(np.full(made.n_categories, 0.5), STATES).cumsum(axis=1)
    for i, some in enumerate(np.array_split(np.arange(people), FILES)):
        random = np.random.default_rng(i + 2)
        state, uniform = random.integers(0, STATES, len(some)), random.random(len(some))
        codes = np.empty(len(some), dtype=np.int64)
        for each in range(STATES):
            at = np.flatnonzero(state == each)
            codes[at] = np.searchsorted(of_state[each, :-1], uniform[at], side="right")
        words = random.integers(0, 2**64, (len(some), made.n_words), dtype=np.uint64)
        columns = {
            "token": pa.array(np.frombuffer(random.bytes(16 * len(some)), "S16"), pa.binary()),
            "group": pa.array(state, pa.int32()),
            "report": pa.array(made.randomize(codes, words), pa.int32()),
        }
        pq.write_table(pa.table(columns), path / f"part-{i}.parquet", use_dictionary=["group", "report"])


def decode(spark: SparkSession, counts: Path, plan: SurveyPlan) -> pa.Table:
    """The shares of all groups, from the counts of a wave."""
    return to_arrow(decoded(counted_reports(spark, str(counts), plan), plan=plan))


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--people", type=int, default=10_000_000)
    given = parser.parse_args()
    plan, spark = survey_plan(), session(given.memory)
    with tempfile.TemporaryDirectory(prefix="survey_") as scratch, pinned(spark):
        reports, counts = Path(scratch) / "reports", Path(scratch) / "counts.parquet"
        write_drawn(plan, given.people, reports)
        stored = stored_reports(spark, [str(reports)], plan)
        counted = to_arrow(report_counts(stored))
        pq.write_table(counts_table(plan, "w", counted), counts)
        everybody = ReportCounts(counted["report"].to_numpy(), counted["n"].to_numpy())
        actions: dict[str, Callable[[], object]] = {
            "count shuffle": lambda: to_arrow(report_counts(stored)),
            **{
                f"{STATES} groups, {method}": partial(decode, spark, counts, survey_plan(method))
                for method in ("likelihood", "linear")
            },
            "everybody, on the driver": partial(plan.mechanism.estimate, everybody),
        }
        costs = dict(zip(actions, in_turn([*actions.values()], given.runs), strict=True))
    spark.stop()
    print(f"{given.people:,} people, {counted.num_rows:,} counts\n")
    print(head("", "wall s", "CPU s"))
    for name, cost in costs.items():
        wall, cpu = [each.wall for each in cost], [each.cpu for each in cost]
        print(line(name, median_and_range(wall), median_and_range(cpu)))


if __name__ == "__main__":
    main()
