"""The gate of a wave: its two staged tables against everything its plan promises.

What is looked at is public or about to be: counts of reports, and shares estimated from them.
"""

from collections.abc import Iterator
from itertools import product
from typing import Literal

import pyarrow as pa

from dp_spark.checks.gate import check_table
from dp_spark.checks.promises import LARGEST, Promise, PromiseKind
from dp_spark.checks.verdict import Verdict
from dp_spark.publish.survey_tables import (
    SURVEY_ID,
    WAVE,
    counts_schema,
    estimates_schema,
)
from dp_spark.release.spec.groups import TOTAL_LABEL
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, REPORT_COLUMN
from dp_spark.release.survey import SurveyPlan
from dp_spark.uldp import Consistency, Method
from dp_spark.uldp.block_mechanism import BlockMechanism
from dp_spark.uldp.exposure import exposure


def check_wave(counts: pa.Table, estimates: pa.Table, plan: SurveyPlan, survey_id: str) -> dict[str, Verdict]:
    """Which expectations each of the two tables of a wave meets, by the name of the table.

    Raises:
        SetupRefused: Great Expectations cannot be imported in this process.
    """
    wave = survey_id.rsplit("/", 1)[1]
    names = list(plan.spec.group_columns)
    looked_at = {
        "reports": (counts, _distinct(counts, [*names, REPORT_COLUMN]), _of_counts(plan, wave)),
        "estimates": (
            estimates,
            _categories(plan, counts),
            _of_estimates(plan, wave, survey_id),
        ),
    }
    return {
        name: check_table(table, columns=_schemas(plan)[name].names, groups=groups, promises=list(promises))
        for name, (table, groups, promises) in looked_at.items()
    }


def _schemas(plan: SurveyPlan) -> dict[str, pa.Schema]:
    return {"reports": counts_schema(plan), "estimates": estimates_schema(plan)}


def _of_schema(schema: pa.Schema) -> Iterator[Promise]:
    for field in schema:
        yield Promise(PromiseKind.TYPE, (field.name,), str(field.type))
        yield Promise(PromiseKind.NOT_NULL, (field.name,))


def _of_counts(plan: SurveyPlan, wave: str) -> Iterator[Promise]:
    yield from _of_schema(counts_schema(plan))
    yield Promise(PromiseKind.CONSTANT, (WAVE,), wave)
    yield Promise(PromiseKind.FINITE, (COUNT_COLUMN,), 1)
    yield Promise(PromiseKind.FINITE, (REPORT_COLUMN,), 0)
    assert isinstance(plan.mechanism, BlockMechanism)  # a survey's reports are numbers
    first = plan.mechanism.sampler.reports.starts()[-2]
    rate = exposure(plan.mechanism).answers_in_clear
    yield Promise(PromiseKind.RATE, (REPORT_COLUMN, COUNT_COLUMN), f"{first} {rate!r}")


def _of_estimates(plan: SurveyPlan, wave: str, survey_id: str) -> Iterator[Promise]:
    yield from _of_schema(estimates_schema(plan))
    yield Promise(PromiseKind.CONSTANT, (WAVE,), wave)
    yield Promise(PromiseKind.CONSTANT, (SURVEY_ID,), survey_id)
    estimate = plan.spec.estimate
    consistent = estimate.method is Method.LIKELIHOOD or estimate.consistency is not Consistency.NONE
    yield Promise(PromiseKind.FINITE, ("share",), 0.0 if consistent else -LARGEST)
    yield Promise(PromiseKind.FINITE, ("share_std",), 0.0)
    yield Promise(PromiseKind.FINITE, ("reports",), 1)
    yield Promise(PromiseKind.ORDERED, ("share", "share_low"))
    yield Promise(PromiseKind.ORDERED, ("share_high", "share"))
    if consistent:
        yield Promise(PromiseKind.SUM_OF_ONE, ("share", *plan.spec.group_columns))


def _distinct(counts: pa.Table, names: list[str]) -> pa.Table:
    """Each group and report once, in order."""
    in_order: list[tuple[str, Literal["ascending", "descending"]]] = [(name, "ascending") for name in names]
    return counts.select(names).group_by(names).aggregate([]).sort_by(in_order)


def _categories(plan: SurveyPlan, counts: pa.Table) -> pa.Table:
    """Of each group that has reports, and of all, each category."""
    names = list(plan.spec.group_columns)
    keys = (
        [tuple(row[name] for name in names) for row in _distinct(counts, names).to_pylist()] if names else []
    )
    rows = [key + cell for key, cell in product([*keys, (TOTAL_LABEL,) * len(names)], plan.domain.cells)]
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(values, pa.string()) for values in columns], names=[*names, *plan.domain.columns]
    )
