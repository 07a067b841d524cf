"""A survey's answers to reports, one for each person, and reports to counts.

A worker turns a row into its person's token, its group's number and its answer's code; after one shuffle by
tokens another keeps one answer of each person and randomizes it. No answer leaves Python but as the code that
is shuffled, and no report is there of an answer that does not stand.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.aggregate import shuffle_buckets
from dp_spark.frames.bound import Integers
from dp_spark.frames.coding import OrderCoding, coding_of
from dp_spark.frames.columns import identifying, key_texts, read_column, short
from dp_spark.frames.names import quoted
from dp_spark.frames.numbering import GroupNumbers
from dp_spark.frames.packing import BUCKET, Packing, packed
from dp_spark.frames.survey_reports import Drawing, drawn_reports
from dp_spark.noise import derive_key
from dp_spark.queries import Listed
from dp_spark.release.spec.survey_columns import (
    COUNT_COLUMN,
    GROUP_COLUMN,
    REPORT_COLUMN,
    TOKEN_COLUMN,
)
from dp_spark.release.survey import SurveyPlan
from dp_spark.uldp import CATCH_ALL, Domain
from dp_spark.uldp.block_mechanism import BlockMechanism

_EVERYBODY = ("",)  # the group of a survey without groups, on the way


def randomized(frame: DataFrame, *, plan: SurveyPlan, wave_key: bytes) -> DataFrame:
    """Token (16 bytes), number of the group and report: one row for each person with an answer.

    A row counts whose unit has no NULL and whose group is public. Of several rows of a person that with the
    least value of `first` stands, a NULL last; between equal ones a keyed choice, the same for any order,
    partitions and batches. Whatever is not listed in the domain is the catch-all. To be called within
    `session.pinned`, as every action on it. Keys travel inside the functions that Python workers run.
    """
    drawing = drawing_of(frame, plan)
    packing, spec = drawing.packing, plan.spec
    pack = partial(packed, packing=packing, key=derive_key(wave_key, "survey token"))
    draw = partial(drawn_reports, drawing=drawing, words_key=derive_key(wave_key, "survey words"))
    read = {
        "unit": [identifying(frame, name) for name in spec.unit.columns],
        "key": [short(text) for text in key_texts(spec.group_columns, None)] or [F.lit(*_EVERYBODY)],
        "source": [read_column(frame, source) for source in packing.sources],
    }
    named = (each.alias(f"{of}_{i}") for of, columns in read.items() for i, each in enumerate(columns))
    rows = frame
    for name in spec.unit.columns:
        rows = rows.where(F.col(quoted(name)).isNotNull())
    return (
        rows.select(*named)
        .mapInArrow(pack, packing.schema)
        .repartition(BUCKET)
        .mapInArrow(draw, report_schema(plan))
    )


def report_schema(plan: SurveyPlan) -> str:
    """The schema of reports, as Spark reads it."""
    kind = "int" if _report_type(plan) == np.int32 else "long"
    return f"{TOKEN_COLUMN} binary, {GROUP_COLUMN} int, {REPORT_COLUMN} {kind}"


def not_yet(reports: DataFrame, *, stored: DataFrame) -> DataFrame:
    """The reports of people who have none among those that are stored."""
    return reports.join(stored.select(TOKEN_COLUMN), on=TOKEN_COLUMN, how="left_anti").select(
        *map(quoted, reports.columns)
    )


def people_of(batches: DataFrame) -> DataFrame:
    """One row: how many `reports` there are, and of how many `people`."""
    each = batches.groupBy(TOKEN_COLUMN).agg(F.count(F.lit(1)).alias(COUNT_COLUMN))
    people, reports = F.count(F.lit(1)), F.coalesce(F.sum(COUNT_COLUMN), F.lit(0))
    return each.agg(people.alias("people"), reports.alias("reports"))


def report_counts(batches: DataFrame) -> DataFrame:
    """How often each report occurs in each group: the group's number, report and count; no tokens."""
    return batches.groupBy(GROUP_COLUMN, REPORT_COLUMN).agg(F.count(F.lit(1)).alias(COUNT_COLUMN))


def drawing_of(frame: DataFrame, plan: SurveyPlan) -> Drawing:
    """What the workers of a survey need to know, the keys aside."""
    spec, domain, mechanism = plan.spec, plan.domain, plan.mechanism
    assert isinstance(mechanism, BlockMechanism)  # a spec names no other
    texts = zip(spec.answer, domain.categories, strict=True)
    packing = Packing(
        units=len(spec.unit.columns),
        numbers=GroupNumbers(plan.groups if spec.group_columns else [_EVERYBODY]),
        values=[
            *(coding_of(Listed(column, categories)) for column, categories in texts),
            *([] if spec.first is None else [OrderCoding(spec.first)]),
        ],
        buckets=shuffle_buckets(frame.sparkSession),
    )
    return Drawing(
        packing=packing,
        code_of_cell=_codes_of_cells(domain),
        catch_all=CATCH_ALL,
        report_type=_report_type(plan),
        n_words=mechanism.n_words,
        randomize=mechanism.sampler.draw,  # alone: the estimators take a worker seconds to import
    )


def _report_type(plan: SurveyPlan) -> np.dtype[Any]:
    """The least type that holds all reports."""
    mechanism = plan.mechanism
    assert isinstance(mechanism, BlockMechanism)  # a spec names no other
    small = mechanism.sampler.reports.size <= np.iinfo(np.int32).max
    return np.dtype(np.int32 if small else np.int64)


def _codes_of_cells(domain: Domain) -> Integers:
    """The code of each cell of listed texts, the last column fastest."""
    columns = zip(*product(*domain.categories), strict=True)
    return domain.codes(dict(zip(domain.columns, columns, strict=True)))
