"""Shares of each group from its counted reports, decoded by Python workers beside each other."""

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.group_shares import (
    CODE,
    FLAGS,
    NUMBERS,
    REPORTS,
    Decoding,
    decoded_groups,
    group_column,
)
from dp_spark.frames.names import quoted
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, REPORT_COLUMN
from dp_spark.release.survey import SurveyPlan

_SHUFFLE_PARTS = "spark.sql.shuffle.partitions"


def decoded(counts: DataFrame, *, plan: SurveyPlan) -> DataFrame:
    """Numbered columns of groups, CODE, NUMBERS, FLAGS and REPORTS: of each group a row for each category.

    Groups without a report are not there. Groups are few and take long, so that Spark, which puts small
    partitions together, is told into how many parts they go: not one for each group, for a task costs the
    workers half as much as a group.
    """
    names, estimate = plan.spec.group_columns, plan.spec.estimate
    groups = [group_column(i) for i in range(len(names))]
    decoding = Decoding(
        groups=len(groups),
        report=REPORT_COLUMN,
        count=COUNT_COLUMN,
        mechanism=plan.mechanism,
        method=estimate.method.value,
        consistency=estimate.consistency.value,
    )
    types = {
        **dict.fromkeys(groups, "string"),
        CODE: "int",
        **dict.fromkeys(NUMBERS, "double"),
        **dict.fromkeys(FLAGS, "boolean"),
        REPORTS: "long",
    }
    schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
    own = (F.col(quoted(name)).alias(group) for name, group in zip(names, groups, strict=True))
    parts = min(len(plan.groups), int(str(counts.sparkSession.conf.get(_SHUFFLE_PARTS))))
    return (
        counts.select(*own, REPORT_COLUMN, COUNT_COLUMN)
        .repartition(parts, *groups)
        .mapInArrow(partial(decoded_groups, decoding=decoding), schema)
    )
