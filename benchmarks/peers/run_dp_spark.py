"""Our own complete release, from reading to the staged artefact, measured as the others are."""

from importlib.metadata import version

from peer import MAX_GROUPS, PLACES, Answers, plain_on_spark, report, table_path
from tables import Shape, Table, complete_release, plan, session


def main() -> None:
    """Measure and print."""
    spark = session()
    frame = spark.read.parquet(table_path())
    ours = plan(Table(0, Shape.VISITS, len(PLACES)), max_groups=MAX_GROUPS)
    staged = complete_release(frame, ours)

    def release() -> Answers:
        table = staged()
        sums = (float(sum(table[name].to_pylist())) for name in ("visits", "spent", "people"))
        return Answers(len(table), *sums)

    report(release, plain_on_spark(frame), version=version("dp-spark"), engine=f"Spark {spark.version}")
    spark.stop()


if __name__ == "__main__":
    main()
