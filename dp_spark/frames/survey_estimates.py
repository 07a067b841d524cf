"""Shares of each group from its counted reports, decoded by Python workers beside each other."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from dp_spark.frames.names import quoted
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, REPORT_COLUMN
from dp_spark.release.survey import SurveyPlan
from dp_spark.uldp import Mechanism, ReportCounts

NUMBERS, FLAGS = ("shares", "stds", "low", "high"), ("biased", "boundary")
CODE, REPORTS = "code", "reports"


def decoded(counts: DataFrame, *, plan: SurveyPlan) -> DataFrame:
    """The columns of groups, CODE, NUMBERS, FLAGS and REPORTS of each group: a row for each category.

    Groups without a report are not there.
    """
    groups, estimate = plan.spec.group_columns, plan.spec.estimate
    decode = partial(
        _group,
        names=groups,
        mechanism=plan.mechanism,
        method=estimate.method.value,
        consistency=estimate.consistency.value,
    )
    types = {
        **dict.fromkeys(map(quoted, groups), "string"),
        CODE: "int",
        **dict.fromkeys(NUMBERS, "double"),
        **dict.fromkeys(FLAGS, "boolean"),
        REPORTS: "long",
    }
    schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
    return counts.groupBy(*map(quoted, groups)).applyInPandas(decode, schema)


def _group(
    rows: pd.DataFrame, *, names: tuple[str, ...], mechanism: Mechanism, method: str, consistency: str
) -> pd.DataFrame:
    counted = ReportCounts(rows[REPORT_COLUMN].to_numpy(np.int64), rows[COUNT_COLUMN].to_numpy(np.int64))
    found = mechanism.estimate(counted, method=method, consistency=consistency)
    columns: dict[str, Any] = {name: rows[name].iloc[0] for name in names}
    columns[CODE] = np.arange(mechanism.n_categories, dtype=np.int32)
    columns |= {name: getattr(found, name) for name in (*NUMBERS, *FLAGS)}
    return pd.DataFrame(columns | {REPORTS: found.n})
