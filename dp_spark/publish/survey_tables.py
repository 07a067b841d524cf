"""The two tables of a wave: how often each report occurs, and the shares that are estimated from it.

The first is all that leaves of the reports: who sent one, in which order, is not in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dp_spark.release.spec.groups import TOTAL_LABEL
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, GROUP_COLUMN, REPORT_COLUMN
from dp_spark.release.survey import SurveyPlan
from dp_spark.uldp import Estimate
from dp_spark.uldp.pooling import is_small

WAVE, SURVEY_ID = "wave", "survey_id"
_NUMBERS, _FLAGS = ("shares", "stds", "low", "high"), ("biased", "boundary")


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """What was estimated for one group, or for all.

    Attributes:
        key: its values, or `(all)` in each.
        estimate: shares of all categories by code.
        reports: people with a report.
        small: whether the error of a sensitive share is mostly larger than such a share.
    """

    key: tuple[str, ...]
    estimate: Estimate
    reports: int
    small: bool


def counts_schema(plan: SurveyPlan) -> pa.Schema:
    """The schema of the table of reports; comments stand in the fields' metadata."""
    return _schema(
        _field(WAVE, pa.string(), "wave of the survey"),
        *_groups(plan),
        _field(REPORT_COLUMN, pa.int64(), "a block of sensitive categories, or an answer; see the statement"),
        _field(COUNT_COLUMN, pa.int64(), "people who sent this report"),
    )


def estimates_schema(plan: SurveyPlan) -> pa.Schema:
    """The schema of the table of estimates."""
    return _schema(
        _field(WAVE, pa.string(), "wave of the survey"),
        *_groups(plan),
        *(
            _field(name, pa.string(), "category of the answer; (other) is whatever is not listed")
            for name in plan.domain.columns
        ),
        _field("sensitive", pa.bool_(), "whether the category is sensitive"),
        _field("share", pa.float64(), "estimated share of the group's people"),
        _field("share_std", pa.float64(), "standard error of the share: of randomization and of sampling"),
        _field("share_low", pa.float64(), "lower end of the 95 % interval"),
        _field("share_high", pa.float64(), "upper end of the 95 % interval"),
        _field("reports", pa.int64(), "people of the group with a report"),
        _field("small", pa.bool_(), "whether sensitive shares are mostly smaller than their error"),
        _field("biased", pa.bool_(), "whether the share is drawn toward its prior, or was clipped"),
        _field("boundary", pa.bool_(), "whether the share is 0 or cannot be told from it"),
        _field(SURVEY_ID, pa.string(), "population/survey/wave"),
    )


def counts_table(plan: SurveyPlan, wave: str, counted: pa.Table) -> pa.Table:
    """The table of reports, sorted by group and report.

    Args:
        plan: of the survey.
        wave: its name.
        counted: the number of a group, a report and how many sent it, in these columns.
    """
    reports, numbers = counted[REPORT_COLUMN].cast(pa.int64()), counted[GROUP_COLUMN].combine_chunks()
    listed = zip(*plan.groups, strict=True) if plan.spec.group_columns else ()
    arrays: list[pa.Array[Any] | pa.ChunkedArray[Any]] = [
        pa.array([wave] * len(reports), pa.string()),
        *(pa.array(part, pa.string()).take(numbers) for part in listed),
        reports,
        counted[COUNT_COLUMN],
    ]
    table = pa.Table.from_arrays(arrays, schema=counts_schema(plan))
    order: list[tuple[str, Literal["ascending", "descending"]]] = [
        (name, "ascending") for name in (*plan.spec.group_columns, REPORT_COLUMN)
    ]
    return table.sort_by(order)


def estimates_table(plan: SurveyPlan, survey_id: str, found: Sequence[GroupEstimate]) -> pa.Table:
    """One row for each group and category, groups in the order given, categories by their codes."""
    schema = estimates_schema(plan)
    arrays = (
        pa.array(values, field.type)
        for values, field in zip(_values(plan, survey_id, found), schema, strict=True)
    )
    return pa.Table.from_arrays(list(arrays), schema=schema)


def group_estimates(plan: SurveyPlan, decoded: pa.Table) -> list[GroupEstimate]:
    """The estimates that workers made, in the order of the groups: a row for each group and category.

    Columns: those of groups by their numbers (`group_0`), `code`, the fields of an estimate, `reports`.
    """
    names = [f"group_{i}" for i in range(len(plan.spec.group_columns))]
    in_order: list[tuple[str, Literal["ascending", "descending"]]] = [
        (name, "ascending") for name in (*names, "code")
    ]
    rows, w = decoded.sort_by(in_order), plan.domain.n_categories
    keys = list(zip(*(rows[name].to_pylist()[::w] for name in names), strict=True))
    fields = {field: rows[field].to_numpy().reshape(-1, w) for field in (*_NUMBERS, *_FLAGS)}
    reports = rows["reports"].to_numpy()[::w]
    asked = plan.spec.estimate
    return [
        group_estimate(
            plan,
            key,
            Estimate(
                **{field: values[i] for field, values in fields.items()},
                n=int(reports[i]),
                method=asked.method,
                consistency=asked.consistency,
            ),
        )
        for i, key in enumerate(keys)
    ]


def group_estimate(plan: SurveyPlan, key: tuple[str, ...], estimate: Estimate) -> GroupEstimate:
    """What was estimated of one group."""
    return GroupEstimate(key, estimate, estimate.n, is_small(estimate, plan.domain.n_sensitive))


def wave_groups(plan: SurveyPlan, estimates: pa.Table) -> dict[tuple[str, ...], tuple[int, bool]]:
    """People with a report, and whether they are too few, of each group of the table of estimates.

    The total is among them where there are no groups.
    """
    w, names = plan.domain.n_categories, plan.spec.group_columns
    first = estimates.take(pa.array(range(0, estimates.num_rows, w)))
    keys = zip(*(first[name].to_pylist() for name in names), strict=True) if names else [()]
    told = zip(first["reports"].to_numpy().tolist(), first["small"].to_numpy().tolist(), strict=True)
    everybody = (TOTAL_LABEL,) * len(names)
    return {key: each for key, each in zip(keys, told, strict=True) if not names or key != everybody}


def _values(plan: SurveyPlan, survey_id: str, found: Sequence[GroupEstimate]) -> Iterator[Any]:
    w, v = plan.domain.n_categories, plan.domain.n_sensitive
    rows = w * len(found)
    yield [survey_id.rsplit("/", 1)[1]] * rows
    for i in range(len(plan.spec.group_columns)):
        yield [value for group in found for value in [group.key[i]] * w]
    for texts in zip(*plan.domain.cells, strict=True):
        yield list(texts) * len(found)
    yield np.tile(np.arange(w) < v, len(found))
    for name in _NUMBERS:
        yield np.concatenate([getattr(group.estimate, name) for group in found]) + 0.0
    yield np.repeat([group.reports for group in found], w)
    yield np.repeat([group.small for group in found], w)
    for name in _FLAGS:
        yield np.concatenate([getattr(group.estimate, name) for group in found])
    yield [survey_id] * rows


def _schema(*fields: "pa.Field[Any]") -> pa.Schema:
    return pa.schema(fields)


def _groups(plan: SurveyPlan) -> "Iterator[pa.Field[Any]]":
    for name in plan.spec.group_columns:
        yield _field(name, pa.string(), f"public group; {TOTAL_LABEL} is everybody")


def _field(name: str, kind: pa.DataType, comment: str) -> "pa.Field[Any]":
    return pa.field(name, kind, nullable=False, metadata={b"comment": comment.encode()})
