"""Tumult Analytics on Spark: rows are bounded once, in a view that is kept, and asked three times."""

from importlib.metadata import version

from peer import (
    DELTA,
    EPSILON,
    LOWER,
    MAX_GROUPS,
    MAX_ROWS_PER_GROUP,
    PLACES,
    QUERIES,
    UPPER,
    Answers,
    plain_on_spark,
    report,
    spark_session,
    table_path,
)
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)


def main() -> None:
    """Measure and print."""
    spark = spark_session()
    frame = spark.read.parquet(table_path())
    places = KeySet.from_dict({"place": PLACES})

    def release() -> Answers:
        session = Session.from_dataframe(
            ApproxDPBudget(EPSILON, DELTA), "visits", frame, protected_change=AddRowsWithID("person")
        )
        bounded = (
            QueryBuilder("visits")
            .enforce(MaxRowsPerGroupPerID("place", MAX_ROWS_PER_GROUP))
            .enforce(MaxGroupsPerID("place", MAX_GROUPS))
        )
        session.create_view(bounded, "bounded", cache=True)
        grouped = QueryBuilder("bounded").groupby(places)
        share = ApproxDPBudget(EPSILON / QUERIES, DELTA / QUERIES)
        visits, spent, people = (
            session.evaluate(query, share).collect()
            for query in (
                grouped.count("answer"),
                grouped.sum("euros", LOWER, UPPER, "answer"),
                grouped.count_distinct(["person"], "answer"),
            )
        )
        session.delete_view("bounded")
        sums = (sum(row["answer"] for row in rows) for rows in (visits, spent, people))
        return Answers(len(visits), *sums)

    engine = f"Spark {spark.version}"
    report(release, plain_on_spark(frame), version=version("tmlt.analytics"), engine=engine)
    spark.stop()


if __name__ == "__main__":
    main()
