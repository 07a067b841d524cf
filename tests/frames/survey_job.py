"""A survey's reports are made and counted by a Spark that tells everything it can; its plans go to a file.

python tests/frames/survey_job.py PLACE
"""

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

from surveys import KEY, survey_plan

from dp_spark.frames.session import pinned, start_session
from dp_spark.frames.survey import not_yet, randomized, report_counts

DECOY = "decoy-in-a-setting"
CANARY = "answer-of-a-row"


def main() -> None:
    """Make, join, write and count the reports of two nights."""
    place = Path(sys.argv[1])
    (place / "events").mkdir()
    spark = start_session(
        {
            "spark.master": "local[1]",
            "spark.sql.shuffle.partitions": "1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file:{place / 'events'}",
            "spark.log.level": "DEBUG",
            "spark.driver.extraJavaOptions": "-Dlog4j2.level=DEBUG",
            "spark.dp.decoy": DECOY,
        }
    )
    rows = [(i, CANARY, "CA") for i in range(50)]
    plan, told = survey_plan(), io.StringIO()
    spark.createDataFrame(rows, "person long, work string, state string").write.parquet(str(place / "input"))
    with pinned(spark):
        frame = spark.read.parquet(str(place / "input"))
        reports = randomized(frame, plan=plan, wave_key=KEY)
        reports.write.parquet(str(place / "batch-1"))
        stored = spark.read.parquet(str(place / "batch-1"))
        left = not_yet(reports, stored=stored)
        left.write.parquet(str(place / "batch-2"))
        counts = report_counts(stored)
        counts.write.parquet(str(place / "counts"))
        with redirect_stdout(told):
            for each in (left, counts):
                each.explain("extended")
                each.explain("formatted")
                each.explain("codegen")
        assert left.count() == 0
        assert stored.count() == 50
    (place / "plans").write_text(told.getvalue())
    spark.stop()


if __name__ == "__main__":
    main()
