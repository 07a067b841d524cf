"""Answers to reports: each person has one, that of plain Python, however the input comes."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from scipy.stats import chi2
from surveys import KEY, report, survey_plan, token

from dp_spark.errors import InputRefused
from dp_spark.frames.coding import coding_of
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.identity import identities
from dp_spark.frames.numbering import GroupNumbers
from dp_spark.frames.packing import Packing, packed
from dp_spark.frames.survey import not_yet, randomized, report_counts
from dp_spark.frames.survey_estimates import decoded
from dp_spark.frames.survey_input import check_survey_columns
from dp_spark.frames.survey_reports import Drawing, drawn_reports, first_answers
from dp_spark.publish.survey_tables import group_estimates
from dp_spark.queries import Listed
from dp_spark.release.survey import SurveyPlan

NAN = float("nan")
Row = tuple[bytes, str, int]


def reports_of(frame: DataFrame, plan: SurveyPlan) -> list[Row]:
    """Token, group and report of each person, sorted."""
    found = to_arrow(randomized(frame, plan=plan, wave_key=KEY))
    tokens, groups, reports = (column.to_pylist() for column in found.columns)
    return sorted(
        (token, *plan.groups[group], told) for token, group, told in zip(tokens, groups, reports, strict=True)
    )


@contextmanager
def setting(spark: SparkSession, **changed: str) -> Iterator[None]:
    keys = {
        "partitions": "spark.sql.shuffle.partitions",
        "rows": "spark.sql.execution.arrow.maxRecordsPerBatch",
    }
    before = {keys[name]: spark.conf.get(keys[name]) for name in changed}
    for name, value in changed.items():
        spark.conf.set(keys[name], value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def test_each_report_is_that_of_plain_python(spark: SparkSession) -> None:
    """Units and answers of several columns: NULL, NaN, unknown and long texts, NFD, dates, numbers."""
    plan = survey_plan(
        unit={"columns": ["person", "house"], "on_null": "drop"},
        answer=["work", "since", "score"],
        domain={
            "categories": {
                "work": {"school": False, "caf\u00e9": True},
                "since": {"2020-02-29": False, "1999-12-31": True},
                "score": {"1.0": False, "-2.5": False},
            },
            "sensitive": "any",
        },
    )
    works = ["school", "caf\u00e9", "cafe\u0301", "other", "School", "x" * 5000, "", None]
    days = [date(2020, 2, 29), date(1999, 12, 31), date(2001, 1, 1), None]
    scores = [1.0, -2.5, 7.0, NAN, None]
    people = ["a", "Zo\u00eb", "Zoe\u0308 ", "b" * 100, "caf\u00e9 " * 9, ""]
    rows = [
        (people[i % 6], i // 6, works[i % 8], days[i % 4], scores[i % 5], state)
        for i in range(240)
        for state in [["CA", "\u00cele", "I\u0302le"][i % 3]]
    ]
    dropped = [(None, 1, "school", days[0], 1.0, "CA"), ("c", None, "school", days[0], 1.0, "CA")]
    dropped += [("c", 1, "school", days[0], 1.0, state) for state in ("NY", None, "")]
    schema = "person string, house long, work string, since date, score double, state string"
    frame = spark.createDataFrame(rows + dropped, schema)
    check_survey_columns(frame, plan.spec)

    def told(row: Any) -> Row:
        person, house, work, since, score, state = row
        cell = {
            "work": work,
            "since": None if since is None else since.isoformat(),
            "score": None if score is None or score != score else str(score),
        }
        unit = (house, person)  # columns are in order
        answer = report(plan, unit, [cell[column] for column in plan.domain.columns])
        return token(unit), unicodedata.normalize("NFC", state), answer

    assert reports_of(frame, plan) == sorted(map(told, rows))
    assert len({row[2] for row in map(told, rows)}) > 6


def answers(people: int = 400) -> list[tuple[int, str, str, int]]:
    """Two answers of some people, the second at the same time for a half of these."""
    works = ["school", "ill", "caf\u00e9", "else"]
    once = [(i, works[i % 4], ["CA", "\u00cele"][i % 2], 5) for i in range(people)]
    return once + [(i, works[(i + 1) % 4], "CA", 5 + i % 4) for i in range(0, people, 2)]


SCHEMA = "person long, work string, state string, at int"


def test_partitions_order_batches_and_duplicates_change_nothing(spark: SparkSession) -> None:
    rows, plan = answers(), survey_plan(first="at")
    expected = reports_of(spark.createDataFrame(rows, SCHEMA), plan)
    assert len(expected) == 400
    for partitions, batch, other in (
        ("1", "7", rows[::-1]),
        ("5", "16384", rows * 2),
        ("3", "100", sorted(rows)),
    ):
        with setting(spark, partitions=partitions, rows=batch):
            frame = spark.createDataFrame(other, SCHEMA).repartition(int(partitions))
            assert reports_of(frame, plan) == expected


@pytest.mark.parametrize("kind", ["timestamp", "string", "date", "long"])
def test_of_a_persons_answers_the_first_stands_a_missing_time_last(spark: SparkSession, kind: str) -> None:
    times = {
        "timestamp": [datetime(1969, 1, 1), datetime(2024, 1, 1), None],
        "string": ["2024-01-01 09:00:00", "2024-01-01 10:00:00", "no time"],
        "date": [date(1969, 1, 1), date(2024, 1, 1), None],
        "long": [-(2**63), -1, None],
    }[kind]
    plan = survey_plan(first="at")
    pairs = [(0, 1), (1, 2), (0, 2)]
    said = [("school", "CA"), ("ill", "\u00cele")]
    rows = [
        (i, *said[(i + j) % 2], times[pairs[i % 3][j]]) for i in range(300) for j in (0, 1)
    ]  # of person i the answer said[i % 2] comes first
    frame = spark.createDataFrame(rows, SCHEMA.replace("at int", f"at {kind}"))
    expected = [(token([i]), said[i % 2][1], report(plan, [i], [said[i % 2][0]])) for i in range(300)]
    assert reports_of(frame, plan) == sorted(expected)


def test_two_spellings_of_one_person_are_one(spark: SparkSession) -> None:
    plan = survey_plan(first="at")
    rows = [("Zo\u00eb", "school", "CA", 2), ("Zoe\u0308", "ill", "CA", 1)]
    frame = spark.createDataFrame(rows, SCHEMA.replace("person long", "person string"))
    assert reports_of(frame, plan) == [(token(["Zo\u00eb"]), "CA", report(plan, ["Zo\u00eb"], ["ill"]))]


def test_of_answers_at_one_time_a_fair_coin_keeps_one_wherever_they_stand() -> None:
    """20,000 people: 6 standard deviations, a false alarm of 2e-9."""
    n = 20_000
    ids = np.random.default_rng(1).integers(0, 2**64, (n, 2), dtype=np.uint64)
    ids[: n // 2, 0] = ids[n // 2 :, 0]  # halves of identities alike: told apart by the other half
    both, codes = np.concatenate([ids, ids]), np.repeat([0, 1], n)
    group = np.zeros(2 * n, dtype=np.uint8)
    kept = first_answers(both, group, codes, None)
    assert np.array_equal(np.unique(both[kept], axis=0), np.unique(ids, axis=0))
    assert len(kept) == n
    assert abs(codes[kept].sum() - n / 2) < 6 * np.sqrt(n) / 2
    turned = first_answers(both[::-1], group, codes[::-1], None)
    assert np.array_equal(codes[::-1][turned], codes[kept])


def test_changing_answers_on_30_nights_leave_one_report_of_a_person(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan, path = survey_plan(), str(tmp_path / "batches")
    works = ["school", "ill", "caf\u00e9", "else"]
    first: dict[bytes, int] = {}
    with setting(spark, partitions="1"):
        for night in range(30):
            people = range(night % 3, 60 + night, 1 + night % 3)
            rows = [(i, works[(i + night) % 4], "CA", night) for i in people]
            for i, work, *_ in rows:
                first.setdefault(token([i]), report(plan, [i], [work]))
            found = randomized(spark.createDataFrame(rows, SCHEMA).coalesce(1), plan=plan, wave_key=KEY)
            if night:
                found = not_yet(found, stored=spark.read.schema(found.schema).parquet(path))
            found.write.mode("append").parquet(path)
        batches = spark.read.parquet(path)
        stored = to_arrow(batches)
        counts = to_arrow(report_counts(batches))
    tokens = stored["token"].to_pylist()
    assert dict(zip(tokens, stored["report"].to_pylist(), strict=True)) == first
    assert len(tokens) == len(first) == 88
    assert counts.column_names == ["group", "report", "n"]
    assert sum(counts["n"].to_pylist()) == 88


def test_without_groups_everybody_is_one(spark: SparkSession) -> None:
    plan = survey_plan(group_by=None, groups=None)
    found = randomized(spark.createDataFrame(answers(9)[:9], SCHEMA), plan=plan, wave_key=KEY)
    assert found.columns == ["token", "group", "report"]
    assert to_arrow(report_counts(found))["n"].to_numpy().sum() == 9


def test_a_column_that_is_missing_or_cannot_serve_is_refused(spark: SparkSession) -> None:
    plan = survey_plan(first="when")
    frame = spark.createDataFrame([], "person double, work array<int>, stat string, when boolean")
    with pytest.raises(InputRefused) as refused:
        check_survey_columns(frame, plan.spec)
    for said in (
        "unit.column = 'person': is double",
        "answer = 'work'",
        "did you mean 'stat'",
        "first = 'when'",
    ):
        assert said in str(refused.value)


def drawing_of(plan: SurveyPlan) -> Drawing:
    (categories,) = plan.domain.categories
    return Drawing(
        Packing(1, GroupNumbers(plan.groups), [coding_of(Listed("work", categories))], 256),
        plan.domain.codes({"work": categories}),
        0,
        ("token", "group", "report"),
        np.dtype(np.int64),
        plan.mechanism.n_words,
        plan.mechanism.randomize,
    )


def drawn_from(rows: pa.RecordBatch, plan: SurveyPlan) -> dict[bytes, int]:
    """The report of each token, by the functions of workers alone."""
    drawing = drawing_of(plan)
    buckets = packed(iter([rows]), packing=drawing.packing, key=KEY)
    drawn = pa.Table.from_batches(drawn_reports(buckets, drawing=drawing, words_key=KEY[::-1]))
    return dict(zip(drawn["token"].to_pylist(), drawn["report"].to_pylist(), strict=True))


def test_reports_have_the_distribution_of_the_channel() -> None:
    """Chi-square of 100,000 people for each of 4 codes: a false alarm of 1e-9, an epsilon 10 % off seen."""
    plan, n = survey_plan(), 100_000
    texts = [None, *(cell[0] for cell in plan.domain.cells[1:])]
    people = pa.array(np.arange(4 * n))
    rows = pa.record_batch({"unit": people, "key": pa.array(["CA"] * 4 * n), "source": pa.array(texts * n)})
    by_token = drawn_from(rows, plan)
    tokens = identities([people], KEY).view("V16")[:, 0].tolist()
    reports = np.array([by_token[each] for each in tokens])

    def excess(epsilon: str) -> float:
        sampler = replace(plan.mechanism.sampler, epsilon=Fraction(epsilon))
        channel = replace(plan.mechanism, sampler=sampler).channel()
        assert set(reports.tolist()) <= set(channel.reports.tolist())
        place = np.searchsorted(channel.reports, reports)
        size = len(channel.reports)
        seen = np.bincount(np.arange(4 * n) % 4 * size + place, minlength=4 * size).reshape(4, size)
        expected = n * channel.matrix.astype(float)
        possible = expected > 0
        assert not seen[~possible].any()
        statistic = ((seen - expected)[possible] ** 2 / expected[possible]).sum()
        return float(statistic - chi2.isf(1e-9, possible.sum() - 4))

    assert excess("1") < 0
    assert excess("1.1") > 0
    assert excess("0.9") > 0


def test_columns_of_groups_may_have_the_names_of_decoding(spark: SparkSession) -> None:
    names = ["code", "shares", "stds", "low", "high", "group_1"]
    keys = {key: [[key] * len(names)] for key in ("a", "b")}
    plan = survey_plan(group_by=names, groups={"public": [each for (each,) in keys.values()]})
    rows = [(*each, 0, n) for (each,), n in zip(keys.values(), (30, 50), strict=True)]
    counts = spark.createDataFrame(rows, [*names, "report", "n"])
    found = group_estimates(plan, to_arrow(decoded(counts, plan=plan)))
    assert [(group.key, group.reports) for group in found] == [(("a",) * 6, 30), (("b",) * 6, 50)]
