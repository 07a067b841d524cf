"""How much it costs to randomize a survey's answers, beside a plain copy of them, in one Spark session.

    python benchmarks/survey_randomize.py [--people 10000000] [--unit number|text]

Answers of so many people to one question of 277 categories, 253 of them sensitive, in 51 groups; read from
Parquet and written as Parquet, epsilon 1, mechanism `ubd`. In turn: a plain copy of the three columns; each
row randomized by the functions of workers in one pass, without the shuffle that keeps one answer of a person
(`alone`); reports as a survey makes them (`once`); the same without those of half the people, whose reports
are stored (`joined`). Then counts of all reports, beside a plain count of two columns of the answers. Medians
and ranges are of the runs after one warm-up; CPU seconds are of this process and all below it. The table is
made once and kept in the temporary directory.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from measuring import Cost, in_turn, ratios
from printing import arguments, head, line, median_and_range
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tables import session

from dp_spark.frames.packing import columns_of
from dp_spark.frames.session import pinned
from dp_spark.frames.stored_reports import WRITING
from dp_spark.frames.survey import drawing_of, not_yet, randomized, report_counts, report_schema
from dp_spark.frames.survey_reports import Drawing, codes_of, reports_of
from dp_spark.release.spec import SurveySpec
from dp_spark.release.survey import SurveyPlan, plan_survey

CATEGORIES, NOT_SENSITIVE, STATES = 276, 24, 51  # and the catch-all
KEY = bytes(range(32))


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = arguments(__doc__)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--unit", choices=["number", "text"], default="number")
    return parser.parse_args()


def stored_answers(spark: SparkSession, people: int, unit: str) -> DataFrame:
    """The answers, made as Parquet where they are not kept yet."""
    path = Path(tempfile.gettempdir()) / f"dp_spark_survey_{people}_{unit}"
    if not (path / "_SUCCESS").exists():
        number = F.xxhash64("id")
        person = number if unit == "number" else F.format_string("%016x", number)
        work = F.pmod(F.xxhash64("id", F.lit("work")), F.lit(CATEGORIES))
        state = F.pmod(F.xxhash64("id", F.lit("state")), F.lit(STATES))
        spark.range(people).select(
            person.alias("person"),
            F.format_string("occupation %03d", work).alias("work"),
            F.format_string("state %02d", state).alias("state"),
        ).write.mode("overwrite").parquet(str(path))
    return spark.read.parquet(str(path))


def survey_plan(method: str = "likelihood") -> SurveyPlan:
    """The plan of the survey that is measured."""
    spec = SurveySpec(
        survey="work",
        unit={"column": "person", "on_null": "drop"},
        answer="work",
        domain={"categories": {f"occupation {i:03d}": i >= NOT_SENSITIVE for i in range(CATEGORIES)}},
        epsilon=1,
        group_by=["state"],
        groups={"public": [f"state {i:02d}" for i in range(STATES)]},
        budget={"population": "people"},
        estimate={"method": method},
        publish=[{"sink": "parquet", "path": "out"}],
    )
    return plan_survey(spec)


def drawn_alone(batches: Iterator[pa.RecordBatch], *, drawing: Drawing) -> Iterator[pa.RecordBatch]:
    """What both workers do, row by row, without what keeps one answer of a person."""
    for batch in batches:
        ids, group, *values = columns_of(batch, drawing.packing, KEY)
        yield reports_of(ids, group, codes_of(values, drawing), drawing, KEY)


def alone(frame: DataFrame, plan: SurveyPlan) -> DataFrame:
    """Reports of a frame in which each person has one row."""
    rows = frame.select("person", "state", "work")
    draw = partial(drawn_alone, drawing=drawing_of(frame, plan))
    return rows.mapInArrow(draw, report_schema(plan))


def written(made: Callable[[], DataFrame], path: Path) -> Callable[[], object]:
    """An action that makes a frame and writes it."""
    return lambda: made().write.mode("overwrite").options(**WRITING).parquet(str(path))


def measured_costs(spark: SparkSession, given: argparse.Namespace, scratch: Path) -> dict[str, list[Cost]]:
    """What everything cost, by name."""
    frame, plan = stored_answers(spark, given.people, given.unit), survey_plan()
    make = partial(randomized, frame, plan=plan, wave_key=KEY)
    written(make, scratch / "all")()
    batches = spark.read.parquet(str(scratch / "all"))
    written(lambda: batches.where(F.hex("token") < "8"), scratch / "half")()
    half = spark.read.parquet(str(scratch / "half"))
    actions: dict[str, Callable[[], object]] = {
        "copy": written(lambda: frame, scratch / "copy"),
        "alone": written(lambda: alone(frame, plan), scratch / "alone"),
        "once": written(make, scratch / "once"),
        "joined": written(lambda: not_yet(make(), stored=half), scratch / "joined"),
        "plain count": written(lambda: frame.groupBy("state", "work").count(), scratch / "plain"),
        "report counts": written(lambda: report_counts(batches), scratch / "counts"),
    }
    return dict(zip(actions, in_turn([*actions.values()], given.runs), strict=True))


def main() -> None:
    """Measure and print."""
    given = parsed()
    spark, scratch = session(given.memory), Path(tempfile.mkdtemp(prefix="survey_"))
    try:
        with pinned(spark):
            costs = measured_costs(spark, given, scratch)
    finally:
        spark.stop()
        shutil.rmtree(scratch)
    print(f"{given.people:,} people, unit a {given.unit}; ratios to the plain copy or count\n")
    print(head("", "wall s", "ratio", "CPU s", "ratio"))
    for name, cost in costs.items():
        base = costs["plain count" if "count" in name else "copy"]
        print(line(name, *_cells(cost, base, "wall"), *_cells(cost, base, "cpu")))


def _cells(costs: Sequence[Cost], base: Sequence[Cost], what: str) -> tuple[str, str]:
    seconds = median_and_range([getattr(cost, what) for cost in costs], 1)
    return seconds, median_and_range(ratios(costs, base, what), 2)


if __name__ == "__main__":
    main()
